# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""Waits until the names of all other replicas resolve."""

import socket
import threading
import time
from typing import Callable, List

from jobs.pod.protocol.placeholders import ReplicaContext

Say = Callable[[str], None]


def peer_names(context: ReplicaContext) -> List[str]:
    """The host names of all other replicas."""
    names = []
    for role, hosts in sorted(context.hosts.items()):
        for index, host in enumerate(hosts):
            if (role, index) != (context.role, context.task_index):
                names.append(host.rsplit(":", 1)[0])
    return names


def some_names(names: List[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def wait_for_peers(
    names: List[str], timeout_s: float, say: Say, is_stopped: Callable[[], bool]
) -> List[str]:
    """Waits until every name resolves; returns those that did not.

    A program that starts earlier caches "no such name" for up to 30 s. Resolving happens in a
    thread, because a broken resolver blocks for seconds and a signal must not wait for it.
    """
    missing = list(names)
    if not missing:
        return []
    enough = threading.Event()

    def resolve() -> None:
        while missing and not enough.is_set():
            for name in list(missing):
                try:
                    socket.getaddrinfo(name, None)
                    missing.remove(name)
                except (OSError, UnicodeError):
                    pass
            if missing:
                enough.wait(0.25)

    started_at = time.monotonic()
    told = 0
    thread = threading.Thread(target=resolve, daemon=True, name="resolver")
    thread.start()
    while thread.is_alive():
        waited_s = time.monotonic() - started_at
        if is_stopped() or waited_s >= timeout_s:
            break
        if waited_s >= (told + 1) * 10:
            told += 1
            say(f"waiting for {some_names(list(missing))} ({told * 10} s)")
        thread.join(0.1)
    enough.set()
    return list(missing)
