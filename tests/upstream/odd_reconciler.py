"""Runs the reconciler as `manage.py serve --no-web` does, but with no lease, with a moved clock, or
again and again.

`python -m tests.upstream.odd_reconciler [--no-lease] [--clock FILE] [--many]`: the file holds by how
many seconds the wall clock is off, and may be rewritten while this runs. With `--many` each line of
standard input starts one more process, whose id is printed: importing is done once for all of them.
"""

import argparse
import ctypes
import os
import signal
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import django
from django.core.management import call_command
from django.utils import timezone


def move_clock(file: Path) -> None:
    """Everything of ours that asks for the wall clock from now on hears the moved one."""
    real_s, real_now = time.time, timezone.now

    def offset_s() -> float:
        return float(file.read_text() or 0)

    def moved_s() -> float:
        return real_s() + offset_s()

    def moved_now() -> datetime:
        return real_now() + timedelta(seconds=offset_s())

    time.time = moved_s
    timezone.now = moved_now


def drop_lease() -> None:
    """As if there were none: everybody believes at any moment that it is theirs."""
    from jobs.leader import lease

    async def acquired(self: lease.Lease) -> bool:
        self._held_until = float("inf")
        return True

    async def commit(self: lease.Lease, write: Any) -> Any:
        return await lease.sync_to_async(_in_transaction)(write)

    def _in_transaction(write: Any) -> Any:
        with lease.transaction.atomic():
            return write()

    lease.Lease.try_acquire = acquired  # type: ignore[method-assign]
    lease.Lease.commit = commit  # type: ignore[method-assign, assignment]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-lease", action="store_true")
    parser.add_argument("--clock", type=Path)
    parser.add_argument("--many", action="store_true")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    if given.clock:
        move_clock(given.clock)
    django.setup()
    if given.no_lease:
        drop_lease()
    if not given.many or _is_child():
        call_command("serve", "--no-web")


def _is_child() -> bool:
    """Forks for each line that comes; True in the processes that this makes."""
    import jobs.engine.loop  # noqa: F401 - before the first fork

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the dead are buried at once
    for _ in sys.stdin:
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            die_with_parent()
            return True
        print(pid, flush=True)
    return False


def die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


if __name__ == "__main__":
    main()
