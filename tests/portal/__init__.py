"""Tests of the portal shell."""
