"""Tests of the command line `homeport`."""
