"""Notebooks and TensorBoards: one pod that answers behind its gate until it is stopped."""
