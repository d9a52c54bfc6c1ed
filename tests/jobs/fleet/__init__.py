"""Tests of the nodes, the queue and the health page."""
