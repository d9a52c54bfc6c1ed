"""The only client of Kubernetes: calls, errors, names, manifests, and a cache of what is watched."""
