"""Volumes are made for the claims that the control plane asks for, and for all of them."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web

from onebox.node.events import Recorder
from onebox.node.provisioner import ASKED, PROVISIONER, Provisioner
from onebox_tests.node_kubelet.conftest import StartApi
from onebox_tests.node_kubelet.fakeapi import FakeApi, Request, ok, stream

CLAIMS = "/api/v1/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"


def claim(name: str, *, is_asked: bool) -> dict:
    return {
        "metadata": {
            "namespace": "ns",
            "name": name,
            "uid": name,
            "resourceVersion": "2",
            "annotations": {ASKED[0]: PROVISIONER} if is_asked else {},
        },
        "spec": {
            "storageClassName": "folders",
            "accessModes": ["ReadWriteMany"],
            "resources": {"requests": {"storage": "1Gi"}},
        },
        "status": {"phase": "Pending"},
    }


@asynccontextmanager
async def running(api: FakeApi, folder: Path):
    recorder = Recorder(api.client, "onebox")
    task = asyncio.create_task(Provisioner(api.client, recorder, folder, is_root=False).run())
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def made(api: FakeApi) -> list[str]:
    return [r.body["metadata"]["name"] for r in api.seen if (r.method, r.path) == ("POST", VOLUMES)]


async def test_a_claim_that_is_asked_for_while_another_gets_its_volume_gets_one(
    start_api: StartApi, tmp_path: Path
):
    asks = asyncio.Event()

    async def answer(request: Request) -> web.StreamResponse:
        if request.path.startswith("/apis/storage.k8s.io/v1/storageclasses/"):
            asks.set()
            await asyncio.sleep(0.2)  # the other claim's annotation comes meanwhile
            return ok({"provisioner": PROVISIONER})
        if request.query.get("watch"):
            if request.path != CLAIMS:
                return await stream(request, hold=True)
            await asks.wait()
            event = {"type": "MODIFIED", "object": claim("second", is_asked=True)}
            return await stream(request, event, hold=True)
        listed = [claim("first", is_asked=True), claim("second", is_asked=False)]
        items = listed if request.path == CLAIMS else []
        return ok({"metadata": {"resourceVersion": "1"}, "items": items})

    api = await start_api(answer)
    async with running(api, tmp_path):
        await api.wait_for(lambda: len(made(api)) == 2)
    assert made(api) == ["pvc-first", "pvc-second"]
    assert (tmp_path / "pvc-second").is_dir()


async def test_claims_that_are_not_asked_for_get_none(start_api: StartApi, tmp_path: Path):
    """The control plane may have a volume for it already, or ask another provisioner."""
    asked = asyncio.Event()

    async def answer(request: Request) -> web.StreamResponse:
        if request.path.startswith("/apis/storage.k8s.io/v1/storageclasses/"):
            asked.set()
            return ok({"provisioner": PROVISIONER})
        if request.query.get("watch"):
            return await stream(request, hold=True)
        other = claim("other", is_asked=True)
        other["metadata"]["annotations"] = {ASKED[0]: "another.example/provisioner"}
        listed = [claim("early", is_asked=False), other, claim("ours", is_asked=True)]
        items = listed if request.path == CLAIMS else []
        return ok({"metadata": {"resourceVersion": "1"}, "items": items})

    api = await start_api(answer)
    async with running(api, tmp_path):
        await asked.wait()
        await api.wait_for(lambda: bool(made(api)))
    assert made(api) == ["pvc-ours"]
