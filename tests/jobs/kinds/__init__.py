"""Tests of what kinds of workloads do, on plain data."""
