"""Connections that wait for their other side, of this process: so many, and no more.

Whoever says nothing, half a request, or takes nothing of an answer costs a descriptor and memory for
as long as it likes, and needs no account for it. All of these stand in one row, the one that has
been silent longest first; where there are too many, or what waits to be taken is too much, that one
ends. Those that we work for are not in it: requests that are being answered, websockets that live.
"""

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from portal.server.descriptors import descriptor_limit

# Half of what this process may open: where that is 1,024, all websockets of people (500) may begin at
# once, as after a restart, and those that live have the rest. Containers may open a million, for which there is no
# memory.
MAX_WAITING = min(descriptor_limit() // 2, 4096)
MAX_HELD_BYTES = 48 * 1024**2  # of answers, in our own memory; what the kernel holds is not counted
# struct tcp_info of Linux (include/uapi/linux/tcp.h): `tcpi_bytes_acked`, since 4.1.
_ACKED_AT = 120


class Peer(Protocol):
    """The protocol of one connection."""

    def give_up(self) -> None:
        """Ends it at once; it leaves the row."""


@dataclass
class _Standing:
    timer: asyncio.TimerHandle | None
    held_bytes: int


class Peers:
    """The row. Everything happens on the event loop."""

    def __init__(self, most: int = MAX_WAITING, most_bytes: int = MAX_HELD_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._waits: dict[Peer, _Standing] = {}
        self._held_bytes = 0

    def __len__(self) -> int:
        return len(self._waits)

    def wait(
        self,
        one: Peer,
        limit_s: float | None = None,
        then: Callable[[], None] | None = None,
        *,
        held_bytes: int = 0,
    ) -> None:
        """It was heard from just now, and has to do something again.

        Args:
            limit_s: after which `then` is called, its `give_up` unless another is given; None: never.
            held_bytes: of its answer, which we keep until it takes them.
        """
        self.let_go(one)
        timer = None
        if limit_s is not None:
            timer = asyncio.get_running_loop().call_later(limit_s, then or one.give_up)
        self._waits[one] = _Standing(timer, held_bytes)
        self._held_bytes += held_bytes
        if len(self._waits) > self._most:
            next(iter(self._waits)).give_up()
        while self._held_bytes > self._most_bytes:
            next(other for other, wait in self._waits.items() if wait.held_bytes).give_up()

    def let_go(self, one: Peer) -> None:
        """It has done its part; harmless when it was not waited for."""
        wait = self._waits.pop(one, None)
        if wait is not None:
            self._held_bytes -= wait.held_bytes
            if wait.timer is not None:
                wait.timer.cancel()


peers = Peers()


def taken_bytes(transport: Any) -> int:
    """How much the other side has taken so far, its kernel at least; 0: this system does not say."""
    bound = transport.get_extra_info("socket")
    try:
        found = bound.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKED_AT + 8)
    except OSError:
        return 0
    if len(found) < _ACKED_AT + 8:
        return 0
    return int(struct.unpack_from("=Q", found, _ACKED_AT)[0])
