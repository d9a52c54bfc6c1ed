"""A channel layer that is down costs messages and nothing else."""

import logging
import socket
from collections.abc import Iterator
from typing import Any

import pytest
from django.test import Client

from jobs.models import Workload
from portal import live
from portal.web.log_filters import OnceAMinute
from tests.factories import make_tenant, submit_body
from tests.tools import servers


@pytest.fixture
def silent() -> Iterator[str]:
    """A server that takes connections and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"redis://127.0.0.1:{server.getsockname()[1]}/0"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", ["refuses", "says nothing"])
def test_what_was_accepted_is_acknowledged(
    layer_at: Any, silent: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    client = Client()
    client.force_login(make_tenant().owner)
    monkeypatch.setattr(live, "SEND_S", 0.2)
    layer_at(silent if how == "says nothing" else f"redis://127.0.0.1:{servers.free_port()}/0")
    answer = client.post(
        "/api/v1/jobs/", submit_body(), content_type="application/json", HTTP_HOST="localhost"
    )
    assert answer.status_code == 201, answer.content
    assert Workload.objects.filter(pk=answer.json()["id"]).exists()


def test_what_one_logger_repeats_hides_no_line_of_another() -> None:
    once = OnceAMinute()
    names = ["channels_redis.pubsub", "channels_redis.pubsub", "portal.live", "portal.live"]
    made = [logging.makeLogRecord({"name": name}) for name in names]
    assert [once.filter(record) for record in made] == [True, False, True, False]
