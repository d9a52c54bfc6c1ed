"""Logs of earlier attempts: by websocket, and as text while the latest attempt runs."""

from datetime import UTC, datetime

import pytest
from django.utils.timezone import now
from websockets.exceptions import ConnectionClosed

from jobs.archive.logs import which_of
from jobs.logs import left_out, sources, text
from jobs.models import Replica, Workload
from jobs.pod.protocol.notices import UNFINISHED
from jobs.rules.states import ReplicaState
from tests.jobs.logs.fakes import FakeLog, until
from tests.jobs.logs.served import (
    World,
    a_job,
    archive_of,
    begin_again,
    change,
    frame,
    lines,
    to_the_end,
)

pytestmark = pytest.mark.django_db(transaction=True)

FIRST, SECOND = ["old", "older"], ["new", "newer"]
BOTH = ["[homeport] attempt 1", *FIRST, "[homeport] attempt 2", *SECOND]


async def second_attempt(job: Workload, world: World) -> None:
    """The first failed and is archived; the second runs."""
    await Replica.objects.filter(workload=job).aupdate(state=ReplicaState.FAILED, started_at=now())
    world.cluster.pods.clear()
    world.cluster.pods["pod-2"] = FakeLog()
    world.cluster.pods["pod-2"].lines(b"new", b"newer", at=100)
    await begin_again(job, pod="pod-2", pod_uid="uid-2")
    await change(job, attempt=2)


@pytest.fixture
async def job(world: World) -> Workload:
    made = await a_job(world)
    await second_attempt(made, world)
    await archive_of(made, b"old\nolder\n")
    made.attempt = 2
    return made


@pytest.mark.parametrize(
    ("attempt", "shown", "goes_on"),
    [
        ("", SECOND, True),
        ("latest", SECOND, True),
        ("2", SECOND, True),
        ("1", FIRST, False),
        ("all", BOTH, True),
    ],
)
async def test_each_attempt_has_its_log_and_only_the_latest_is_live(
    world: World, job: Workload, attempt: str, shown: list[str], goes_on: bool
) -> None:
    async with world.open(f"/ws/jobs/{job.pk}/logs/?attempt={attempt}", job.owner) as socket:
        first = await frame(socket)
        of_job = {"type": "state", "replica": "", "state": "running", "reason": "", "attempt": 2}
        failed = {"type": "state", "replica": "worker-0", "state": "failed", "reason": ""}
        assert first == (of_job if goes_on else failed), "an earlier one says nothing of the job"
        if goes_on:
            assert await lines(socket, len(shown)) == shown
            world.cluster.pods["pod-2"].lines(b"more", at=200)
            assert await lines(socket, 1) == ["more"]
        else:
            assert await to_the_end(socket) == (shown, 1000)


@pytest.mark.parametrize("attempt", ["0", "3", "-1", "first", "9" * 400])
async def test_of_an_attempt_that_was_not_it_is_said_how_many_there_were(
    world: World, job: Workload, attempt: str
) -> None:
    async with world.open(f"/ws/jobs/{job.pk}/logs/?attempt={attempt}", job.owner) as socket:
        with pytest.raises(ConnectionClosed) as closed:
            await socket.recv()
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 4404
    assert closed.value.rcvd.reason.endswith("It has had 2 attempts.")


async def test_a_viewer_of_all_attempts_returns_to_where_it_was(
    world: World, job: Workload
) -> None:
    path = f"/ws/jobs/{job.pk}/logs/?attempt=all"
    seen, cursors = [], [""]
    async with world.open(path, job.owner) as socket:
        while len(seen) < len(BOTH):
            found = await frame(socket, "lines")
            seen += [line["text"] for line in found["lines"]]
            cursors.append(found["cursor"])
    assert seen == BOTH
    # The cursor behind the first attempt, and that behind everything.
    async with world.open(f"{path}&cursor={cursors[2]}", job.owner) as socket:
        assert await lines(socket, 3) == BOTH[3:]
    async with world.open(f"{path}&cursor={cursors[-1]}", job.owner) as socket:
        world.cluster.pods["pod-2"].lines(b"more", at=200)
        assert await lines(socket, 1) == ["more"]


