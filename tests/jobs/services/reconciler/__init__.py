"""Tests of what makes notebooks and TensorBoards follow their rows."""
