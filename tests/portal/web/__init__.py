"""Tests of what pages and REST share."""
