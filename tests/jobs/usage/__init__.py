"""Tests of jobs/usage."""
