"""Trainings: replicas that run to an end, with another try, servers beside them and an archive."""
