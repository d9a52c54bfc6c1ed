# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""Waits until the names of all other replicas resolve, and until those that serve answer."""

import socket
import threading
import time
from typing import Callable, List, Sequence

from jobs.pod.protocol.placeholders import ReplicaContext

Say = Callable[[str], None]
GREETING_S = 5.0


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


def resolve(name: str) -> None:
    """
    Raises:
        OSError: the name has no address yet.
    """
    socket.getaddrinfo(name, None)


def greet(address: str) -> None:
    """
    Args:
        address: `host:port` of who speaks first.

    Raises:
        OSError: nobody speaks there yet.
    """
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), GREETING_S) as connection:
        if not connection.recv(1):
            raise ConnectionResetError


def wait_for_peers(
    names: Sequence[str],
    timeout_s: float,
    say: Say,
    is_stopped: Callable[[], bool],
    probe: Callable[[str], None] = resolve,
) -> List[str]:
    """Waits until every name resolves, or answers another probe; returns those that did not.

    A program that starts earlier caches "no such name" for up to 30 s. Probes run in a
    thread, because a broken resolver blocks for seconds and a signal must not wait for it.
    """
    missing = list(names)
    if not missing:
        return []
    enough = threading.Event()

    def try_all() -> None:
        while missing and not enough.is_set():
            for name in list(missing):
                try:
                    probe(name)
                    missing.remove(name)
                except (OSError, UnicodeError):
                    pass
            if missing:
                enough.wait(0.25)

    started_at = time.monotonic()
    told = 0
    thread = threading.Thread(target=try_all, daemon=True, name="peers")
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
