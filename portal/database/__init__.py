"""Databases: a PostgreSQL backend, copies of SQLite, and which migrations there are."""
