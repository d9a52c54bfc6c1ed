"""Tests of the repository itself: documents against code, pins, layout."""
