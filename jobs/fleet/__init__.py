"""Nodes, the queue, and how the cluster and the reconciler are."""
