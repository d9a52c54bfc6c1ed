"""Two web servers and two reconcilers behind a proxy: what a restart, a kill and a second web cost."""
