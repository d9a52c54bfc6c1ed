"""A channel layer that is down costs messages and nothing else."""

import asyncio
import logging
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from channels.layers import channel_layers, get_channel_layer
from django.test import Client

from deploy.testcluster.ports import free_port
from jobs.models import Workload
from portal import live
from portal.web.log_filters import OnceAMinute
from tests.factories import make_tenant, submit_body
from tests.jobs.engine.test_takeover import kubeconfig_of_nobody
from tests.jobs.engine.test_takeover import process as running
from tests.portal.whole import whole_portal
from tests.tools import servers
from tests.tools.missing import is_missing
from tests.tools.waiting import wait_for

LAYER = "channels_redis.pubsub.RedisPubSubChannelLayer"


@pytest.fixture
def layer_at(settings: Any) -> Iterator[Any]:
    def choose(url: str) -> None:
        settings.CHANNEL_LAYERS = {"default": {"BACKEND": LAYER, "CONFIG": {"hosts": [url]}}}
        channel_layers.backends.clear()

    yield choose
    channel_layers.backends.clear()


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


async def test_messages_flow_again_when_it_is_back(layer_at: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            with servers.redis(Path(folder, "first")) as url:
                layer_at(url)
                layer = get_channel_layer()
                channel = await layer.new_channel()
                await layer.group_add(live.EVERYBODY_GROUP, channel)
                await live.tell_everybody("cluster", 1)
                assert (await layer.receive(channel))["frame"]["revision"] == 1
        except servers.NoServerError as error:
            is_missing(str(error))
        await live.tell_everybody("cluster", 2)  # nobody is there; nothing is raised
        port = int(url.rpartition(":")[2].partition("/")[0])
        with servers.redis(Path(folder, "second"), port=port):
            deadline, revision = time.monotonic() + 20, 2
            while not layer.channels[channel].qsize():
                assert time.monotonic() < deadline, "no message arrives"
                revision += 1
                await live.tell_everybody("cluster", revision)
                await asyncio.sleep(0.2)
            assert (await layer.receive(channel))["frame"]["revision"] > 2
            await layer.flush()


def test_a_redis_that_is_not_there_comes_and_goes(tmp_path: Path) -> None:
    """Web and reconciler start without it, say so once a minute, and need no restart."""
    began, port = time.monotonic(), free_port()
    cluster = kubeconfig_of_nobody(tmp_path / "kubeconfig")
    apart = {"REDIS_URL": f"redis://127.0.0.1:{port}/0", "PROBE_PORT": "0"}
    home = str(tmp_path / "home")
    environ = {**apart, "HOMEPORT_HOME": home, "HOMEPORT_KUBECONFIG": str(cluster)}
    with (
        whole_portal(tmp_path / "home", **apart) as web,
        running(tmp_path, "reconciler", "serve", "--no-web", **environ),
    ):

        def messages() -> str:
            text: str = requests.get(f"{web.url}/status", timeout=10).json()["messages"]["text"]
            return text

        wait_for("it is missed", lambda: messages() == "do not pass")
        assert web.submit().status_code == 201
        try:
            with servers.redis(tmp_path / "redis", port=port):
                wait_for("it is seen", lambda: messages() == "ok")
        except servers.NoServerError as error:
            is_missing(str(error))
        assert [web.submit().status_code for _ in range(5)] == [201] * 5
        for told in (web.log, (tmp_path / "reconciler.log").read_text()):
            assert "Traceback" not in told
            minutes = int(time.monotonic() - began) // 60
            assert 1 <= told.count("look at REDIS_URL") <= 1 + minutes, told


def test_what_one_logger_repeats_hides_no_line_of_another() -> None:
    once = OnceAMinute()
    names = ["channels_redis.pubsub", "channels_redis.pubsub", "portal.live", "portal.live"]
    made = [logging.makeLogRecord({"name": name}) for name in names]
    assert [once.filter(record) for record in made] == [True, False, True, False]
