"""Tests of jobs/scheduling."""
