"""Whether a reconciler is at work, for commands that must not run beside one.

Times are not compared with another machine's clock: a holder that nobody here knows to be dead is
watched until it renews its lease, or was silent for as long as a lease lasts.
"""

import time
from collections.abc import Callable

from django.db import connections

from jobs.leader.lease import TTL_S, is_dead
from jobs.models import ReconcilerLease

_LOOK_S = 0.5


def find_holder(
    *,
    using: str = "default",
    say: Callable[[str], object],
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> str:
    """The name of the reconciler that renews the lease; empty: there is none. Blocks up to 15 s.

    Args:
        using: alias of the database, which may be of an older version, or have no tables.
        say: takes a line, when it takes longer than a moment.
    """
    connection = connections[using]
    with connection.cursor() as cursor:
        if ReconcilerLease._meta.db_table not in connection.introspection.table_names(cursor):
            return ""
    # Only columns that every version has.
    rows = ReconcilerLease.objects.using(using).values_list("holder", "epoch", "renewed_at")
    first = rows.first()
    if first is None or not first[0] or is_dead(first[0]):
        return ""
    say(f"Looking whether {first[0]} is at work (up to {TTL_S:g} s) ...")
    until = monotonic() + TTL_S
    while monotonic() < until:
        sleep(_LOOK_S)
        now = rows.first()
        if now is None or not now[0] or is_dead(now[0]):
            return ""
        if now != first:
            return str(now[0])
    return ""
