"""Tests of the trial that preflight makes in a cluster."""
