"""Connections to a gate that say nothing, or half of it, end by themselves, and hinder nobody."""

import asyncio
import socket
import ssl
import time
from contextlib import ExitStack, suppress

import pytest

from jobs.pod.gatekeeper.connections import HEAD_S, MOST_IDLE
from tests.jobs.pod.gate.test_hostile import head
from tests.jobs.pod.gate.test_memory import check_peak
from tests.jobs.pod.gate.world import PREFIX, World
from tests.portal.attackers import many_descriptors, open_halves, open_ones

FLOOD = 3000
SMALLER_FLOOD = 1200


def client_hello() -> bytes:
    """With what a browser begins a connection over TLS."""
    context, sent = ssl.create_default_context(), ssl.MemoryBIO()
    connection = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        connection.do_handshake()
    return sent.read()


HELLO = client_hello()
# The first record of a hello of 128 KiB, which is as long as OpenSSL takes one: room is made for all of it.
LONG_HELLO = b"\x16\x03\x01\x40\x00" + b"\x01\x02\x00\x00\x03\x03" + b"a" * (16 * 1024 - 6)
# As many as are taken, each as long as it may be, but for the end.
LONG_HEADERS = b"".join(b"X-%02d: %s\r\n" % (n, b"a" * 16_000) for n in range(60))
LONG_HEAD = b"GET / HTTP/1.1\r\n" + LONG_HEADERS
WHOLE = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
# (how the gate speaks, what is said).
FLOODS = {
    "TLS, nothing": (True, b""),
    "TLS, half a hello": (True, HELLO[: len(HELLO) // 2]),
    "TLS, a hello and no more": (True, HELLO),
    "TLS, a long hello": (True, LONG_HELLO),
    "long heads": (False, LONG_HEAD),
    "long heads behind a request": (False, WHOLE + LONG_HEAD),
}


@pytest.mark.parametrize(
    ("w", "said"),
    [({"tls": tls}, said) for tls, said in FLOODS.values()],
    indirect=["w"],
    ids=list(FLOODS),
)
async def test_a_flood_takes_less_than_100_mb_and_hinders_nobody(
    w: World, cookie: str, said: bytes
) -> None:
    def flood() -> list[socket.socket]:
        return [open_and_say(stack, w.gate.port, said) for _ in range(SMALLER_FLOOD)]

    with many_descriptors(SMALLER_FLOOD), ExitStack() as stack:
        made = await asyncio.to_thread(flood)
        assert (await w.call("x", cookie=cookie)).status == 200
        check_peak(w)
        # As over plain HTTP: those that came first made room, long before their time.
        until = time.monotonic() + HEAD_S / 2
        first = made[: SMALLER_FLOOD - 2 * MOST_IDLE]
        assert await asyncio.to_thread(lambda: all(is_over(one, until) for one in first))


def open_and_say(stack: ExitStack, port: int, said: bytes) -> socket.socket:
    """A connection that says this, or as much of it as is taken."""
    one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
    with suppress(ConnectionError):  # it made room for others already
        one.sendall(said)
    return one


def read_answer(one: socket.socket) -> None:
    """All of the app's answer to `GET x`, which may come in pieces."""
    one.settimeout(20)
    said = b""
    while not said.endswith(f"app: GET {PREFIX}x".encode()):
        more = one.recv(4096)
        assert more, said
        said += more
    assert said.startswith(b"HTTP/1.1 200")


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
        silent = open_ones(stack, w.gate.port, 1, b"")
        until = time.monotonic() + HEAD_S + 5
        if w.gate.scheme == "https":
            for said in (HELLO[: len(HELLO) // 2], HELLO, LONG_HELLO):
                silent += open_ones(stack, w.gate.port, 1, said)
        else:
            # Who would be let in, but for the ticket.
            letting_in = f"POST {PREFIX}__gate/login HTTP/1.1"
            said = head(w, "", letting_in, "Content-Length: 100").encode()
            silent += open_ones(stack, w.gate.port, 1, said)
            asked = head(w, cookie, f"GET {PREFIX}x HTTP/1.1").encode()
            kept, again, dripping = open_ones(stack, w.gate.port, 3, asked)
            for one in (kept, again, dripping):
                await asyncio.to_thread(read_answer, one)
            again.sendall(b"GET /he")
            dripping.sendall(b"GET / HTTP/1.1\r\n")
            while time.monotonic() < until - 5:
                dripping.sendall(b"X: y\r\n")
                await asyncio.sleep(0.5)
            assert await asyncio.to_thread(is_over, again, until)
            assert await asyncio.to_thread(is_over, dripping, until)
            kept.sendall(asked)
            await asyncio.to_thread(read_answer, kept)
        for one in silent:
            assert await asyncio.to_thread(is_over, one, until)
