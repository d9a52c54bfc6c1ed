"""The reconciler's part that makes notebooks and TensorBoards follow their rows."""
