"""Tests of onebox's controllers, on the real Api with its state in a temporary folder."""
