"""A Redis that goes and comes: messages pass again, and nothing has to be started anew."""

import asyncio
import tempfile
import time
from pathlib import Path
from typing import Any

import requests
from channels.layers import get_channel_layer

from deploy.testcluster.ports import free_port
from portal import live
from tests.jobs.engine.test_takeover import kubeconfig_of_nobody
from tests.jobs.engine.test_takeover import process as running
from tests.portal.whole import whole_portal
from tests.tools import servers
from tests.tools.missing import is_missing
from tests.tools.waiting import wait_for


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
