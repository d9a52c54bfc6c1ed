"""The websockets themselves, on a real server: who gets in, what comes, how it ends."""

import asyncio
from datetime import timedelta
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings as django_settings
from django.db import OperationalError
from django.utils import timezone

from jobs.logs import consumers, tail
from jobs.logs.hub import get_hub
from jobs.logs.lines import parse_time
from jobs.models import Replica, Workload
from jobs.rules.states import Desired, ReplicaState, WorkloadState
from portal import live
from tenants import live_socket, sockets
from tenants.models import ApiToken, User
from tenants.people.models import SessionStore
from tests.factories import make_user
from tests.jobs.logs.fakes import stamp, until
from tests.jobs.logs.served import (
    LEFT_OUT,
    World,
    a_job,
    change,
    close_code,
    cookie,
    frame,
    groups,
    lines,
    to_the_end,
)

pytestmark = pytest.mark.django_db(transaction=True)


# --- who gets in ----------------------------------------------------------------------------------

PATHS = ["/ws/jobs/{id}/logs/", "/ws/live/"]


@pytest.mark.parametrize("path", PATHS)
async def test_nobody_gets_4401(world: World, path: str) -> None:
    job = await a_job(world)
    path = path.format(id=job.pk)
    _, plain = await sync_to_async(lambda: ApiToken.issue(user=job.owner, name="x"))()
    headers = [{"Authorization": f"Token {token} "} for token in ("hp_wrong", plain + "x")]
    cookies = ("", f"{django_settings.SESSION_COOKIE_NAME}=nonsense", "other=1")
    for given in [*headers, *({"Cookie": text} for text in cookies)]:
        async with world.open(path, **given) as socket:
            assert await close_code(socket) == 4401
    cookie_text = await cookie(job.owner)
    await User.objects.filter(pk=job.owner.pk).aupdate(is_active=False)
    async with world.open(path, Cookie=cookie_text) as socket:
        assert await close_code(socket) == 4401


async def test_what_is_not_there_gets_4404(world: World) -> None:
    job = await a_job(world)
    path = f"/ws/jobs/{job.pk}/logs/"
    for where in (f"/ws/jobs/{uuid4()}/logs/", path + "?replica=worker-1", path + "?replica=../x"):
        async with world.open(where, job.owner) as socket:
            assert await close_code(socket) == 4404
    await Workload.objects.filter(pk=job.pk).aupdate(desired=Desired.DELETE)
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
        await Workload.objects.filter(pk=job.pk).aupdate(desired=Desired.DELETE)
        assert await close_code(socket) == 4404
    monkeypatch.setattr(sockets, "MAX_LIFE_S", 0.01)
    async with world.open("/ws/live/", job.owner) as socket:
        assert await close_code(socket) == 1013


