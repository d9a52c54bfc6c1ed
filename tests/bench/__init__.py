"""Measures Homeport against the plainest thing that does the same work: `make bench`."""
