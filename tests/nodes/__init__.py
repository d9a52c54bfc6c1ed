"""Tests on real nodes: kubelet, containerd and enforced policies (make test-node)."""
