"""Django's SQLite backend, in which the writers of a process come in their order (`base.py`)."""
