"""Backups: one file with all that an installation knows, and the way back from it.

`file` is the format, `about` what a file says of itself, `rows` the tables of PostgreSQL, `taking`
and `restoring` what `manage.py backup` and `manage.py restore` do. Everything here blocks.
"""


class BackupError(Exception):
    """It was not done; the text says why in words, and what to do. Nothing was changed."""
