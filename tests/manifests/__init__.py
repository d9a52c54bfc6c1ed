"""Whole rendered manifests, as the cluster would get them."""
