"""The websockets themselves, on a real server: who gets in, what comes, how it ends."""

import asyncio
import hashlib
import io
import json
import shutil
import socket as socket_module
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from channels.layers import get_channel_layer
from channels.routing import URLRouter
from channels.sessions import SessionMiddlewareStack
from django.conf import settings as django_settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.utils import timezone
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from jobs import archive
from jobs.logs import consumers, hub, tail
from jobs.logs import feed as feed_module
from jobs.logs import viewer as viewer_module
from jobs.models import Job, LogSegment, Replica, ReplicaArchive
from jobs.rules.states import Desired, JobState, ReplicaState
from portal import live, live_consumer, storage
from tenants import sockets
from tenants.models import ApiToken, Team, User
from tenants.people.session_store import SessionStore
from tests.factories import make_job, make_tenant, make_user
from tests.jobs.logs.fakes import FakeCluster, FakeLog, until
from tests.portal.servers import serving

pytestmark = pytest.mark.django_db(transaction=True)
# As portal/asgi.py has it.
ROUTES = SessionMiddlewareStack(
    URLRouter([*consumers.websocket_urlpatterns, *live_consumer.websocket_urlpatterns])
)


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


@pytest.fixture
def store(settings: Any) -> Iterator[None]:
    root = Path(tempfile.mkdtemp(prefix="homeport-logs-"))
    settings.HOMEPORT_HOME = root
    yield
    shutil.rmtree(root)


