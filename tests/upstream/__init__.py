"""What only an upstream cluster can judge; `make test-cluster` runs it."""
