"""Pure knowledge about workloads: no I/O, no Django; what a human would look up in a book."""