async def test_an_earlier_attempt_that_is_still_uploaded_says_so_and_goes_on(
    world: World, job: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "LOOK_AGAIN_S", 0.05)
    await archive_of(job, b"old\n", is_complete=False)
    rest = "[homeport] the rest of attempt 1 is not uploaded yet"
    path = f"/ws/jobs/{job.pk}/logs/?attempt="
    async with world.open(path + "all", job.owner) as socket:
        assert await lines(socket, 6) == [BOTH[0], "old", rest, *BOTH[3:]]
    async with world.open(path + "1", job.owner) as socket:
        assert await lines(socket, 2) == ["old", rest]
        await archive_of(job, b"old\nolder\n")
        assert await to_the_end(socket) == (["older"], 1000)


async def test_who_watches_one_attempt_is_not_led_into_the_next(world: World) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(b"old")
    path = f"/ws/jobs/{job.pk}/logs/?attempt="
    async with (
        world.open(path + "1", job.owner) as socket,
        world.open(path + "all", job.owner) as other,
        world.open(path, job.owner) as latest,
    ):
        assert [await lines(one, 1) for one in (socket, other, latest)] == [["old"]] * 3
        log.end()
        await until(lambda: log.open_count == 0)
        await second_attempt(job, world)
        assert await to_the_end(socket) == ([], 1000)
        for one in (other, latest):
            assert await lines(one, 3) == BOTH[3:]


@pytest.mark.parametrize(
    ("attempt", "shown"),
    [
        ("", "new\nnewer\n"),
        ("2", "new\nnewer\n"),
        ("1", "old\nolder\n"),
        (
            "all",
            (
                "===== attempt 1, worker-0 =====\nold\nolder\n===== attempt 2, worker-0 =====\n"
                "new\nnewer\n"
            ),
        ),
    ],
)
async def test_as_text_the_latest_is_read_from_its_pod(
    world: World, job: Workload, monkeypatch: pytest.MonkeyPatch, attempt: str, shown: str
) -> None:
    monkeypatch.setattr(left_out, "LIVE_MAX_BYTES", 5)  # of an earlier attempt more is archived
    which = which_of(job, attempt)
    found = text.job_text(job, text.LogRequest(("worker", 0), which=which))
    assert b"".join([chunk async for chunk in found]).decode() == shown


@pytest.mark.parametrize(
    ("pod", "shown"),
    [
        ((b"1", b"2", b"3", b"4"), "1\n2\n3\n4\n"),
        ((b"2", b"3", b"4", b"5"), "1\n2\n3\n4\n5\n"),
        ((b"2", b"3"), "1\n2\n3\n"),
        (
            (b"5", b"6"),
            "1\n2\n3\n[homeport] what follows is from the pod, and may repeat lines from above\n5\n6\n",
        ),
    ],
)
async def test_of_a_long_log_a_kubelet_may_have_the_end_alone(
    world: World,
    job: Workload,
    monkeypatch: pytest.MonkeyPatch,
    pod: tuple[bytes, ...],
    shown: str,
) -> None:
    monkeypatch.setattr(left_out, "LIVE_MAX_BYTES", 5)
    monkeypatch.setattr(text, "_OVERLAP_BYTES", 4)
    await archive_of(job, b"1\n2\n3\n", attempt=2, is_complete=False)
    world.cluster.pods["pod-2"] = log = FakeLog()
    log.lines(*pod, at=100)
    log.piece_bytes = 40  # lines are found across pieces, too
    found = text.job_text(job, text.LogRequest(("worker", 0)))
    assert b"".join([chunk async for chunk in found]).decode() == shown
    found = text.job_text(job, text.LogRequest(("worker", 0), has_times=True))
    first = (b"".join([chunk async for chunk in found])).splitlines()[0]
    assert first == b"[homeport] with times there are only the lines that the node still has"


BAR = (b"1", b"2", b"\r10%" + UNFINISHED, b"\r20%" + UNFINISHED, b"\r30%" + UNFINISHED)


