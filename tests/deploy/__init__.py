"""Tests of starting and stopping a whole Homeport."""
