"""Whatever is said to a port, it is answered or closed; nobody is silent, and strangers hold nothing open."""

import os
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from portal.server.http_protocol import HEAD_S
from portal.server.websocket_protocol import MAX_HEAD_BYTES, MAX_HEADERS
from tests.jobs.pod.gate.test_hostile import CORPUS
from tests.portal.attackers import many_descriptors, open_ones
from tests.portal.whole import Whole, watching, whole_portal
from tests.tools.authority import Authority

LIMIT_S = 20.0
DESCRIPTORS = 1024
FLOOD = 1200
OWN_DESCRIPTORS = 150  # of a portal that nobody visits, at most
OPENING = (
    "Host: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
)
HOST, LENGTH = "Host: localhost\r\n", "Content-Length: 5\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"
NEXT = f"GET /healthz HTTP/1.1\r\n{HOST}\r\n"  # behind it, and must not be answered
LIVE = "GET /ws/live/ HTTP/1.1\r\n"


def upgrade(more: str = "", line: str = LIVE) -> bytes:
    """A request to speak websocket, with further headers or another first line."""
    return f"{line}{OPENING}{more}\r\n".encode("latin-1")


def of_size(size: int) -> bytes:
    """A head of so many bytes in one header."""
    return upgrade(f"X: {'a' * (size - len(upgrade()) - len('X: ' + chr(13) + chr(10)))}\r\n")


def long_line(size: int) -> bytes:
    """A head of so many bytes, in its first line."""
    bare = upgrade(line="GET /ws/live/?c= HTTP/1.1\r\n")
    return upgrade(line=f"GET /ws/live/?c={'a' * (size - len(bare))} HTTP/1.1\r\n")


def of_headers(count: int) -> bytes:
    return upgrade("".join(f"X{n}: 1\r\n" for n in range(count - OPENING.count("\r\n"))))


# What is sent -> the status of the answer, of which there is one each time.
SAID: dict[str, tuple[bytes, int]] = {
    "no origin": (upgrade(), 403),
    "no key": (upgrade().replace(b"Sec-WebSocket-Key", b"X"), 400),
    "wrong version": (upgrade().replace(b"Version: 13", b"Version: 99"), 400),
    "wrong key": (upgrade().replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"x"), 400),
    "POST": (upgrade("Content-Length: 0\r\n", "POST /ws/live/ HTTP/1.1\r\n"), 405),
    "unknown path": (upgrade(line="GET /x HTTP/1.1\r\n"), 403),
    "bad bytes in the path": (upgrade(line="GET /ws/\xff HTTP/1.1\r\n"), 400),
    # What one library takes and the next one does not.
    "with a body": (upgrade("Content-Length: 5\r\n") + b"hello", 400),
    "with chunks": (upgrade("Transfer-Encoding: chunked\r\n") + b"0\r\n\r\n", 400),
    "a control character": (upgrade("X: \x01\r\n"), 400),
    "two hosts": (upgrade("Host: localhost\r\n"), 400),
    # Limits.
    "a head at its limit": (of_size(MAX_HEAD_BYTES), 403),
    "a head above its limit": (of_size(MAX_HEAD_BYTES + 1), 431),
    "a line at its limit": (long_line(MAX_HEAD_BYTES), 403),
    "a line above its limit": (long_line(MAX_HEAD_BYTES + 1), 431),
    "as many headers as may be": (of_headers(MAX_HEADERS), 403),
    "a header too many": (of_headers(MAX_HEADERS + 1), 431),
    "far too long": (of_size(60_000), 431),
    "longer than any head": (of_size(200_000), 431),
    # No websockets.
    "a line that is no request": (b"nonsense\r\n\r\n", 400),
    **{
        f"both lengths, {kind}": (
            f"POST /sign-in/ HTTP/1.1\r\n{HOST}{lengths}\r\n{body}{NEXT}".encode(),
            400,
        )
        for kind, lengths, body in (
            ("length first", f"{LENGTH}{CHUNKED}", "0\r\n\r\n"),
            ("chunks first", f"{CHUNKED}{LENGTH}", "0\r\n\r\n"),
            ("of nothing", f"Content-Length: 0\r\n{CHUNKED}", "0\r\n\r\n"),
            ("in capitals", f"{LENGTH}{CHUNKED}".upper(), "0\r\n\r\n"),
            ("without a body", f"{LENGTH}{CHUNKED}", ""),
        )
    },
    "two lengths": (
        b"POST /sign-in/ HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        400,
    ),
    "chunks in another coding": (
        b"POST /sign-in/ HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        400,
    ),
}


