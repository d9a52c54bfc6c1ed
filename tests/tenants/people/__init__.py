"""Tests of people, teams and signing in."""
