"""Every call that changes the cluster, with every fault that it may meet."""
