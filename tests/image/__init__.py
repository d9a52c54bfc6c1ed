"""Homeport's image, built and run without a daemon."""
