"""What a program in a pod is told where the portal or the store cannot be asked."""

import hashlib
import http.client
import io
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from jobs.pod import portal_client, sources
from jobs.pod.portal_client import MOST_RETRY_AFTER_S, PortalClient, PortalError, RetryBudget


@pytest.mark.parametrize(
    "error",
    [
        # ssl.CertificateError was one of these until Python 3.7, which images bring too.
        ValueError("hostname 's3.lab' doesn't match 'other.lab'"),
        ConnectionRefusedError("refused"),
        http.client.BadStatusLine("no HTTP"),
    ],
)
def test_a_connection_that_fails_in_any_way_is_asked_for_again(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_words: Any, **_more: Any) -> None:
        raise error

    monkeypatch.setattr(http.client.HTTPSConnection, "connect", fails)
    link = {"url": "https://s3.lab/a?signature=secret"}
    with pytest.raises(PortalError, match=r"https://s3\.lab does not answer") as told:
        PortalClient("https://portal.lab", "token").put(link, io.BytesIO(b"abc"), 3)
    assert told.value.status == 0
    assert "secret" not in str(told.value)


@contextmanager
def answering(*answers: tuple[int, str]) -> Iterator[str]:
    """A portal that gives these answers, status and `Retry-After`, one after the other."""
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, retry_after = left.pop(0)
            self.send_response(status)
            if retry_after:
                self.send_header("Retry-After", retry_after)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_words: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Clock:
    """Time that passes by sleeping alone."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.mark.parametrize(
    ("status", "retry_after", "waited_s"),
    [
        (429, "", 1),
        (429, "7", 7),
        (503, "7", 7),
        (429, "0", 1),
        (429, "999999", MOST_RETRY_AFTER_S),
        (429, "Fri, 31 Dec 1999 23:59:59 GMT", 1),
        (429, "-5", 1),
        (429, "\u0663", 1),
    ],
)
def test_who_is_told_to_come_again_later_does_so_then(
    monkeypatch: pytest.MonkeyPatch, status: int, retry_after: str, waited_s: int
) -> None:
    clock = Clock()
    monkeypatch.setattr(portal_client, "time", clock)
    told = retry_after.encode().decode("latin-1")
    with answering((status, told), (200, "")) as url:
        portal = PortalClient(url, "token")
        assert RetryBudget(600, 600).keep_trying(lambda: portal.post("jobs/", {})) == {}
    assert clock.now == pytest.approx(waited_s, abs=0.3)


def test_so_does_who_fetches_code_from_the_store(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    clock = Clock()
    monkeypatch.setattr(portal_client, "time", clock)
    with answering((429, "7"), (200, "")) as url:
        about = {"url": url, "file_name": "train.py", "sha256": hashlib.sha256(b"{}").hexdigest()}
        monkeypatch.setattr(PortalClient, "post", lambda *_about: about)
        config = {"id": "x", "source": {"bundle": "x"}, "limits": {}}
        sources.bring(config, PortalClient(url, "token"), str(tmp_path))
    assert (tmp_path / "train.py").read_bytes() == b"{}"
    assert clock.now == pytest.approx(7, abs=0.3)
