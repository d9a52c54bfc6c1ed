"""What differs between kinds of workloads, and the life that they share. Planning is pure."""
