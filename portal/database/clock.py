"""How far the database's clock is from ours."""

import time

from django.db import connection


def ahead_s() -> float | None:
    """Seconds by which it is ahead; None: it is a file of this machine, and has none. Blocking.

    Raises:
        DatabaseError: it does not answer.
    """
    if connection.vendor != "postgresql":
        return None
    with connection.cursor() as cursor:
        asked_at = time.time()
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        (told,) = cursor.fetchone()
    return float(told) - (asked_at + time.time()) / 2
