"""Connections to a gate that say nothing, or half a head, end by themselves, and hinder nobody."""

import asyncio
import socket
import time
from contextlib import ExitStack

import pytest

from jobs.pod.gatekeeper.connections import HEAD_S, MOST_IDLE
from tests.jobs.pod.gate.test_hostile import head
from tests.jobs.pod.gate.world import PREFIX, World
from tests.portal.attackers import many_descriptors, open_halves, open_ones

FLOOD = 3000


def is_over(one: socket.socket, until: float) -> bool:
    """Whether the connection ends by then, on the clock of `time.monotonic`."""
    one.settimeout(max(0.01, until - time.monotonic()))
    try:
        while one.recv(4096):
            pass
    except TimeoutError:
        return False
    except ConnectionError:
        pass
    return True


async def test_thousands_of_halves_hinder_nobody_and_end(w: World, cookie: str) -> None:
    with many_descriptors(FLOOD), ExitStack() as stack:
        half = await asyncio.to_thread(open_halves, stack, w.gate.port, FLOOD)
        until = time.monotonic() + HEAD_S + 5
        # Those that came first made room.
        assert all(is_over(one, until - HEAD_S / 2) for one in half[: FLOOD - 2 * MOST_IDLE])
        assert (await w.call("x", cookie=cookie)).status == 200
        assert await asyncio.to_thread(lambda: all(is_over(one, until) for one in half))
        assert (await w.call("x", cookie=cookie)).status == 200


@pytest.mark.parametrize("w", [{}, {"tls": True}], indirect=True, ids=["plain", "tls"])
async def test_what_is_owed_is_a_head_and_not_a_request(w: World, cookie: str) -> None:
    """A kept connection may be silent; one that has begun another head may not."""
    with ExitStack() as stack:
        (nothing,) = open_ones(stack, w.gate.port, 1, b"")
        until = time.monotonic() + HEAD_S + 5
        if w.gate.scheme == "http":
            asked = head(w, cookie, f"GET {PREFIX}x HTTP/1.1").encode()
            kept, again, dripping = open_ones(stack, w.gate.port, 3, asked)
            for one in (kept, again, dripping):
                assert (await asyncio.to_thread(one.recv, 4096)).startswith(b"HTTP/1.1 200")
            again.sendall(b"GET /he")
            dripping.sendall(b"GET / HTTP/1.1\r\n")
            while time.monotonic() < until - 5:
                dripping.sendall(b"X: y\r\n")
                await asyncio.sleep(0.5)
            assert await asyncio.to_thread(is_over, again, until)
            assert await asyncio.to_thread(is_over, dripping, until)
            kept.sendall(asked)
            kept.settimeout(20)
            assert (await asyncio.to_thread(kept.recv, 4096)).startswith(b"HTTP/1.1 200")
        assert await asyncio.to_thread(is_over, nothing, until)
