"""Notebooks and TensorBoards: programs that run until they are stopped, opened through the gate."""
