"""The runner of an earlier version, in a pod that outlives the upgrade, and today's portal with the pace that it keeps."""

import asyncio
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import OperationalError, transaction
from django.utils.timezone import now

from jobs.archive.logs import job_log
from jobs.models import Replica, ReplicaArchive, Workload
from jobs.pod_api.runner import is_archived
from jobs.rules.states import ReplicaState, WorkloadState
from portal.asgi import application
from portal.asgi_answer import CLOSE, App, Message, Receive, Send, retry_after, send_error
from portal.storage.folder import STORE_PATH, FolderStore
from tests.factories import make_job, make_tenant
from tests.jobs.conftest import store  # noqa: F401 - a fixture
from tests.jobs.pod.pods import UID, Pod
from tests.jobs.pods_door import aim, real_pod
from tests.portal.servers import serving
from tests.upgrade.conftest import or_skip
from tests.upgrade.old import OLD_RUNNER, NoHistoryError, unpack

pytestmark = pytest.mark.e2e

# How the first container ends.
KILLED, REPORTED = "killed", "it reports its end"
LINES = 300
SEGMENT_BYTES = 1_000
SEGMENTS = 2 * LINES * 80 // SEGMENT_BYTES  # of two containers, at least
# Prints more segments than a token may announce without waiting.
PROGRAM = f"""
import os, signal, sys
is_first = not os.path.exists("begun")
open("begun", "w").close()
for number in range({LINES}):
    print("first" if is_first else "second", number, "x" * 80, flush=True)
print("all printed", flush=True)
if is_first and HOW == {REPORTED!r}:
    sys.exit(3)
signal.pause()
"""


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As that version packs it for its pods."""
    folder = tmp_path_factory.mktemp("old-runner")
    try:
        unpack(OLD_RUNNER, folder, "jobs/__init__.py", "jobs/pod")
    except NoHistoryError as error:
        or_skip(error)
    packed = folder / "runner.py"
    code = (
        f"import pathlib, sys; sys.path.insert(0, {str(folder)!r}); from jobs.pod import fetch;"
        f"fetch.write_program(pathlib.Path({str(packed)!r}), fetch.RUNNER_MODULES)"
    )
    subprocess.run([sys.executable, "-I", "-c", code], cwd=folder, check=True)
    return packed


@pytest.fixture
def pod(runner: Path) -> Iterator[Pod]:
    with real_pod() as made:
        (made.root / "homeport/runner.py").write_bytes(runner.read_bytes())
        made.config["limits"]["segment_bytes"] = SEGMENT_BYTES
        made.config |= {"grace_s": 60, "retry_s": 60}
        yield made


class Busy:
    """Stands in front of the whole portal, and refuses the first call of each kind as its pace would.

    Attributes:
        kinds: of the calls that were refused so.
        answers: path and status of all other calls.
    """

    def __init__(self, app: App) -> None:
        self._app = app
        self.kinds: set[str] = set()
        self.answers: list[tuple[str, int]] = []

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        is_stored = path.startswith(STORE_PATH)
        kind = "store" if is_stored else re.sub(r"\d+", "N", path.partition("/replicas/")[2])
        if kind not in self.kinds:
            self.kinds.add(kind)
            headers = [CLOSE, *retry_after(1)]  # the body is not read
            await send_error(send, 429, "too_many_requests", "Try again in 1 s.", headers)
            return

        async def heard(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.answers.append((path, message["status"]))
            await send(message)

        await self._app(scope, receive, heard)


def read_until(process: "subprocess.Popen[bytes]", end: bytes) -> bytes:
    assert process.stdout is not None
    seen = b""
    while not seen.endswith(end):
        line = process.stdout.readline()
        assert line, seen[-2000:]
        seen += line
    return seen


async def begin(pod: Pod, how: str) -> "subprocess.Popen[bytes]":
    pod.python(PROGRAM.replace("HOW", repr(how)))
    return await asyncio.to_thread(pod.start, packed=True)


async def first_run(pod: Pod, how: str, busy: Busy) -> bytes:
    """What the first container prints, until it is killed, with a part of that shipped, or has reported its end."""
    process = await begin(pod, how)
    if how == REPORTED:
        printed, _ = await asyncio.to_thread(process.communicate, timeout=60)
        assert pod.message["uploaded"] is True, pod.message
        return printed
    printed = await asyncio.to_thread(read_until, process, b"all printed\n")
    while not any(path.endswith("/segments/3/done/") for path, _ in busy.answers):
        await asyncio.sleep(0.01)
    pod.close()  # SIGKILL, with its program
    return printed


async def see(job: Workload, job_state: WorkloadState, **replica: Any) -> None:
    """As the reconciler keeps it."""

    @transaction.atomic
    def keep() -> None:
        Workload.objects.filter(pk=job.pk).update(state=job_state)
        Replica.objects.update_or_create(
            workload=job,
            role="worker",
            index=0,
            attempt=1,
            defaults={
                "pod": "pod",
                "pod_uid": UID,
                "started_at": now(),
                "state": ReplicaState.RUNNING,
                **replica,
            },
        )

    while True:
        try:
            return await sync_to_async(keep)()
        except OperationalError:  # a database in memory does not wait for the door, which writes
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("how", [KILLED, REPORTED])
async def test_all_that_two_containers_of_a_pod_print_is_kept(
    transactional_db: None,
    settings: Any,
    store: FolderStore,  # noqa: F811
    pod: Pod,
    how: str,
) -> None:
    job = await sync_to_async(lambda: make_job(make_tenant("alice")))()
    await see(job, WorkloadState.RUNNING)
    busy = Busy(application)
    async with serving(busy) as port:
        settings.POD_PORT, settings.POD_PORTAL_URL = port, f"http://127.0.0.1:{port}"
        aim(pod, job, settings.POD_PORTAL_URL)
        printed = await first_run(pod, how, busy)
        await see(job, WorkloadState.RUNNING, restarts=1)
        process = await begin(pod, how)
        printed += await asyncio.to_thread(read_until, process, b"all printed\n")
        if how == REPORTED:  # nothing but that there is a second container says that more comes
            await see(job, WorkloadState.SUCCEEDED, restarts=1, state=ReplicaState.STOPPED)
        process.send_signal(signal.SIGTERM)
        rest, _ = await asyncio.to_thread(process.communicate, timeout=60)
        printed += rest
    assert pod.message["uploaded"] is True, pod.message

    def check_rows() -> None:
        kept = b"".join(job_log(job, replica=("worker", 0), tail_lines=None))
        assert kept == printed
        assert kept.count(b"[homeport] worker-0 was started again (pod ") == 1
        row = ReplicaArchive.objects.get()
        assert row.is_complete
        assert (row.restarts, row.exit_code, row.exit_reason) == (1, 143, "stopped")
        job.refresh_from_db()
        assert is_archived(job) is (how == REPORTED)

    await sync_to_async(check_rows)()
    of_replica = {
        f"worker/N/N/{what}/" for what in ("segments", "segments/N/done", "usage", "done")
    }
    assert busy.kinds == {"store", *of_replica}
    # The second container may tell of a minute of which the first one has told.
    refused = {
        (path, status)
        for path, status in busy.answers
        if 400 <= status < 500 and not (path.endswith("/usage/") and status == 409)
    }
    assert not refused
    assert sum(path.endswith("/segments/") for path, _ in busy.answers) > SEGMENTS
