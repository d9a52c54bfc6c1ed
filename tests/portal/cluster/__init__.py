"""Tests of the door to Kubernetes, against a small real HTTP server that can misbehave."""
