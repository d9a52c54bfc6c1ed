"""Real nodes on this machine, each with namespaces of its own: kubelet, containerd, network."""
