"""Tests of the reconciler: its rules on plain data, and whole lives on a simulated cluster."""
