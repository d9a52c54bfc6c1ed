# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""Waits until the other replicas are found, by name or by IP address, and until those that serve answer."""

import contextlib
import socket
import threading
import time
from typing import Callable, Dict, List, Mapping, Sequence, Set, Tuple

from jobs.pod.errors import PortalError
from jobs.pod.protocol.placeholders import Hosts

Say = Callable[[str], None]
GREETING_S = 5.0
ASK_ENDED_S = 5.0  # between two questions which replicas have ended, while a name has no address
ASK_S = 1.0  # between two questions to the portal, which waits for a while before it answers


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


class Names:
    """Host names of other replicas, of which a replica that has ended has none any more.

    Args:
        names: (role, index) -> host name.
        ask: role -> indexes of those that have run and ended; raises PortalError.
    """

    def __init__(
        self, names: Dict[Tuple[str, int], str], ask: Callable[[], Mapping[str, Sequence[int]]]
    ) -> None:
        self._who = {name: who for who, name in names.items()}
        self._ask = ask
        self._ask_at = time.monotonic() + ASK_ENDED_S
        self._ended: Set[Tuple[str, int]] = set()
        self.ended: List[str] = []  # that nobody waits for, as `worker-0`

    def probe(self, name: str) -> None:
        """
        Raises:
            OSError: the name has no address yet.
        """
        try:
            resolve(name)
        except OSError:
            if not self._has_ended(name):
                raise

    def _has_ended(self, name: str) -> bool:
        now = time.monotonic()
        if now >= self._ask_at:
            self._ask_at = now + ASK_ENDED_S
            with contextlib.suppress(PortalError):
                ended = self._ask()
                self._ended = {(role, index) for role in ended for index in ended[role]}
        role, index = self._who[name]
        if (role, index) not in self._ended:
            return False
        self.ended.append(f"{role}-{index}")
        return True


class Addresses:
    """IP addresses of all replicas, as the portal has seen them.

    Args:
        hosts: of the replicas, by name.
        ask: role -> addresses by index, empty where none has been seen yet; raises PortalError.
    """

    def __init__(self, hosts: Hosts, ask: Callable[[], Hosts]) -> None:
        self._hosts = hosts
        self._ask = ask
        self._seen: Dict[str, str] = {}
        self._found: Set[str] = set()  # by `probe`
        self.names = [f"{role}-{n}" for role, known in hosts.items() for n in range(len(known))]

    def probe(self, who: str) -> None:
        """
        Raises:
            OSError: no address has been seen yet, or one that was found is gone again.
        """
        if self._has(who):
            return
        with contextlib.suppress(PortalError):
            told = self._ask()
            self._seen = {
                f"{role}-{n}": ip for role in told for n, ip in enumerate(told[role]) if ip
            }
        if not self._has(who):
            time.sleep(ASK_S)
            raise OSError

    def _has(self, who: str) -> bool:
        if who in self._seen and all(name in self._seen for name in self._found):
            self._found.add(who)
            return True
        return False

    def hosts(self) -> Dict[str, List[str]]:
        """The same hosts by these addresses, once all are known."""
        found: Dict[str, List[str]] = {role: [] for role in self._hosts}
        for role, names in self._hosts.items():
            for index, name in enumerate(names):
                ip, port = self._seen[f"{role}-{index}"], name.rsplit(":", 1)[1]
                found[role].append(f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}")
        return found


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
