"""Probes tell a load balancer about this process, and whoever watches about all of it."""

import os
import signal
import socket
import time
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from django.test import Client
from django.utils.timezone import now
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from deploy.testcluster.ports import free_port
from jobs.models import ReconcilerLease
from portal.process import STUCK_S, Process, process
from tests.jobs.engine.test_takeover import kubeconfig_of_nobody
from tests.jobs.engine.test_takeover import process as running
from tests.portal.whole import whole_portal
from tests.tools.waiting import wait_for

SILENT_S = 60.0


def asked(url: str) -> tuple[int, dict[str, Any]]:
    """Status and JSON; (0, {}) when nobody listens."""
    with suppress(requests.RequestException):
        answer = requests.get(url, timeout=10)
        return answer.status_code, answer.json()
    return 0, {}


def lease(**columns: Any) -> ReconcilerLease:
    at = now()
    return ReconcilerLease(pk=1, **{"renewed_at": at, "cluster_ok_at": at, **columns})


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("columns", "unwell"),
    [
        ({}, set()),
        ({"renewed_at": now() - timedelta(seconds=46)}, {"reconciler"}),
        ({"cluster_error": "refused"}, {"cluster"}),
        ({"cluster_ok_at": None}, {"cluster"}),
        ({"health": {"store": {"state": "no"}}}, {"store"}),
        ({"health": {"channel_layer": {"state": "no"}}}, {"messages"}),
        (None, {"reconciler", "cluster"}),
    ],
)
def test_status_names_the_part_and_pages_stay(
    client: Client, columns: dict[str, Any] | None, unwell: set[str]
) -> None:
    if columns is not None:
        lease(**columns).save()
    answer = client.get("/status")
    told = answer.json()
    is_well = told.pop("ok")
    assert {name for name, part in told.items() if not part["ok"]} == unwell
    assert (answer.status_code, is_well) == ((503, False) if unwell else (200, True))
    assert set(told) == {"database", "reconciler", "store", "migrations", "messages", "cluster"}
    assert client.get("/readyz").status_code == 200


def test_a_reconciler_that_stands_still_is_not_alive(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert client.get("/livez").status_code == 200
    monkeypatch.setattr(process, "ticked_at", time.monotonic() - STUCK_S - 1)
    assert client.get("/livez").status_code == 503
    assert not Process(ticked_at=time.monotonic()).is_stuck


def test_a_reconciler_alone_is_missed_and_seen_again(tmp_path: Path) -> None:
    probe_port = free_port()
    environ = {
        "HOMEPORT_HOME": str(tmp_path / "home"),
        "HOMEPORT_KUBECONFIG": str(kubeconfig_of_nobody(tmp_path / "kubeconfig")),
        "PROBE_PORT": str(probe_port),
    }
    with whole_portal(tmp_path / "home") as web:

        def reconciler() -> str:
            text: str = asked(f"{web.url}/status")[1]["reconciler"]["text"]
            return text

        assert reconciler() == "has never run"
        with running(tmp_path, "first", "serve", "--no-web", **environ):
            wait_for("it is seen", lambda: reconciler() == "ok")
            for path in ("livez", "readyz"):
                assert asked(f"http://127.0.0.1:{probe_port}/{path}")[0] == 200
            assert requests.get(f"http://127.0.0.1:{probe_port}/", timeout=10).status_code == 404
        killed_at = time.monotonic()
        wait_for("it is missed", lambda: "silent since" in reconciler(), timeout_s=SILENT_S)
        assert time.monotonic() - killed_at > 30  # not at each renewal that is a little late
        code, told = asked(f"{web.url}/readyz")
        assert (code, told["ready"]) == (200, True)
        assert "link to the cluster is down" in told["cluster"]  # the banner of every page
        with running(tmp_path, "second", "serve", "--no-web", **environ):
            wait_for("it is seen again", lambda: reconciler() == "ok")


def test_an_upload_in_flight_ends_before_the_portal(tmp_path: Path) -> None:
    content = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.py"\r\n\r\n'
    body = content + b"print(1)\r\n--b--\r\n"
    with whole_portal(tmp_path, DRAIN_S="30") as portal:
        head = (
            "POST /api/v1/bundles/ HTTP/1.1\r\n"
            f"Host: localhost:{portal.port}\r\nAuthorization: Token {portal.token}\r\n"
            f"Content-Type: multipart/form-data; boundary=b\r\nContent-Length: {len(body)}\r\n"
            "Expect: 100-continue\r\n\r\n"
        ).encode()
        with (
            socket.create_connection(("127.0.0.1", portal.port), timeout=30) as upload,
            connect(
                f"ws://localhost:{portal.port}/ws/live/", additional_headers=portal.rest_headers
            ) as page,
        ):
            upload.sendall(head)
            assert upload.recv(65536).startswith(b"HTTP/1.1 100")  # now its body is waited for
            upload.sendall(body[:-10])
            assert asked(f"{portal.url}/readyz")[0] == 200
            os.kill(portal.pid, signal.SIGTERM)

            def is_draining() -> bool:
                code, told = asked(f"{portal.url}/readyz")
                assert code in {200, 503}
                return code == 503 and told["draining"]

            wait_for("it says that it is draining", is_draining)
            # Whoever comes meanwhile is answered: it goes on listening for as long as it drains.
            for _ in range(20):
                answer = requests.get(
                    f"{portal.url}/api/v1/me/", headers=portal.rest_headers, timeout=30
                )
                assert answer.status_code == 200
                assert is_draining()
            # A page is sent away at once, to come again to another process, while the upload goes on.
            with suppress(ConnectionClosed):
                while True:
                    page.recv(timeout=30)
            assert page.protocol.close_code == 1012
            assert is_draining()
            upload.sendall(body[-10:])
            answer = upload.recv(65536)
        assert answer.startswith(b"HTTP/1.1 201"), answer
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT
        ended = wait_for("it ends", lambda: os.waitid(os.P_PID, portal.pid, options), timeout_s=20)
        assert ended.si_status == 0, portal.log
