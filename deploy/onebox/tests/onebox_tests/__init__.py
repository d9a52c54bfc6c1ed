"""Tests of onebox, the embedded cluster."""
