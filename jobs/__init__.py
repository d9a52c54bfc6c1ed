"""What runs: trainings, and later notebooks and TensorBoards."""
