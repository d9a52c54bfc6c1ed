"""Connections that say nothing, half a head, or take nothing: they end by themselves, and delay nobody."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests

from portal.server.http_protocol import HEAD_S, TAKE_S
from portal.web.downloads import MAX_PER_PERSON
from tests.portal.attackers import many_descriptors, open_halves, open_ones
from tests.portal.programs import ROOT
from tests.portal.routes.limits import STREAMING
from tests.portal.whole import (
    LINE,
    Whole,
    page_headers,
    tree_memory_bytes,
    watching,
    whole_portal,
)
from tests.tools.waiting import wait_for

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


# --- answers that nobody takes --------------------------------------------------------------------

KEPT_BYTES = 8 * 1024**2
UNREAD = 600
LEFT_BYTES = 50_000_000  # of what may be taken, when all are gone


@pytest.fixture(scope="module")
def keeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    home = tmp_path_factory.mktemp("keeper") / "home"
    with whole_portal(home, admins=1, kept_bytes=KEPT_BYTES) as whole:
        yield whole


def downloads_of(whole: Whole) -> dict[str, tuple[str, dict[str, str]]]:
    """Route -> path and badge of who may have it."""
    job, file = whole.job_id, whole.artifact_id
    page, rest = whole.page_headers, whole.rest_headers
    return {
        "job-log-download": (f"/trainings/{job}/log/", page),
        "job-artifact": (f"/trainings/{job}/artifacts/{file}/", page),
        "audit-csv": ("/admin/audit/csv/", page_headers(whole.admin_session)),
        "api-job-logs": (f"/api/v1/jobs/{job}/logs/?download=1", rest),
        "api-job-artifact": (f"/api/v1/jobs/{job}/artifacts/{file}/", rest),
    }


def asked(path: str, headers: dict[str, str]) -> bytes:
    lines = [f"GET {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def small_ones(stack: ExitStack, port: int, count: int, said: bytes) -> list[socket.socket]:
    """Connections of which the kernel takes next to nothing by itself."""
    found = []
    for _ in range(count):
        one = stack.enter_context(socket.socket())
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(20)
        one.connect(("127.0.0.1", port))
        one.sendall(said)
        found.append(one)
    return found


@pytest.mark.parametrize("route", STREAMING)
def test_what_one_person_leaves_unread_delays_nobody(keeper: Whole, route: str) -> None:
    path, headers = downloads_of(keeper)[route]
    with (
        many_descriptors(UNREAD),
        watching(keeper.url, keeper.pid, path="/sign-in/") as seen,
        ExitStack() as stack,
    ):
        ones = small_ones(stack, keeper.port, UNREAD, asked(path, headers))
        said = [one.recv(12)[9:] for one in ones]
        asked_before = seen.asked
        wait_for("people are answered beside all of them", lambda: seen.asked >= asked_before + 3)
    print(f"{route}: slowest /sign-in/ {seen.slowest_s:.2f} s, +{seen.growth_bytes / 1e6:.0f} MB")
    # What ended a moment ago may have a place yet.
    assert 0 < said.count(b"200") <= MAX_PER_PERSON
    assert said.count(b"429") == UNREAD - said.count(b"200")
    assert not seen.errors
    assert seen.growth_bytes < 100e6
    # Their places are free, at once.
    again = requests.get(f"{keeper.url}{path}", headers=headers, timeout=60)
    assert (again.status_code, len(again.content) >= KEPT_BYTES * 0.9) == (200, True)

    def grown_bytes() -> int:
        return tree_memory_bytes(keeper.pid) - seen.base_bytes

    wait_for("their memory is free", lambda: grown_bytes() < LEFT_BYTES, timeout_s=30)


def test_a_person_hears_of_it_in_another_browser_and_of_a_cut_one_goes_on(keeper: Whole) -> None:
    log, file = "job-log-download", "api-job-artifact"
    whole_file = b"".join(LINE % n for n in range(KEPT_BYTES // len(LINE % 0)))
    paths = downloads_of(keeper)
    with ExitStack() as stack:

        def are_taken() -> bool:
            stack.close()
            ones = small_ones(stack, keeper.port, MAX_PER_PERSON, asked(*paths[log]))
            return {one.recv(12)[9:] for one in ones} == {b"200"}

        wait_for("all places are taken", are_taken, timeout_s=30)
        path, headers = paths[file]  # by a token: another program of the same person
        refused = requests.get(f"{keeper.url}{path}", headers=headers, timeout=60)
        assert (refused.status_code, refused.headers["Retry-After"]) == (429, "5")
        assert refused.json()["errors"][0]["code"] == "too_many_downloads"
        page = requests.get(
            f"{keeper.url}{paths[log][0]}",
            headers={**keeper.page_headers, "Accept": "text/html"},
            timeout=60,
        )
        assert page.status_code == 429
        assert "Four of your downloads" in page.text
        assert page.text.lstrip().lower().startswith("<!doctype html")
    # A log has no ranges: one that was cut is asked for again, at once, while the person's other places are taken.
    log_path, log_headers = paths["api-job-logs"]
    with ExitStack() as stack:
        taken = MAX_PER_PERSON - 1
        small_ones(stack, keeper.port, taken, asked(log_path, log_headers))
        for _ in range(3):
            one = requests.get(
                f"{keeper.url}{log_path}", headers=log_headers, timeout=60, stream=True
            )
            assert (one.status_code, len(one.raw.read(1_000_000))) == (200, 1_000_000)
            one.close()
        again = requests.get(f"{keeper.url}{log_path}", headers=log_headers, timeout=60)
        assert (again.status_code, len(again.content) >= KEPT_BYTES * 0.9) == (200, True)
    cut = requests.get(f"{keeper.url}{path}", headers=headers, timeout=60, stream=True)
    begun = cut.raw.read(1_000_000)
    cut.close()
    ranged = {"Range": f"bytes={len(begun)}-", "If-Range": cut.headers["ETag"]}
    rest = requests.get(f"{keeper.url}{path}", headers={**headers, **ranged}, timeout=60)
    assert rest.status_code == 206
    assert begun + rest.content == whole_file


def test_after_a_restart_the_counts_begin_again(tmp_path: Path) -> None:
    with (
        whole_portal(tmp_path / "home", admins=1, kept_bytes=KEPT_BYTES) as whole,
        ExitStack() as stack,
    ):
        path, headers = downloads_of(whole)["api-job-logs"]

        def take_all() -> None:
            ones = small_ones(stack, whole.port, MAX_PER_PERSON, asked(path, headers))
            assert {one.recv(12)[9:] for one in ones} == {b"200"}
            more = requests.get(f"{whole.url}{path}", headers=headers, timeout=60)
            assert more.status_code == 429

        take_all()
        command = Path(f"/proc/{whole.pid}/cmdline").read_text().split("\0")[:-1]
        lines = Path(f"/proc/{whole.pid}/environ").read_text().split("\0")[:-1]
        os.kill(whole.pid, signal.SIGKILL)
        environ = dict(line.split("=", 1) for line in lines)
        process = subprocess.Popen(
            command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_for("it answers again", lambda: _answers(whole), timeout_s=60)
            take_all()
        finally:
            process.kill()
            process.wait()


def _answers(whole: Whole) -> bool:
    try:
        return requests.get(f"{whole.url}/healthz", timeout=2).ok
    except requests.RequestException:
        return False


def test_who_takes_nothing_is_left_and_who_takes_little_is_not(keeper: Whole) -> None:
    path, headers = downloads_of(keeper)["api-job-logs"]
    with ExitStack() as stack:
        (slow,) = small_ones(stack, keeper.port, 1, asked(path, headers))
        unread = small_ones(stack, keeper.port, MAX_PER_PERSON - 1, asked(path, headers))
        until = time.monotonic() + TAKE_S + 15
        while time.monotonic() < until:
            assert slow.recv(2000)
            time.sleep(1)

        def is_free() -> bool:
            return requests.get(f"{keeper.url}{path}", headers=headers, timeout=60).ok

        wait_for("their places are free", is_free, timeout_s=30)
        assert slow.recv(2000)
        assert all(ended(one, 20) for one in unread)
