"""Tests of notebooks and TensorBoards."""
