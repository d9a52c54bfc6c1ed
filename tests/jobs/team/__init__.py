"""Tests of jobs/team."""
