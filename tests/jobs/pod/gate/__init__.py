"""Tests of the gate: sign-in, proxying, revoking and bounds, against a real app."""
