"""Secrets of people."""
