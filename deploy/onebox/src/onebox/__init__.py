"""onebox, the embedded single-machine cluster: a Kubernetes API and a node on one Linux machine."""
