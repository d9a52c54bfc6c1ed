"""Pages and REST are made from the database alone: every socket is denied, and the cluster's port
is closed anyway."""

import socket
from typing import Any, NoReturn

import pytest
from django.test import Client
from django.utils import timezone

from jobs.rules.states import WorkloadState
from tests.factories import make_job, make_tenant

pytestmark = pytest.mark.django_db

PAGES = [
    "/",
    "/trainings/",
    "/trainings/?state=running",
    "/trainings/new/",
    "/account/",
    "/tenant/part/namespace/",
    "/tenant/part/quota/",
    "/healthz",
    "/api/v1/me/",
    "/api/v1/tenants/",
    "/api/v1/jobs/",
    "/api/v1/schema/",
    "/trainings/{job}/",
    "/trainings/{job}/part/header/",
    "/trainings/{job}/part/replicas/",
    "/trainings/{job}/part/events/",
    "/trainings/{job}/part/artifacts/",
    "/trainings/{job}/part/manifests/",
    "/trainings/{job}/again/",
    "/api/v1/jobs/{job}/",
    "/api/v1/jobs/{job}/events/",
    "/api/v1/jobs/{job}/manifests/",
    "/api/v1/jobs/{job}/artifacts/",
]


@pytest.fixture
def _no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def deny(*_arguments: Any, **_more: Any) -> NoReturn:
        raise AssertionError("a page tried to speak to the network")

    for name in ("connect", "connect_ex", "bind", "sendto"):
        monkeypatch.setattr(socket.socket, name, deny)
    monkeypatch.setattr(socket, "create_connection", deny)
    monkeypatch.setattr(socket, "getaddrinfo", deny)


@pytest.mark.usefixtures("_no_sockets")
@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("state", [WorkloadState.RUNNING, WorkloadState.SUCCEEDED])
def test_every_page_renders_without_a_socket(path: str, state: WorkloadState) -> None:
    alice = make_tenant("alice")
    job = make_job(alice, state=state, started_at=timezone.now())
    client = Client()
    client.force_login(alice.owner)
    answer = client.get(path.format(job=job.pk), HTTP_HOST="localhost", follow=True)
    assert answer.status_code == 200, answer.status_code


@pytest.mark.usefixtures("_no_sockets")
def test_a_submit_needs_no_cluster() -> None:
    alice = make_tenant("alice")
    client = Client()
    client.force_login(alice.owner)
    body = {"name": "later", "image": "python:3.11-slim", "command": ["true"]}
    for path in ("/api/v1/jobs/preview/", "/api/v1/jobs/"):
        answer = client.post(path, body, content_type="application/json", HTTP_HOST="localhost")
        assert answer.status_code in {200, 201}, answer.content


@pytest.mark.usefixtures("_no_sockets")
def test_the_denial_bites() -> None:
    with socket.socket() as probe, pytest.raises(AssertionError, match="speak to the network"):
        probe.connect(("127.0.0.1", 9))
