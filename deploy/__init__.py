"""Where Homeport runs: launcher, embedded cluster, images."""
