"""A large cluster behind a whole Homeport: upstream's control plane, KWOK's nodes, and measures."""
