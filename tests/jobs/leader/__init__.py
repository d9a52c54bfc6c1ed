"""Tests of the lease and of the clock."""