async def test_what_fails_is_told_to_come_later_and_leaves_nothing_behind(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> None:
        raise OperationalError("the database is away")

    job = await a_job(world)
    paths = [path.format(id=job.pk) for path in PATHS]
    monkeypatch.setattr(sockets, "LOOK_AGAIN_S", 0.05)
    with monkeypatch.context() as broken:
        broken.setattr(consumers, "load", away)
        broken.setattr(live_socket, "groups_of", away)
        for path in paths:  # while it opens
            async with world.open(path, job.owner) as socket:
                assert await close_code(socket) == 1013
    with monkeypatch.context() as broken:
        for path in paths:  # when it is looked at again
            async with world.open(path, job.owner) as socket:
                broken.setattr(sockets, "_find_again", away)
                assert await close_code(socket) == 1013
            broken.undo()
    with monkeypatch.context() as broken:
        broken.setattr(live_socket.LiveConsumer, "changed", away)
        async with world.open("/ws/live/", job.owner) as socket:
            await until(lambda: groups()[live.EVERYBODY_GROUP] == 1)
            await live.tell_everybody("nodes", 1)
            await close_code(socket)
    await until(lambda: not sockets._open and not groups())


# --- what comes -----------------------------------------------------------------------------------


async def test_lines_of_a_running_pod_come_live_and_end_with_its_training(world: World) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(b"one", "zwei ä".encode())
    whole = {"type": "state", "replica": "", "state": "running", "reason": "", "attempt": 1}
    of_replica = {"type": "state", "replica": "worker-0", "state": "running", "reason": ""}
    async with world.open(f"/ws/jobs/{job.pk}/logs/?replica=worker-0", job.owner) as socket:
        assert [await frame(socket, "state") for _ in range(2)] == [whole, of_replica]
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
        log.lines(b"last", at=9)
        log.end()
        assert await lines(socket, 1) == ["last"]
        why = "worker-0 ended with 1"
        failed = {"state": ReplicaState.FAILED}
        await change(job, state=WorkloadState.FAILED, reason_text=why, replica=failed)
        assert await frame(socket) == {**whole, "state": "failed", "reason": why}
        assert await frame(socket) == {**of_replica, "state": "failed"}
        assert await frame(socket) == {"type": "end"}
        assert await close_code(socket) == 1000
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
    await change(
        job, state=WorkloadState.QUEUED, replica={"state": ReplicaState.PENDING, "pod": ""}
    )
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert [(await frame(socket))["state"] for _ in range(2)] == ["queued", "pending"]
        log = world.cluster.pods["pod-worker-0"]
        assert not log.opened
        log.lines(b"here")
        await change(
            job,
            state=WorkloadState.RUNNING,
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


async def test_a_cursor_longer_than_a_head_may_be_comes_by_frames(world: World) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(b"a", b"b", b"c", at=1)
    path = f"/ws/jobs/{job.pk}/logs/?replica=worker-0"
    async with world.open(path, job.owner) as socket:
        cursor = (await frame(socket, "lines"))["cursor"]
    log.lines(b"d", at=10)
    middle = len(cursor) // 2
    async with world.open(f"{path}&cursor_frames=2", job.owner) as socket:
        await socket.send(cursor[:middle])
        await socket.send(cursor[middle:])
        assert await lines(socket, 1) == ["d"]
    for nonsense in ("x", "-1", "0", "999999999"):
        async with world.open(f"{path}&cursor_frames={nonsense}", job.owner) as socket:
            assert len(await lines(socket, 4)) == 4


async def test_who_does_not_send_the_announced_cursor_is_not_waited_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumers, "CURSOR_S", 0.05)
    job = await a_job(world)
    path = f"/ws/jobs/{job.pk}/logs/?cursor_frames=2"
    async with world.open(path, job.owner) as socket:
        await socket.send("x" * 4000)
        assert await close_code(socket) == 1013


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
        assert (await lines(watcher, 1001))[:2] == [LEFT_OUT, "002000"]
        async with world.open(f"{path}&cursor={cursor}", job.owner) as returning:
            log.lines(b"new", at=10**6)
            texts = await lines(returning, 3001)
            assert texts == [*(f"{number:06d}" for number in range(3000)), "new"]
        async with world.open(path, job.owner) as late:
            texts = await lines(late, 1002)
            assert (texts[0], texts[-2:]) == (LEFT_OUT, ["002999", "new"])


async def test_a_viewer_without_cursor_gets_the_newest_lines_of_a_follow_that_began_later(
    world: World,
) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(*(b"%d" % number for number in range(30)), at=1)
    path = f"/ws/jobs/{job.pk}/logs/?replica=worker-0"
    cursor = f"worker-0.l.1.{parse_time(stamp(25).decode())}.1."
    async with world.open(f"{path}&cursor={cursor}", job.owner) as first:
        assert await lines(first, 5) == ["25", "26", "27", "28", "29"]
        async with world.open(path, job.owner) as second:
            assert await lines(second, 30) == [str(number) for number in range(30)]


@pytest.mark.parametrize("given", [0, 3, 7, 10])
async def test_viewers_who_come_back_to_a_slow_follow_get_each_line_once(
    world: World, monkeypatch: pytest.MonkeyPatch, given: int
) -> None:
    """The follow begins where the first of them stands, and brings what the others have seen."""
    monkeypatch.setattr(tail, "PRIMED_S", 0.05)
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(*(b"%d" % number for number in range(10)), at=1, step=0)
    log.held_at = len(log.data) // 10 * given
    path = f"/ws/jobs/{job.pk}/logs/?replica=worker-0&cursor=worker-0.l.1.{parse_time(stamp(1).decode())}"
    async with (
        world.open(f"{path}.2.", job.owner) as first,
        world.open(f"{path}.5.", job.owner) as second,
        world.open(f"{path}.8.", job.owner) as third,
    ):
        tails = (await get_hub())._tails
        await until(
            lambda: (
                [(len(one._watchers), one._primed.is_set()) for one in tails.values()]
                == [(3, True)]
            )
        )
        log.let_go()
        log.lines(b"new", at=2)
        for seen, viewer in ((2, first), (5, second), (8, third)):
            rest = [*map(str, range(seen, 10)), "new"]
            assert await lines(viewer, len(rest)) == rest


async def test_a_job_that_never_ran_ends_at_once(world: World) -> None:
    job = await a_job(world)
    await Replica.objects.filter(workload=job).adelete()
    await Workload.objects.filter(pk=job.pk).aupdate(state=WorkloadState.STOPPED)
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert await to_the_end(socket) == ([], 1000)
