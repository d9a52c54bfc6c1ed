"""What is told of a change: its row of the audit trail, and frames of `/ws/`."""

import asyncio
import io
import json
import re
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from asgiref.sync import async_to_sync, sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.core.management import call_command
from django.test import Client, TestCase

from jobs.logs import hub
from portal import live
from portal.asgi import application
from tenants.models import AuditEntry, User
from tests.factories import make_user
from tests.jobs.logs.fakes import FakeCluster
from tests.jobs.logs.served import a_job, archive_of, change
from tests.portal.routes.scene import undone
from tests.recorded.browsers import without_ids
from tests.tenants.audit.changes import CHANGES, Change, World
from tests.tenants.audit.test_every_change import our_routes, send

WAIT_S = 20.0
# Besides those of CHANGES: what is refused.
REFUSED = {
    ("sign-in", "POST"): Change("", "", lambda world: {"username": "alice", "password": "x"}),
    ("person-disable", "POST"): Change("", "alice"),
    ("job-stop", "POST"): Change("", "bob"),
}


async def _open(path: str, person: User) -> ApplicationCommunicator:
    client = Client()
    await sync_to_async(client.force_login)(person)
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    origin = settings.WEBSOCKET_ORIGINS[0]
    path, _, query = path.partition("?")
    socket = ApplicationCommunicator(
        application,
        {
            "type": "websocket",
            "path": path,
            "query_string": query.encode(),
            "headers": [
                (b"host", b"localhost"),
                (b"origin", origin.encode()),
                (b"cookie", cookie.encode()),
            ],
            "subprotocols": [],
        },
    )
    await socket.send_input({"type": "websocket.connect"})
    assert (await socket.receive_output(WAIT_S))["type"] == "websocket.accept"
    return socket


async def _frame(socket: ApplicationCommunicator) -> dict[str, Any]:
    """The next frame; of the last one, the close code."""
    said = await socket.receive_output(WAIT_S)
    if said["type"] == "websocket.close":
        return {"closed": said["code"]}
    found: dict[str, Any] = json.loads(said["text"])
    return found


async def _close(socket: ApplicationCommunicator) -> None:
    await socket.send_input({"type": "websocket.disconnect", "code": 1000})
    await socket.wait(WAIT_S)


def changes() -> dict[str, Any]:
    """Each call that changes something: its status, what the trail says, what admins' pages hear."""
    with patch("tenants.live_socket.PAUSE_S", 0):
        found = async_to_sync(_changes)()
    client = Client(HTTP_HOST="localhost")
    client.force_login(User.objects.get(username="watcher"))
    page = client.get("/admin/audit/").content.decode()
    for name in ("verb", "kind", "result"):
        choices = re.search(rf'<select id="{name}".*?</select>', page, re.DOTALL)
        assert choices is not None
        found[f"?{name}="] = sorted(re.findall(r'value="([^"]+)"', choices[0]))
    with undone():
        call_command("invite", "ann", stdout=io.StringIO())
        found["manage.py invite"] = _trail(1)
    return found


async def _changes() -> dict[str, Any]:
    person = await sync_to_async(make_user)("watcher", role="admin")
    socket = await _open("/ws/live/", person)
    while await socket.receive_nothing(0.05, 0.002):  # until it hears
        await live.achanged("mark", "", 0, "")
    found = {}
    for (name, method), made in [*sorted(CHANGES.items()), *sorted(REFUSED.items())]:
        key = f"{method} /{our_routes()[name].path}" + ("" if made.verb else " (refused)")
        found[key] = await sync_to_async(_change)(name, method, made)
        await live.achanged("mark", key, 0, "")
        found[key]["frames"] = await _heard_before(socket, key)
    await _close(socket)
    return found


async def _heard_before(socket: ApplicationCommunicator, mark: str) -> list[dict[str, Any]]:
    """What was told since the last mark. Two changes of one thing are one frame where nobody reads in between."""
    heard: list[dict[str, Any]] = []
    while (frame := await _frame(socket))["id"] != mark:
        row = {**frame, "id": "<id>", "revision": type(frame["revision"]).__name__}
        if frame["kind"] != "mark" and row not in heard:
            heard.append(row)
    return sorted(heard, key=str)


def _trail(count: int) -> list[list[Any]]:
    rows = AuditEntry.objects.order_by("-pk")[:count]
    return [[row.verb, row.kind, row.result, sorted(row.detail)] for row in rows]


def _change(name: str, method: str, made: Change) -> dict[str, Any]:
    with undone():
        world = World()
        made.before(world)
        before = AuditEntry.objects.count()
        with TestCase.captureOnCommitCallbacks(execute=True):
            answer = send(world, our_routes()[name], method, made)
        said = {
            "status": answer.status_code,
            "trail": _trail(AuditEntry.objects.count() - before),
        }
        if "Location" in answer:
            said["to"] = without_ids(answer["Location"])
        return said


def logs() -> dict[str, Any]:
    """The frames of a log: live until its training ends, archived, of an attempt that never was."""
    return async_to_sync(_logs)()


async def _logs() -> dict[str, Any]:
    cluster = FakeCluster()
    made = hub.Hub(cluster)
    hub.set_hub(made)
    try:
        world: Any = SimpleNamespace(cluster=cluster)
        job = await a_job(world, "worker-0", "ps-0")
        path = f"/ws/jobs/{job.pk}/logs/"
        for name in ("worker-0", "ps-0"):
            cluster.pods[f"pod-{name}"].lines(b"one", b"two \x1b[31mred\x1b[0m")
        found = {"live": await _said(path + "?replica=worker-0", job.owner, 3)}
        cluster.pods.clear()
        await archive_of(job, b"a\nb\n")
        await archive_of(job, b"c\n", name="ps-0")
        await change(
            job,
            state="failed",
            reason_code="exit_code",
            reason_text="It ended.",
            replica={"state": "failed"},
        )
        for name, query in {
            "archived": "?replica=worker-0",
            "of both, behind a cursor": "?cursor=worker-0.a.1.2~ps-0.a.1.2",
            "no such attempt": "?attempt=7",
            "no such replica": "?replica=ps-9",
        }.items():
            frames = await _said(path + query, job.owner)
            found[name] = sorted(frames, key=lambda row: (str(row.get("replica")), str(row)))
        return found
    finally:
        await made.close()
        hub.set_hub(None)


async def _said(path: str, person: User, count: int = 0) -> list[dict[str, Any]]:
    """So many frames, or all until the connection is closed."""
    socket = await _open(path, person)
    frames = [await _frame(socket)]
    async with asyncio.timeout(WAIT_S):
        while len(frames) != count and "closed" not in frames[-1]:
            frames.append(await _frame(socket))
    await _close(socket)
    return frames
