"""An upstream Kubernetes control plane on this machine, built from its published Go modules."""
