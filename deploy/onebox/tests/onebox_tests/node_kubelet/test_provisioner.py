"""Volumes are made for the claims that the control plane asks for, and for all of them."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from onebox.node import provisioner
from onebox.node.events import Recorder
from onebox.node.ownership import Owner, read_owner, write_owner
from onebox.node.provisioner import ASKED, PROVISIONED_BY, PROVISIONER, Provisioner
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


READ_ONLY = """
import os
import sys
from pathlib import Path
from onebox.node.provisioner import remove_folder
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
path = Path(sys.argv[1], "pvc-1")
part = path / "dataset" / "part"
part.mkdir(parents=True)
(part / "rows.bin").write_bytes(b"rows")
(path / "elsewhere").symlink_to(sys.argv[2])
for folder in (part, part.parent, path):
    folder.chmod(0o000 if folder == part else 0o555)
remove_folder(path)
assert not path.exists()
remove_folder(path)
"""


def test_folders_that_nobody_may_write_are_removed_and_what_they_point_to_is_not():
    """A dataset that somebody protected, a cache of Go modules; root would not notice."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as elsewhere:
        for path in (folder, elsewhere):
            os.chmod(path, 0o777)
        kept = Path(elsewhere, "kept")
        kept.mkdir(mode=0o555)
        done = subprocess.run(
            [sys.executable, "-c", READ_ONLY, folder, elsewhere],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert kept.stat().st_mode & 0o777 == 0o555


async def test_a_volume_stays_until_its_folder_is_gone(
    start_api: StartApi,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
):
    monkeypatch.setattr(provisioner, "FIRST_PAUSE_S", 0.01)
    folder = tmp_path / "pvc-1"
    folder.mkdir()
    (folder / "data").write_bytes(b"rows")
    write_owner(folder, Owner("ns", "data", ""))
    volume = {
        "metadata": {
            "name": "pvc-1",
            "uid": "1",
            "resourceVersion": "2",
            "annotations": {PROVISIONED_BY: PROVISIONER},
        },
        "spec": {
            "persistentVolumeReclaimPolicy": "Delete",
            "hostPath": {"path": str(folder)},
            "claimRef": {"namespace": "ns", "name": "data", "uid": "c"},
        },
        "status": {"phase": "Released"},
    }
    tries: list[bool] = []

    def busy(path: Path, ignore_errors: bool = False) -> None:
        tries.append(read_owner(folder) is not None)
        if len(tries) < 3:
            if ignore_errors:
                return
            raise OSError(errno.EBUSY, "Device or resource busy", str(path))
        (folder / "data").unlink()
        folder.rmdir()

    monkeypatch.setattr(provisioner.shutil, "rmtree", busy)

    def removed(api: FakeApi) -> list[str]:
        return [seen.path for seen in api.seen if seen.method == "DELETE"]

    async def answer(request: Request) -> web.StreamResponse:
        if request.query.get("watch"):
            return await stream(request, hold=True)
        if request.method == "DELETE":
            assert not folder.exists()
        items = [volume] if request.path == VOLUMES else []
        return ok({"metadata": {"resourceVersion": "1"}, "items": items})

    api = await start_api(answer)
    async with running(api, tmp_path):
        await api.wait_for(lambda: bool(removed(api)))
    assert tries == [True, True, True], "whose it is is known for as long as it is there"
    assert read_owner(folder) is None
    assert caplog.text.count("volume pvc-1 could not be removed") == 2
    assert "Device or resource busy" in caplog.text
