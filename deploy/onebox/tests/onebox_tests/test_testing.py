"""`onebox.testing.Box`: pods that live by a script, calls that are broken, commits that die."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp

from onebox.testing import Box, Life, scripted
from onebox.testing.box import TOKEN

JOB = {
    "metadata": {"name": "job"},
    "spec": {
        "backoffLimit": 1,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "python:3.11-slim"}],
            }
        },
    },
}


def conditions(box: Box) -> list[str]:
    found = box.api.get("jobs", "default", "job").get("status", {}).get("conditions", [])
    return [one["type"] for one in found]


def test_pods_live_by_their_script_and_a_killed_cluster_goes_on(tmp_path: Path) -> None:
    box = Box(home=tmp_path, live=scripted({"job": [Life(5, code=1), Life(5)]}))
    box.add_node("node")
    box.api.create("jobs", "default", JOB)
    assert box.settle_or_die_after(2)  # with some of what there is to do done
    box.advance(1)
    box.advance(5)
    [failed] = box.api.list("pods", "default")
    assert failed["status"]["phase"] == "Failed"
    box.advance(15)  # the back-off
    assert len(box.api.list("pods", "default")) == 2
    box.restart()
    box.advance(5)
    assert conditions(box) == ["SuccessCriteriaMet", "Complete"]
    box.close()


async def test_a_chosen_call_is_broken_once() -> None:
    box = Box()
    url = await box.serve(relayed=True)
    assert box.relay is not None
    path = "/api/v1/namespaces/default/configmaps"
    body: dict[str, Any] = {"metadata": {"name": "a"}}

    async def create(session: aiohttp.ClientSession) -> int:
        async with session.post(f"{url}{path}", json=body) as reply:
            return reply.status

    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        box.relay.order("POST", path, "a", "500")
        assert [await create(session), await create(session)] == [500, 201]
    assert box.relay.met == 1
    await box.stop_serving()
    box.close()
