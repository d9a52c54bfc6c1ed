"""A served portal with a cluster in memory, and websockets of people to it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from channels.routing import URLRouter
from channels.sessions import SessionMiddlewareStack
from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from jobs.logs import consumers
from jobs.models import Replica, Workload
from jobs.rules.states import ReplicaState, WorkloadState
from portal import live
from tenants import live_socket
from tenants.models import User
from tenants.people.models import SessionStore
from tests.factories import make_job, make_tenant
from tests.jobs.kept_logs import keep
from tests.jobs.logs.fakes import FakeCluster, FakeLog

# As portal/asgi.py has it.
ROUTES = SessionMiddlewareStack(
    URLRouter([*consumers.websocket_urlpatterns, *live_socket.websocket_urlpatterns])
)

# With which a viewer of a longer log begins.
LEFT_OUT = "[homeport] earlier lines are left out; the download and `homeport logs` have them"


class World:
    """A served portal with a cluster in memory, and its people."""

    def __init__(self, port: int, cluster: FakeCluster) -> None:
        self.port = port
        self.cluster = cluster
        self.origin = f"http://localhost:{port}"

    def url(self, path: str) -> str:
        return f"ws://127.0.0.1:{self.port}{path}"

    @asynccontextmanager
    async def open(
        self, path: str, user: User | None = None, **headers: str
    ) -> AsyncIterator[ClientConnection]:
        """A page of ours, signed in as `user`."""
        headers.setdefault("Origin", self.origin)
        if user is not None:
            headers["Cookie"] = await cookie(user)
        given = {name: text for name, text in headers.items() if text}
        origin = given.pop("Origin", None)
        async with connect(
            self.url(path),
            origin=origin,
            additional_headers=given,
            compression=None,  # type: ignore[arg-type]
        ) as socket:
            yield socket


@sync_to_async
def cookie(user: User) -> str:
    session = SessionStore()
    session[SESSION_KEY] = str(user.pk)
    session[BACKEND_SESSION_KEY] = django_settings.AUTHENTICATION_BACKENDS[0]
    session[HASH_SESSION_KEY] = user.get_session_auth_hash()
    session.create()
    return f"{django_settings.SESSION_COOKIE_NAME}={session.session_key}"


@sync_to_async
def a_job(world: World, *names: str, owner: str = "alice", **changes: Any) -> Workload:
    """A running job whose replicas have pods in the cluster."""
    names = names or ("worker-0",)
    roles: dict[str, dict[str, int]] = {}
    for name in names:
        role = name.split("-")[0]
        count = roles.get(role, {}).get("count", 0) + 1
        roles[role] = {"count": count, "cpu_millicores": 1, "memory_bytes": 1, "gpu_count": 0}
    job = make_job(make_tenant(owner), replicas=roles, state=WorkloadState.RUNNING, **changes)
    for name in names:
        role, index = name.split("-")
        world.cluster.pods[f"pod-{name}"] = FakeLog()
        Replica.objects.create(
            workload=job,
            role=role,
            index=int(index),
            pod=f"pod-{name}",
            pod_uid=f"uid-{name}",
            state=ReplicaState.RUNNING,
        )
    return job


def groups() -> Counter[str]:
    """How many pages are told of what happens to whom."""
    layer = get_channel_layer()
    # Redis's layer puts words of its own before the name.
    named = {name.rpartition("__group__")[2]: members for name, members in layer.groups.items()}
    return Counter({name: len(members) for name, members in named.items()})


async def frame(socket: ClientConnection, kind: str = "") -> dict[str, Any]:
    """The next frame, or the next of a kind."""
    async with asyncio.timeout(10):
        while True:
            found: dict[str, Any] = json.loads(await socket.recv())
            if not kind or found["type"] == kind:
                return found


async def lines(socket: ClientConnection, count: int) -> list[str]:
    """So many lines, and exactly so many."""
    texts: list[str] = []
    while len(texts) < count:
        texts += [line["text"] for line in (await frame(socket, "lines"))["lines"]]
    assert len(texts) == count, texts
    return texts


async def to_the_end(socket: ClientConnection) -> tuple[list[str], int | None]:
    """All lines until the connection is closed, and the close code."""
    texts: list[str] = []
    async with asyncio.timeout(10):
        try:
            while True:
                found = json.loads(await socket.recv())
                texts += [line["text"] for line in found.get("lines", ())]
        except ConnectionClosed as closed:
            return texts, closed.rcvd.code if closed.rcvd else None


async def close_code(socket: ClientConnection) -> int | None:
    return (await to_the_end(socket))[1]


@sync_to_async
def begin_again(job: Workload, *, pod: str, pod_uid: str) -> None:
    """The job's second attempt, in a pod that runs."""
    Replica.objects.create(
        workload=job,
        role="worker",
        index=0,
        attempt=2,
        pod=pod,
        pod_uid=pod_uid,
        state=ReplicaState.RUNNING,
    )


@sync_to_async
def change(job: Workload, **fields: Any) -> None:
    """What the reconciler writes, and what it then tells."""
    replica = fields.pop("replica", None)
    if replica:
        Replica.objects.filter(workload=job).update(**replica)
    if fields:
        Workload.objects.filter(pk=job.pk).update(**fields)
    live.changed("job", job.pk, 2, job.tenant_id)


@sync_to_async
def archive_of(
    job: Workload,
    data: bytes,
    *,
    name: str = "worker-0",
    attempt: int = 1,
    is_complete: bool = True,
    cut: int = 10**9,
) -> None:
    role, index = name.split("-")
    pieces = [(at, data[at : at + cut]) for at in range(0, len(data), cut)]
    replica = (role, int(index))
    keep(job, pieces, replica=replica, attempt=attempt, is_complete=is_complete)