@pytest.fixture
async def world(
    transactional_db: None, settings: Any, store: None, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setattr(tail, "RETRY_FIRST_S", 0.005)
    monkeypatch.setattr(hub, "LINGER_S", 0.05)
    monkeypatch.setattr(consumers, "DEBOUNCE_S", 0.01)
    cluster = FakeCluster()
    made = hub.Hub(cluster)
    hub.set_hub(made)
    async with serving(ROUTES) as port:
        settings.WEBSOCKET_ORIGINS = [f"http://localhost:{port}"]
        yield World(port, cluster)
    await made.close()
    hub.set_hub(None)
    assert not sockets._open


@sync_to_async
def a_job(world: World, *names: str, owner: str = "alice", **changes: Any) -> Job:
    """A running job whose replicas have pods in the cluster."""
    names = names or ("worker-0",)
    roles: dict[str, dict[str, int]] = {}
    for name in names:
        role = name.split("-")[0]
        count = roles.get(role, {}).get("count", 0) + 1
        roles[role] = {"count": count, "cpu_millicores": 1, "memory_bytes": 1, "gpu_count": 0}
    job = make_job(make_tenant(owner), replicas=roles, state=JobState.RUNNING, **changes)
    for name in names:
        role, index = name.split("-")
        world.cluster.pods[f"pod-{name}"] = FakeLog()
        Replica.objects.create(
            job=job,
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
    return Counter({name: len(members) for name, members in layer.groups.items()})


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
def change(job: Job, **fields: Any) -> None:
    """What the reconciler writes, and what it then tells."""
    replica = fields.pop("replica", None)
    if replica:
        Replica.objects.filter(job=job).update(**replica)
    if fields:
        Job.objects.filter(pk=job.pk).update(**fields)
    live.changed("job", job.pk, 2, job.tenant_id)


@sync_to_async
def archive_of(
    job: Job, data: bytes, *, name: str = "worker-0", is_complete: bool = True, cut: int = 10**9
) -> None:
    role, index = name.split("-")
    row, _ = ReplicaArchive.objects.update_or_create(
        job=job, role=role, index=int(index), attempt=1, defaults={"is_complete": is_complete}
    )
    for number, at in enumerate(range(0, len(data), cut), start=1):
        piece = data[at : at + cut]
        key = f"{archive.job_prefix(job)}logs/{name}/1/{number}-{len(data)}"
        storage.get_store().put_file(key, io.BytesIO(piece))
        LogSegment.objects.update_or_create(
            archive=row,
            number=number,
            defaults={
                "start_byte": at,
                "size_bytes": len(piece),
                "sha256": hashlib.sha256(piece).hexdigest(),
                "storage_key": key,
            },
        )


# --- who gets in ----------------------------------------------------------------------------------

PATHS = ["/ws/jobs/{id}/logs/", "/ws/live/"]


@pytest.mark.parametrize("path", PATHS)
async def test_the_origin_is_exact_where_a_cookie_speaks(world: World, path: str) -> None:
    job = await a_job(world)
    path = path.format(id=job.pk)
    async with world.open(path, job.owner):
        pass
    wrong = [
        "",
        "null",
        "http://localhost",
        f"http://localhost:{world.port + 1}",
        f"https://localhost:{world.port}",
        f"http://127.0.0.1:{world.port}",
        f"http://[::1]:{world.port}",
        f"http://LOCALHOST:{world.port}",
        f"http://localhost:{world.port}/",
        f"http://localhost:{world.port}.evil.example",
        f"http://evil.localhost:{world.port}",
        "http://evil.example",
        f"http://localhost:{world.port} http://evil.example",
    ]
    for origin in wrong:
        with pytest.raises(InvalidStatus) as refused:
            async with world.open(path, job.owner, Origin=origin):
                pass
        assert refused.value.response.status_code == 403, origin


@pytest.mark.parametrize("path", PATHS)
async def test_a_token_needs_no_origin_but_never_a_wrong_one(world: World, path: str) -> None:
    job = await a_job(world)
    path = path.format(id=job.pk)
    _, plain = await sync_to_async(lambda: ApiToken.issue(user=job.owner, name="x"))()
    for origin in ("", world.origin):
        async with world.open(path, Origin=origin, Authorization=f"Token {plain}") as socket:
            if "jobs" in path:
                assert (await frame(socket))["type"] == "state"
    with pytest.raises(InvalidStatus):
        async with world.open(path, Origin="http://evil.example", Authorization=f"Token {plain}"):
            pass
    for token in ("hp_wrong", plain + "x"):
        async with world.open(path, Origin="", Authorization=f"Token {token} ") as socket:
            assert await close_code(socket) == 4401


@pytest.mark.parametrize("path", PATHS)
async def test_nobody_gets_4401(world: World, path: str) -> None:
    job = await a_job(world)
    path = path.format(id=job.pk)
    for text in ("", f"{django_settings.SESSION_COOKIE_NAME}=nonsense", "other=1"):
        async with world.open(path, Cookie=text) as socket:
            assert await close_code(socket) == 4401
    cookie_text = await cookie(job.owner)
    await User.objects.filter(pk=job.owner.pk).aupdate(is_active=False)
    async with world.open(path, Cookie=cookie_text) as socket:
        assert await close_code(socket) == 4401


async def test_what_is_not_yours_is_not_there(world: World) -> None:
    team = await Team.objects.acreate(name="vision")
    job = await a_job(world)
    job.tenant.team = team
    await job.tenant.asave()
    lead, mallory, root = [
        await sync_to_async(make_user)(name, **more)
        for name, more in (
            ("lee", {}),
            ("mallory", {"team": team}),
            ("root", {"role": User.Role.ADMIN}),
        )
    ]
    await team.leads.aadd(lead)
    path = f"/ws/jobs/{job.pk}/logs/"
    for user in (job.owner, lead, root):
        async with world.open(path, user) as socket:
            assert (await frame(socket))["state"] == "running"
    for user, where in (
        (mallory, path),
        (job.owner, f"/ws/jobs/{uuid4()}/logs/"),
        (job.owner, path + "?replica=worker-1"),
        (job.owner, path + "?replica=../x"),
    ):
        async with world.open(where, user) as socket:
            assert await close_code(socket) == 4404
    await Job.objects.filter(pk=job.pk).aupdate(desired=Desired.DELETE)
    async with world.open(path, job.owner) as socket:
        assert await close_code(socket) == 4404


async def test_too_many_connections_are_told_to_come_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (sockets.MAX_PER_USER, sockets.MAX_SOCKETS) == (10, 500)
    monkeypatch.setattr(sockets, "MAX_PER_USER", 2)
    job = await a_job(world)
    bob = await sync_to_async(make_user)("bob")
    async with world.open("/ws/live/", job.owner), world.open("/ws/live/", job.owner):
        async with world.open("/ws/live/", job.owner) as socket:
            assert await close_code(socket) == 1013
        monkeypatch.setattr(sockets, "MAX_SOCKETS", 2)
        async with world.open("/ws/live/", bob) as socket:
            assert await close_code(socket) == 1013
    await until(lambda: not sockets._open)
    async with world.open("/ws/live/", job.owner) as socket:
        await socket.send("hello")
        await socket.send(b"\x00" * 4096)
        await socket.ping()
        await socket.send("x" * 4097)
        assert await close_code(socket) == 1009


async def test_who_is_signed_out_is_put_out(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sockets.LOOK_AGAIN_S == 30
    assert sockets.MAX_LIFE_S == 8 * 3600
    monkeypatch.setattr(sockets, "LOOK_AGAIN_S", 0.05)
    job = await a_job(world)
    path = f"/ws/jobs/{job.pk}/logs/"
    text = await cookie(job.owner)
    async with world.open(path, Cookie=text) as one, world.open("/ws/live/", Cookie=text) as two:
        await asyncio.sleep(0.2)
        await SessionStore(text.split("=")[1]).aflush()
        assert await close_code(one) == 4401
        assert await close_code(two) == 4401
    token, plain = await sync_to_async(lambda: ApiToken.issue(user=job.owner, name="x"))()
    async with world.open(path, Origin="", Authorization=f"Token {plain}") as socket:
        token.expires_at = timezone.now() - timedelta(seconds=1)
        await token.asave()
        assert await close_code(socket) == 4401
    async with world.open(path, job.owner) as socket:
        await Job.objects.filter(pk=job.pk).aupdate(desired=Desired.DELETE)
        assert await close_code(socket) == 4404
    monkeypatch.setattr(sockets, "MAX_LIFE_S", 0.01)
    async with world.open("/ws/live/", job.owner) as socket:
        assert await close_code(socket) == 1013


# --- what comes -----------------------------------------------------------------------------------


async def test_lines_of_a_running_pod_come_live(world: World) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(b"one", "zwei ä".encode())
    async with world.open(f"/ws/jobs/{job.pk}/logs/?replica=worker-0", job.owner) as socket:
        states = [await frame(socket, "state") for _ in range(2)]
        assert states == [
            {"type": "state", "replica": "", "state": "running", "reason": ""},
            {"type": "state", "replica": "worker-0", "state": "running", "reason": ""},
        ]
        found = await frame(socket, "lines")
        assert (found["replica"], set(found)) == (
            "worker-0",
            {"type", "replica", "cursor", "lines"},
        )
        assert found["lines"] == [
            {"t": "2026-11-20T00:00:00.000000000Z", "text": "one"},
            {"t": "2026-11-20T00:00:00.000000001Z", "text": "zwei ä"},
        ]
        log.lines(b"three", at=5)
        assert await lines(socket, 1) == ["three"]
    await until(lambda: log.open_count == 0)


async def test_all_replicas_are_merged_and_share_their_follows(world: World) -> None:
    job = await a_job(world, "worker-0", "worker-1", "ps-0")
    path = f"/ws/jobs/{job.pk}/logs/"
    async with world.open(path, job.owner) as one, world.open(path, job.owner) as two:
        for number, name in enumerate(("worker-0", "worker-1", "ps-0")):
            world.cluster.pods[f"pod-{name}"].lines(name.encode(), at=number)
        assert (
            set(await lines(one, 3))
            == set(await lines(two, 3))
            == {
                "worker-0",
                "worker-1",
                "ps-0",
            }
        )
        opened = [log.open_count for log in world.cluster.pods.values()]
        assert opened == [1, 1, 1]


async def test_a_pane_opened_before_the_pod_starts_by_itself(world: World) -> None:
    job = await a_job(world)
    await change(job, state=JobState.QUEUED, replica={"state": ReplicaState.PENDING, "pod": ""})
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert [(await frame(socket))["state"] for _ in range(2)] == ["queued", "pending"]
        log = world.cluster.pods["pod-worker-0"]
        assert not log.opened
        log.lines(b"here")
        await change(
            job,
            state=JobState.RUNNING,
            replica={"state": ReplicaState.RUNNING, "pod": "pod-worker-0"},
        )
        assert [(await frame(socket, "state"))["state"] for _ in range(2)] == ["running", "running"]
        assert await lines(socket, 1) == ["here"]


async def test_a_cursor_goes_on_exactly_behind_the_last_line(world: World) -> None:
    job = await a_job(world, "worker-0", "worker-1")
    zero, one = (world.cluster.pods[f"pod-worker-{index}"] for index in (0, 1))
    zero.lines(b"a", b"b", at=1, step=0)
    one.lines(b"x", at=1)
    path = f"/ws/jobs/{job.pk}/logs/"
    async with world.open(path, job.owner) as socket:
        cursor = ""
        seen = 0
        while seen < 3:
            found = await frame(socket, "lines")
            seen += len(found["lines"])
            cursor = found["cursor"]
    zero.lines(b"c", at=1)
    zero.lines(b"d", at=2)
    one.lines(b"y", at=1)
    for is_warm in (True, False):  # while the follow goes on, and when it is gone
        if not is_warm:
            await until(lambda: zero.open_count == one.open_count == 0)
        async with world.open(f"{path}?cursor={cursor}", job.owner) as socket:
            assert sorted(await lines(socket, 3)) == ["c", "d", "y"]
    for nonsense in ("x", "worker-0.l.1", "%00", "a" * 5000):
        async with world.open(f"{path}?cursor={nonsense}", job.owner) as socket:
            assert len(await lines(socket, 6)) == 6


async def test_a_late_viewer_gets_what_was_before_and_a_returning_one_what_it_missed(
    world: World,
) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(*(b"old %d" % number for number in range(50)), at=1)
    path = f"/ws/jobs/{job.pk}/logs/?replica=worker-0"
    async with world.open(path, job.owner) as first:
        cursor = (await frame(first, "lines"))["cursor"]
    await until(lambda: log.open_count == 0)
    log.lines(*(b"%06d" % number for number in range(3000)), at=1000)
    # The follow begins again with the newest lines; the returning viewer has missed more.
    async with world.open(path, job.owner) as watcher:
        assert (await lines(watcher, 1000))[0] == "002000"
        async with world.open(f"{path}&cursor={cursor}", job.owner) as returning:
            log.lines(b"new", at=10**6)
            texts = await lines(returning, 3001)
            assert texts == [*(f"{number:06d}" for number in range(3000)), "new"]
        async with world.open(path, job.owner) as late:
            texts = await lines(late, 1001)
            assert texts[-2:] == ["002999", "new"]


async def test_a_viewer_without_cursor_gets_the_newest_lines_of_a_follow_that_began_later(
    world: World,
) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(*(b"%d" % number for number in range(30)), at=1)
    path = f"/ws/jobs/{job.pk}/logs/?replica=worker-0"
    cursor = f"worker-0.l.1.{_ns(25)}.1."
    async with world.open(f"{path}&cursor={cursor}", job.owner) as first:
        assert await lines(first, 5) == ["25", "26", "27", "28", "29"]
        async with world.open(path, job.owner) as second:
            assert await lines(second, 30) == [str(number) for number in range(30)]


def _ns(nanoseconds: int) -> int:
    from jobs.logs.lines import parse_time
    from tests.jobs.logs.fakes import stamp

    return parse_time(stamp(nanoseconds).decode())


async def test_a_finished_job_ends_with_end(world: World) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(b"a")
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert await lines(socket, 1) == ["a"]
        log.lines(b"last", at=9)
        log.end()
        assert await lines(socket, 1) == ["last"]
        await change(
            job,
            state=JobState.FAILED,
            reason_text="worker-0 ended with 1",
            replica={"state": ReplicaState.FAILED},
        )
        assert await frame(socket) == {
            "type": "state",
            "replica": "",
            "state": "failed",
            "reason": "worker-0 ended with 1",
        }
        assert (await frame(socket))["replica"] == "worker-0"
        assert await frame(socket) == {"type": "end"}
        assert await close_code(socket) == 1000


async def test_a_job_that_never_ran_ends_at_once(world: World) -> None:
    job = await a_job(world)
    await Replica.objects.filter(job=job).adelete()
    await Job.objects.filter(pk=job.pk).aupdate(state=JobState.STOPPED)
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert await to_the_end(socket) == ([], 1000)


# --- the archive in the same pane -----------------------------------------------------------------

DONE = {"state": JobState.SUCCEEDED, "replica": {"state": ReplicaState.SUCCEEDED}}


async def test_the_archive_is_shown_when_the_pod_is_gone(world: World) -> None:
    job = await a_job(world)
    world.cluster.pods.clear()
    await archive_of(job, b"a\n\x1b]0;title\x07b\r\nc" * 3, cut=4)
    await change(job, **DONE)
    path = f"/ws/jobs/{job.pk}/logs/"
    async with world.open(path, job.owner) as socket:
        found = await frame(socket, "lines")
        assert found["lines"][0] == {"t": "", "text": "a"}
        first = [line["text"] for line in found["lines"]]
        rest, code = await to_the_end(socket)
        assert (first + rest, code) == (["a", "b", "ca", "b", "ca", "b", "c"], 1000)
    async with world.open(f"{path}?cursor={found['cursor']}", job.owner) as socket:
        assert await to_the_end(socket) == (rest, 1000)


async def test_of_a_long_archive_the_newest_lines_are_shown(world: World) -> None:
    job = await a_job(world)
    data = b"".join(b"%06d\n" % number for number in range(5000))
    await archive_of(job, data, cut=9999)
    await change(job, **DONE)
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        texts, code = await to_the_end(socket)
    assert code == 1000
    assert texts[0] == "[homeport] 28000 bytes of earlier output are in the download"
    assert texts[1:] == [f"{number:06d}" for number in range(4000, 5000)]


async def test_a_pod_that_vanishes_is_continued_from_the_archive_without_a_gap(
    world: World,
) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(*(b"%d" % number for number in range(10)))
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert len(await lines(socket, 10)) == 10
        log.vanish()
        del world.cluster.pods["pod-worker-0"]
        await archive_of(job, b"".join(b"%d\n" % number for number in range(15)), cut=7)
        await change(job, **DONE)
        assert await to_the_end(socket) == (["10", "11", "12", "13", "14"], 1000)


async def test_a_viewer_that_returns_after_the_pod_is_gone_goes_on_in_the_archive(
    world: World,
) -> None:
    job = await a_job(world)
    world.cluster.pods["pod-worker-0"].lines(*(b"%d" % number for number in range(10)))
    path = f"/ws/jobs/{job.pk}/logs/"
    async with world.open(path, job.owner) as socket:
        cursor = (await frame(socket, "lines"))["cursor"]
    world.cluster.pods.pop("pod-worker-0").vanish()
    await archive_of(job, b"".join(b"%d\n" % number for number in range(12)))
    await change(job, **DONE)
    async with world.open(f"{path}?cursor={cursor}", job.owner) as socket:
        assert await to_the_end(socket) == (["10", "11"], 1000)


async def test_where_the_place_is_not_found_or_not_unique_it_is_said(world: World) -> None:
    job = await a_job(world)
    world.cluster.pods["pod-worker-0"].lines(*[b"same"] * 6)
    path = f"/ws/jobs/{job.pk}/logs/"
    async with world.open(path, job.owner) as socket:
        cursor = (await frame(socket, "lines"))["cursor"]
    world.cluster.pods.pop("pod-worker-0").vanish()
    await change(job, **DONE)
    await archive_of(job, b"same\n" * 8)
    async with world.open(f"{path}?cursor={cursor}", job.owner) as socket:
        texts, _ = await to_the_end(socket)
        assert (
            texts
            == ["[homeport] from here on the archive; some lines may come again"] + ["same"] * 4
        )
    await archive_of(job, b"other\n")
    await LogSegment.objects.filter(number__gt=1).adelete()
    async with world.open(f"{path}?cursor={cursor}", job.owner) as socket:
        texts, _ = await to_the_end(socket)
        assert "may come again or be missing" in texts[0]
        assert texts[1:] == ["other"]


async def test_an_archive_that_still_grows_is_shown_as_it_comes(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_module, "LOOK_AGAIN_S", 0.05)
    job = await a_job(world)
    world.cluster.pods.clear()
    await archive_of(job, b"a\nhalf", is_complete=False)
    await change(job, **DONE)
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert await lines(socket, 1) == ["a"]
        await archive_of(job, b"a\nhalf a line\nb\n", is_complete=False)
        assert await lines(socket, 2) == ["half a line", "b"]
        await archive_of(job, b"a\nhalf a line\nb\nend")
        await change(job)
        assert await to_the_end(socket) == (["end"], 1000)


async def test_a_lost_object_is_told_and_does_not_end_the_pane(world: World) -> None:
    job = await a_job(world)
    world.cluster.pods.clear()
    await archive_of(job, b"a\n")
    await sync_to_async(storage.get_store().delete_prefix)(archive.job_prefix(job))
    await change(job, **DONE)
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        (text,) = await lines(socket, 1)
        assert "the archive cannot be read" in text


async def test_a_new_attempt_is_followed_in_the_same_pane(world: World) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(b"first")
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert await lines(socket, 1) == ["first"]
        log.end()
        second = world.cluster.pods["pod-2"] = FakeLog()
        second.lines(b"second", at=100)
        await sync_to_async(Replica.objects.create)(
            job=job,
            role="worker",
            index=0,
            attempt=2,
            pod="pod-2",
            pod_uid="uid-2",
            state=ReplicaState.RUNNING,
        )
        await change(job, attempt=2)
        assert await lines(socket, 2) == ["[homeport] attempt 2", "second"]


# --- floods and those who do not read -------------------------------------------------------------


async def test_a_viewer_that_never_reads_costs_little_and_disturbs_nobody(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer_module, "STUCK_S", 1.0)
    monkeypatch.setattr(sockets, "ABORT_S", 0.3)
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    path = f"/ws/jobs/{job.pk}/logs/?replica=worker-0"
    raw = socket_module.create_connection(("127.0.0.1", world.port))
    raw.setsockopt(socket_module.SOL_SOCKET, socket_module.SO_RCVBUF, 4096)
    reader, writer = await asyncio.open_connection(sock=raw, limit=1024)
    request = (
        f"GET {path} HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Origin: {world.origin}\r\nCookie: {await cookie(job.owner)}\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    writer.write(request.encode())
    await reader.readuntil(b"\r\n\r\n")
    writer.transport.pause_reading()
    async with world.open(path, job.owner) as healthy:
        log.lines(b"begin")
        assert await lines(healthy, 1) == ["begin"]
        counts = {"lines": 0, "skipped": 0}

        async def read_on() -> None:
            while True:
                found = await frame(healthy)
                counts["lines"] += len(found.get("lines", ()))
                counts["skipped"] += found.get("count", 0)

        reading = asyncio.create_task(read_on())
        total = 0
        async with asyncio.timeout(20):
            while sockets._open[job.owner.pk] == 2:  # until the stuck one is put out
                rows = (b"%07d" % (total + number) + b"x" * 993 for number in range(100))
                log.lines(*rows, at=total + 1)
                total += 100
                await asyncio.sleep(0.005)
            while sum(counts.values()) < total:
                await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)
        assert sum(counts.values()) == total
        log.lines(b"still here", at=10**9)
        assert (await lines(healthy, 1)) == ["still here"]
    writer.close()


async def test_a_stuck_viewer_that_reads_again_learns_why_it_was_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer_module, "STUCK_S", 0.5)
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    path = f"/ws/jobs/{job.pk}/logs/?replica=worker-0"
    async with world.open(path, job.owner) as socket:
        log.lines(b"begin")
        assert await lines(socket, 1) == ["begin"]
        socket.transport.pause_reading()
        log.lines(*(b"x" * 1000 for _ in range(30_000)), at=1)
        await until(lambda: not sockets._open)
        socket.transport.resume_reading()
        assert await close_code(socket) == 1013


async def test_connections_that_come_and_go_leave_nothing(world: World) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(b"a")
    path = f"/ws/jobs/{job.pk}/logs/"
    text = await cookie(job.owner)
    for _ in range(3):
        async with world.open(path, Cookie=text) as socket:
            await frame(socket, "lines")
    await until(lambda: log.open_count == 0 and not sockets._open)
    before = len(asyncio.all_tasks())
    for _ in range(40):
        async with world.open(path, Cookie=text) as socket:
            await frame(socket)
    await until(lambda: log.open_count == 0 and not sockets._open)
    await until(lambda: len(asyncio.all_tasks()) <= before)


# --- /ws/live/ ------------------------------------------------------------------------------------


async def test_a_page_hears_of_its_own_tenant_and_leads_of_theirs(world: World) -> None:
    team = await Team.objects.acreate(name="vision")
    own = await sync_to_async(make_tenant)("alice", team=team)
    other = await sync_to_async(make_tenant)("mallory")
    lead = await sync_to_async(make_user)("lee")
    root = await sync_to_async(make_user)("root", role=User.Role.ADMIN)
    await team.leads.aadd(lead)
    path = "/ws/live/"
    async with (
        world.open(path, own.owner) as alice,
        world.open(path, other.owner) as mallory,
        world.open(path, lead) as lee,
        world.open(path, root) as admin,
    ):
        await until(lambda: groups()[live.EVERYBODY_GROUP] == 4)
        await live.achanged("job", "1", 7, own.pk)
        await live.achanged("tenant", "2", 8, other.pk)
        await live.achanged("health", "", 9, "")
        mine = {"type": "changed", "kind": "job", "id": "1", "revision": 7}
        theirs = {"type": "changed", "kind": "tenant", "id": "2", "revision": 8}
        admins = {"type": "changed", "kind": "health", "id": "", "revision": 9}
        assert await frame(alice) == mine
        assert await frame(lee) == mine
        assert await frame(mallory) == theirs
        assert [await frame(admin) for _ in range(3)] == [mine, theirs, admins]
        for socket in (alice, lee, mallory):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(socket.recv(), 0.05)
        await live.tell_everybody("cluster", 10)
        everybodys = {"type": "changed", "kind": "cluster", "id": "", "revision": 10}
        for socket in (alice, lee, mallory, admin):
            assert await frame(socket) == everybodys


async def test_a_burst_is_one_frame_for_each_thing(world: World) -> None:
    tenant = await sync_to_async(make_tenant)("alice")
    async with world.open("/ws/live/", tenant.owner) as socket:
        await until(lambda: groups()[live.tenant_group(tenant.pk)] == 1)
        for revision in range(1, 301):
            await live.achanged("job", "a" if revision % 2 else "b", revision, tenant.pk)
            if revision % 50 == 0:
                await asyncio.sleep(0)
        found: list[dict[str, Any]] = []
        while {row["id"]: row["revision"] for row in found} != {"a": 299, "b": 300}:
            found.append(await frame(socket))
        assert len(found) < 60


async def test_who_becomes_a_lead_hears_of_the_team_soon(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sockets, "LOOK_AGAIN_S", 0.05)
    team = await Team.objects.acreate(name="vision")
    tenant = await sync_to_async(make_tenant)("alice", team=team)
    lead = await sync_to_async(make_user)("lee")
    async with world.open("/ws/live/", lead) as socket:
        await team.leads.aadd(lead)
        await until(lambda: groups()[live.tenant_group(tenant.pk)] == 1)
        await live.achanged("job", "1", 1, tenant.pk)
        assert (await frame(socket))["id"] == "1"
        await team.leads.aremove(lead)
        await until(lambda: groups()[live.tenant_group(tenant.pk)] == 0)
        await live.achanged("job", "2", 1, tenant.pk)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.recv(), 0.1)
