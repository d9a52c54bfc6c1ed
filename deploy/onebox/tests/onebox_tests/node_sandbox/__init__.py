"""Tests of node_sandbox."""
