"""onebox where there are neither namespaces nor rights."""
