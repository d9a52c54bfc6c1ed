"""The one door to Kubernetes: client, errors, names, manifests, watches and the view of them."""
