"""Pure knowledge about jobs: no I/O, no Django; what a human would look up in a book."""
