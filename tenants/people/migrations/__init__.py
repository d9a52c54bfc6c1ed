"""Tests of migrations."""
