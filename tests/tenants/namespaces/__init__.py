"""Tests of the life of namespaces."""
