"""A large installation as rows, and every page of it measured."""