@pytest.mark.parametrize(
    ("kept", "pod", "shown"),
    [
        (b"1\n2\n\r10%\r2", BAR, "1\n2\n\r10%\r20%\r30%\n"),
        (b"1\n2\n\r10%\r20%\r30%", BAR, "1\n2\n\r10%\r20%\r30%\n"),
        (b"1\n2\n\r10%", (*BAR, b"\r100%", b"end"), "1\n2\n\r10%\r20%\r30%\r100%\nend\n"),
        (
            b"1\n2\n\r10%",
            (b"5", b"6"),
            "1\n2\n\r10%\n[homeport] what follows is from the pod, and may repeat lines from above\n5\n6\n",
        ),
        (b"1\n2\n\r10%", (), "1\n2\n\r10%\n[homeport] the rest cannot be read now: no pod\n"),
    ],
    ids=["in a state", "at the end", "ended since", "another log", "no pod"],
)
async def test_an_archive_that_ends_within_a_line_is_gone_on_with(
    world: World,
    job: Workload,
    monkeypatch: pytest.MonkeyPatch,
    kept: bytes,
    pod: tuple[bytes, ...],
    shown: str,
) -> None:
    """A segment is closed after its time, wherever the program is."""
    monkeypatch.setattr(left_out, "LIVE_MAX_BYTES", 5)
    monkeypatch.setattr(text, "_OVERLAP_BYTES", 4)
    await archive_of(job, kept, attempt=2, is_complete=False)
    world.cluster.pods["pod-2"] = log = FakeLog()
    log.exists = bool(pod)
    log.lines(*pod, at=100)
    log.piece_bytes = 40
    for replica, name in ((("worker", 0), ""), (None, "worker-0 | ")):
        found = text.job_text(job, text.LogRequest(replica))
        right = "".join(name + line + "\n" for line in shown.split("\n")[:-1])
        assert b"".join([chunk async for chunk in found]).decode() == right


@pytest.mark.parametrize("has_archive", [False, True], ids=["from the pod", "from the archive"])
async def test_a_line_without_an_end_is_passed_on_in_pieces(
    world: World, job: Workload, has_archive: bool
) -> None:
    """It costs no memory, and loses neither its name, nor its time alone, nor the lines around it."""
    endless = b"a b " * 100_000
    log = world.cluster.pods["pod-2"] = FakeLog()
    log.lines(b"one", endless, b"", b"three", endless)
    log.piece_bytes = 5000
    kept = b"\n".join([b"one", endless, b"", b"three", endless])
    if has_archive:
        await archive_of(job, kept, attempt=2)
        log.vanish()
    for replica, name in ((("worker", 0), b""), (None, b"worker-0 | ")):
        found = [chunk async for chunk in text.job_text(job, text.LogRequest(replica))]
        right = b"".join(name + line + b"\n" for line in kept.split(b"\n"))
        assert b"".join(found) == right
        assert max(map(len, found)) < 200_000, "held back until its end"


async def test_a_text_that_breaks_off_says_so(world: World, job: Workload) -> None:
    world.cluster.pods["pod-2"].cuts = [(40, "error")]
    found = text.job_text(job, text.LogRequest(("worker", 0)))
    shown = b"".join([chunk async for chunk in found]).decode()
    assert shown.startswith("new\n[homeport] the rest cannot be read now: ")


async def test_since_a_time_pods_are_asked_and_the_archive_is_told_whole(
    world: World, job: Workload
) -> None:
    async def shown(second: int, which: str = "", *, has_times: bool = False) -> str:
        since = datetime(2026, 11, 20, 0, 0, second, tzinfo=UTC)
        asked = text.LogRequest(("worker", 0), None, which_of(job, which), since, has_times)
        found = text.job_text(job, asked)
        return b"".join([chunk async for chunk in found]).decode()

    log = world.cluster.pods["pod-2"]
    log.lines(b"late", at=30 * 10**9)
    assert [await shown(second) for second in (0, 30, 31)] == ["new\nnewer\nlate\n", "late\n", ""]
    assert await shown(30, has_times=True) == "2026-11-20T00:00:30.000000000Z late\n"
    whole = "[homeport] lines of the archive have no times, so all of it follows\nold\nolder\n"
    assert await shown(30, "1") == whole
    log.vanish()
    seen = Replica.objects.filter(workload=job, attempt=2)
    await seen.aupdate(finished_at=datetime(2026, 11, 20, 0, 0, 31, tzinfo=UTC))
    await archive_of(job, b"new\nnewer\nlate\n", attempt=2)
    assert await shown(30) == whole.replace("old\nolder\n", "new\nnewer\nlate\n")
    assert await shown(32) == "", "it had ended by then"
