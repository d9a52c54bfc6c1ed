"""Tests of databases that hang, are away, start again or are migrated."""