# What of the corpus of gates RFC 9112 lets a server take (2.2, 5.2, 6.3), or is a body that goes on.
TAKEN = {
    "two equal lengths",
    "a bare LF after a header",
    "bare LFs at the end of the head",
    "a folded header",
    "a huge chunk size",
}


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    with whole_portal(tmp_path_factory.mktemp("heads") / "home") as whole:
        yield whole


def all_of(one: socket.socket) -> bytes:
    """What comes until the connection ends, which it has to."""
    one.settimeout(LIMIT_S)
    found = b""
    try:
        while piece := one.recv(65536):
            found += piece
    except ConnectionError:
        assert found, "it ended without an answer"
    return found


@pytest.mark.parametrize("kind", SAID)
def test_each_is_answered_once_and_the_connection_ends(portal: Whole, kind: str) -> None:
    said, status = SAID[kind]
    for port in (portal.port, portal.pod_port):
        with ExitStack() as stack:
            (one,) = open_ones(stack, port, 1, said)
            found = all_of(one)
        assert found.startswith(b"HTTP/1.1 %d" % status), found[:200]
        assert found.count(b"HTTP/1.1 ") == 1, found[:2000]
    if status == 431 and len(said) < 60_000:
        assert b"8,192 bytes and 100 headers" in found


@pytest.mark.parametrize("kind", sorted(CORPUS.keys() - TAKEN))
def test_two_readings_of_one_request_are_none(portal: Whole, kind: str) -> None:
    """Nothing behind it is heard: that could be another one's, by the reading of what stands before us."""
    said = f"POST /sign-in/ HTTP/1.1\r\n{HOST}{CORPUS[kind]}{NEXT}".encode("latin-1")
    for port in (portal.port, portal.pod_port):
        with ExitStack() as stack:
            (one,) = open_ones(stack, port, 1, said)
            found = all_of(one)
        assert found.startswith(b"HTTP/1.1 400"), found[:200]
        assert found.count(b"HTTP/1.1 ") == 1, found[:2000]


def test_tls_has_to_begin_in_time(tmp_path: Path) -> None:
    """A handshake is owed as a head is, and both together take no longer than a head alone."""
    authority = Authority(tmp_path / "authority")
    context = ssl.create_default_context(cafile=str(authority.folder / "ca.crt"))
    with whole_portal(tmp_path / "home", authority=authority) as whole, ExitStack() as stack:
        silent = [
            *open_ones(stack, whole.port, 2, b""),
            *open_ones(stack, whole.port, 1, b"\x16\x03\x01\x02"),
        ]
        (bare,) = open_ones(stack, whole.port, 1, b"")
        until = time.monotonic() + LIMIT_S
        time.sleep(HEAD_S / 2)
        inside = stack.enter_context(context.wrap_socket(bare, server_hostname="127.0.0.1"))
        inside.sendall(b"GET / HTTP/1.1\r\n")
        for one in [*silent, inside]:
            one.settimeout(max(0.1, until - time.monotonic()))
            with suppress(ConnectionError, ssl.SSLError):
                assert one.recv(100) == b""


@pytest.mark.parametrize("kind", ["long heads", "TLS that never begins", "kept connections"])
def test_strangers_leave_descriptors_for_others(tmp_path: Path, kind: str) -> None:
    wrapper = ("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")
    asked = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    said = {"long heads": of_size(9000), "kept connections": asked}.get(kind, b"")
    authority = Authority(tmp_path / "authority") if "TLS" in kind else None
    with (
        many_descriptors(FLOOD),
        whole_portal(tmp_path / "home", wrapper=wrapper, authority=authority) as whole,
        ExitStack() as stack,
    ):
        with watching(whole.url, whole.pid, ca=whole.ca) as seen:
            held = open_ones(stack, whole.port, FLOOD, said)
            time.sleep(10)
            # However many came, half of what may be open is left for others.
            descriptors = len(os.listdir(f"/proc/{whole.pid}/fd"))
        assert descriptors < DESCRIPTORS // 2 + OWN_DESCRIPTORS
        print(f"{kind}: {seen.asked} looks, slowest {seen.slowest_s:.2f} s; {len(held)} opened")
        assert not seen.errors
        assert seen.slowest_s < HEAD_S / 2
