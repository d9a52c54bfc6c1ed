"""Connections that say nothing, or half a head: they end by themselves, and delay nobody."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from portal.server.http_protocol import HEAD_S
from tests.portal.attackers import many_descriptors, open_halves, open_ones
from tests.portal.whole import Whole, watching, whole_portal

COUNT = 2000
FEW = 300  # descriptors of the small portal


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    # As Debian starts it: the soft limit is far below the hard one.
    wrapper = ("bash", "-c", 'ulimit -S -n 1024; exec "$@"', "-")
    with whole_portal(tmp_path_factory.mktemp("slow") / "home", wrapper=wrapper) as whole:
        yield whole


def ended(one: socket.socket, wait_s: float) -> bool:
    one.settimeout(wait_s)
    try:
        while one.recv(1000):
            pass
        return True
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_two_thousand_half_open_connections_delay_nobody(portal: Whole) -> None:
    with many_descriptors(COUNT), ExitStack() as stack:
        began = time.monotonic()
        half = open_halves(stack, portal.port, COUNT)
        opened_s = time.monotonic() - began
        with watching(portal.url, portal.pid) as seen:
            for _ in range(20):
                answer = requests.get(
                    f"{portal.url}/api/v1/me/", headers=portal.rest_headers, timeout=10
                )
                assert answer.status_code == 200
            assert ended(half[-1], HEAD_S + 5)
            took_s = time.monotonic() - began
        print(
            f"{len(half)} opened in {opened_s:.1f} s, all gone after {took_s:.1f} s, slowest "
            f"/healthz {seen.slowest_s:.2f} s, +{seen.growth_bytes / 1024**2:.0f} MiB"
        )
        assert not seen.errors
        assert seen.slowest_s < 2.5
        assert seen.growth_bytes < 100 * 1024**2
        assert all(ended(one, 5) for one in half)


def test_words_one_by_one_are_half_a_head_too(portal: Whole) -> None:
    """The deadline is for the whole head, and for that of a second request as well."""
    with ExitStack() as stack:
        (slow,) = open_ones(stack, portal.port, 1, b"GET /healthz HTTP/1.1\r\n")
        again = stack.enter_context(socket.create_connection(("127.0.0.1", portal.port)))
        again.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert again.recv(1000).startswith(b"HTTP/1.1 200")
        again.sendall(b"GET /he")
        began = time.monotonic()
        try:
            while time.monotonic() - began < HEAD_S + 10:
                slow.sendall(b"X: y\r\n")
                time.sleep(0.5)
        except OSError:
            pass
        assert time.monotonic() - began < HEAD_S + 5
        assert ended(slow, 1)
        assert ended(again, 5)


def test_few_descriptors_are_kept_for_those_who_ask(tmp_path: Path) -> None:
    """Where more half-open connections come than may be open, the oldest make room."""
    wrapper = ("bash", "-c", f'ulimit -n {FEW}; exec "$@"', "-")
    with whole_portal(tmp_path / "home", wrapper=wrapper) as portal, ExitStack() as stack:
        half = open_ones(stack, portal.port, 2 * FEW, b"GET / HTTP/1.1\r\n")
        began = time.monotonic()
        assert requests.get(f"{portal.url}/healthz", timeout=10).ok
        assert time.monotonic() - began < HEAD_S / 2
        assert ended(half[0], 5)
        assert not ended(half[-1], 0.1)
