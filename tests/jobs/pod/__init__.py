"""Tests of pod."""
