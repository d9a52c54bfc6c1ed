"""Tests of the pure rules about jobs."""
