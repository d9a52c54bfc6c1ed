"""Tests of the web side of all kinds."""
