"""Tests of the API half of onebox."""
