"""Tests of the life of trainings."""
