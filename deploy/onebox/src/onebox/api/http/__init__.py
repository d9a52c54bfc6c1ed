"""HTTP: paths, options, bodies, replies, watch streams and logs over `registry.Api`."""
