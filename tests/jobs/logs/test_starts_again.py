"""A replica whose container starts again in the same pod: the pod has the log of its newest one alone."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from asgiref.sync import sync_to_async
from django.utils.timezone import now

from jobs.archive.logs import STARTED_AGAIN
from jobs.logs import text
from jobs.models import Replica, Workload
from jobs.rules.states import ReplicaState, WorkloadState
from tests.jobs.kept_logs import keep
from tests.jobs.logs.fakes import FakeLog, until
from tests.jobs.logs.served import World, a_job, change, frame, lines, to_the_end

pytestmark = pytest.mark.django_db(transaction=True)

BEGAN = datetime(2026, 11, 20, 0, 1, tzinfo=UTC)  # the newest container
BEGAN_NS = 60 * 10**9
UID = "uid-worker-0"
AGAIN = "[homeport] worker-0 was started again (pod uid-work)"


@dataclass(frozen=True)
class Case:
    """What is archived, and what the pod has.

    Attributes:
        kept: pieces of the archive, in a row.
        live: lines of the newest container.
        shown: what that comes to.
        start: byte of the newest container, as far as is known.
        restarts: of the container that reported last.
    """

    kept: tuple[str, ...]
    live: tuple[str, ...]
    shown: tuple[str, ...] = ()
    start: int = 0
    is_complete: bool = True
    restarts: int = 0


FIRST = "first\n"
CASES = {
    "a container reported, and the next has said nothing yet": Case(
        (FIRST,), (), ("first",), start=6
    ),
    "the next one runs": Case((FIRST,), (AGAIN, "a"), ("first", AGAIN, "a"), start=6),
    "a part of what it says is archived": Case(
        (FIRST, f"{AGAIN}\na\n"),
        (AGAIN, "a", "b"),
        ("first", AGAIN, "a", "b"),
        6,
        is_complete=False,
    ),
    "it says what the one before said": Case(
        (FIRST, f"{AGAIN}\na\n"),
        (AGAIN, "a"),
        ("first", AGAIN, "a", AGAIN, "a"),
        6 + len(AGAIN) + 3,
    ),
    "lines are missing before it": Case(
        (FIRST,), (AGAIN,), ("first", "[homeport] 4 bytes were skipped here", AGAIN), start=10
    ),
    "it has reported, and is seen to wait for the next": Case(
        (FIRST, f"{AGAIN}\na\n"),
        (AGAIN, "a"),
        ("first", AGAIN, "a"),
        6 + len(AGAIN) + 3,
        restarts=1,
    ),
}


async def a_case(world: World, case: Case) -> Workload:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.start_again()
    log.lines(*(line.encode() for line in case.live), at=BEGAN_NS + 1)
    await Replica.objects.filter(workload=job).aupdate(restarts=1, started_at=BEGAN)
    await put(job, case)
    return job


async def put(job: Workload, case: Case) -> None:
    if not case.kept and not case.is_complete:
        return
    pieces, at = [], 0
    for piece in case.kept:
        pieces.append((at, piece.encode()))
        at += len(piece)
    await sync_to_async(keep)(
        job,
        pieces,
        pod_uid=UID,
        is_complete=case.is_complete,
        restarts=case.restarts,
        run_start_byte=case.start,
    )


async def as_text(job: Workload, **asked: object) -> str:
    found = text.job_text(job, text.LogRequest(("worker", 0), **asked))  # type: ignore[arg-type]
    return b"".join([chunk async for chunk in found]).decode()


@pytest.mark.parametrize("name", CASES)
async def test_all_that_its_containers_printed_is_shown_once_and_in_order(
    world: World, name: str
) -> None:
    case = CASES[name]
    job = await a_case(world, case)
    wanted = list(case.shown)
    assert (await as_text(job)).splitlines() == wanted
    for count in (1, 2, 1000):
        found = (await as_text(job, tail_lines=count)).splitlines()
        assert found[-count:] == wanted[-count:]
        assert len(found) <= count + 1, "a line about a gap is none of the program's"
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert await lines(socket, len(wanted)) == wanted
        world.cluster.pods["pod-worker-0"].lines(b"more", at=BEGAN_NS + 10**9)
        if not case.restarts:
            assert await lines(socket, 1) == ["more"]


MAY_LACK = f"[homeport] {STARTED_AGAIN}"
# Runners of earlier versions do not tell where what they print begins, and one that was killed reported nothing.
UNTOLD = {
    "nothing is uploaded yet": Case((), (AGAIN, "a"), (MAY_LACK, AGAIN, "a"), is_complete=False),
    "what the one before left is": Case(
        (FIRST,), (AGAIN, "a"), ("first", MAY_LACK, AGAIN, "a"), is_complete=False
    ),
    "it ended within a line": Case(
        ("fir",), (AGAIN, "a"), ("fir", MAY_LACK, AGAIN, "a"), is_complete=False
    ),
    "they say the same": Case(
        ("a\n",), (AGAIN, "a"), ("a", MAY_LACK, AGAIN, "a"), is_complete=False
    ),
    "a part of what the newest says is": Case(
        (FIRST, f"{AGAIN}\na\n"),
        (AGAIN, "a", "b"),
        ("first", AGAIN, "a", MAY_LACK, AGAIN, "a", "b"),
        is_complete=False,
    ),
    "nothing was printed before": Case(("a\n",), ("a", "b"), ("a", "b"), is_complete=False),
}


@pytest.mark.parametrize("name", UNTOLD)
async def test_a_line_stands_for_what_may_be_missing_where_no_runner_told_where_it_began(
    world: World, name: str
) -> None:
    case = UNTOLD[name]
    job = await a_case(world, case)
    assert (await as_text(job)).splitlines() == [*case.shown]
    live = list(case.live)
    assert (await as_text(job, tail_lines=len(live))).splitlines() == live
    assert (await as_text(job, tail_lines=1000)).splitlines() == [MAY_LACK, *live]
    before = BEGAN - timedelta(seconds=30)
    assert (await as_text(job, since=before)).splitlines() == [MAY_LACK, *live]
    assert (await as_text(job, since=BEGAN)).splitlines() == live
    timed = (await as_text(job, has_times=True)).splitlines()
    assert [timed[0], *(line.partition(" ")[2] for line in timed[1:])] == [MAY_LACK, *live]
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert await lines(socket, len(live) + 1) == [MAY_LACK, *live]
        world.cluster.pods["pod-worker-0"].lines(b"more", at=BEGAN_NS + 10**9)
        assert await lines(socket, 1) == ["more"]


async def test_times_are_those_of_the_newest_container(world: World) -> None:
    job = await a_case(world, CASES["the next one runs"])
    none = "[homeport] lines of the archive have no times\n"
    stamped = f"2026-11-20T00:01:00.000000001Z {AGAIN}\n2026-11-20T00:01:00.000000002Z a\n"
    assert await as_text(job, has_times=True) == f"{none}first\n{stamped}"
    before = "[homeport] lines of the archive have no times, so all of it follows\nfirst\n"
    since = BEGAN - timedelta(seconds=30)
    assert await as_text(job, since=since) == f"{before}{AGAIN}\na\n"
    assert await as_text(job, since=BEGAN) == f"{AGAIN}\na\n"


async def test_who_returns_after_a_new_start_misses_nothing(world: World) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    path = f"/ws/jobs/{job.pk}/logs/"
    log.lines(b"one", at=1)
    async with world.open(path, job.owner) as socket:
        cursor = (await frame(socket, "lines"))["cursor"]
    await until(lambda: log.open_count == 0)
    log.lines(b"two", at=2)
    log.start_again()
    log.lines(b"three", at=BEGAN_NS)
    await Replica.objects.filter(workload=job).aupdate(restarts=1, started_at=BEGAN)
    await put(job, Case(("one\ntwo\n",), (), start=8))
    async with world.open(f"{path}?cursor={cursor}", job.owner) as socket:
        assert await lines(socket, 2) == ["two", "three"]


@pytest.mark.parametrize("how", ["end", "error"])
async def test_who_watches_is_shown_what_came_after_a_broken_connection(
    world: World, how: str
) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(b"one", at=1)
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert await lines(socket, 1) == ["one"]
        log.held_at = len(log.data)  # the follow gives nothing more
        log.lines(b"two", at=2)
        log.write(b"2026-11-20T00:00:00.000000003Z half a line")
        log.start_again(how)
        log.held_at = None
        log.lines(b"three", at=BEGAN_NS)
        assert await lines(socket, 3) == ["two", "half a line", "three"]


@pytest.mark.parametrize("count", [1, 5])
async def test_who_opens_it_between_two_starts_is_shown_the_next(world: World, count: int) -> None:
    """A container has ended and the next waits: what is archived is all there is by then."""
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    rows = Replica.objects.filter(workload=job)
    await rows.aupdate(restarts=count - 1, state=ReplicaState.STARTING, started_at=now())
    await put(job, Case((FIRST,), (), start=6, restarts=count - 1))
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert await lines(socket, 1) == ["first"]
        log.start_again()
        log.lines(b"second", at=BEGAN_NS)
        running = {"restarts": count, "state": ReplicaState.RUNNING, "started_at": BEGAN}
        await change(job, replica=running)
        assert await lines(socket, 1) == ["second"]
        log.end()
        log.phase = "Failed"
        await put(job, Case((FIRST, "second\n"), (), start=13, restarts=count))
        await change(job, state=WorkloadState.SUCCEEDED, replica={"state": ReplicaState.STOPPED})
        assert await to_the_end(socket) == ([], 1000)
    assert await as_text(job) == "first\nsecond\n"
    world.cluster.pods["pod-worker-0"] = FakeLog()  # nothing of it is asked for any more
    assert await as_text(job) == "first\nsecond\n"
