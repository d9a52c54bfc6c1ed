"""Tests of the life of notebooks and TensorBoards."""
