"""Tests of what stands between the sockets and Django."""
