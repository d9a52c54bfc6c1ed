"""A log of which the last lines are given says so in a line before them, and only where there are more."""

from datetime import UTC, datetime

import pytest
from asgiref.sync import sync_to_async
from django.utils.timezone import now

from jobs.archive import logs
from jobs.logs import left_out, text
from jobs.logs.hub import get_hub
from jobs.logs.lines import parse_time
from jobs.logs.tail import FIRST_LINES
from jobs.models import Replica, Workload
from jobs.workloads.log_api import DEFAULT_TAIL, log_request
from tests.jobs.kept_logs import keep
from tests.jobs.logs.fakes import stamp
from tests.jobs.logs.served import LEFT_OUT, World, a_job, frame, lines

pytestmark = pytest.mark.django_db(transaction=True)

ALL = "download=1 gives all that there are"
MORE = f"[homeport] these are the newest {DEFAULT_TAIL:,} lines; {ALL}"
HAVE = "the download and `homeport logs` have them"
LOST = "[homeport] the node no longer has the lines before these; the whole log has them"
SECOND = 10**9
BEGAN = datetime(2026, 11, 20, tzinfo=UTC)  # as `stamp(0)`


async def in_pod(world: World, job: Workload, count: int) -> None:
    world.cluster.pods["pod-worker-0"].lines(*(b"%d" % n for n in range(count)))


async def in_archive(world: World, job: Workload, count: int) -> None:
    await Replica.objects.filter(workload=job).aupdate(finished_at=now(), pod="")
    kept = "".join(f"{n}\n" for n in range(count)).encode()
    await sync_to_async(keep)(job, [(0, kept)])


async def in_both(world: World, job: Workload, count: int) -> None:
    """Ten lines of a container that has started again, the others archived."""
    kept = "".join(f"{n}\n" for n in range(count - 10)).encode()
    log = world.cluster.pods["pod-worker-0"]
    log.start_again()
    log.lines(*(b"%d" % n for n in range(count - 10, count)))
    await Replica.objects.filter(workload=job).aupdate(restarts=1)
    await sync_to_async(keep)(
        job, [(0, kept)], pod_uid="uid-worker-0", is_complete=True, run_start_byte=len(kept)
    )


async def as_text(job: Workload, query: dict[str, str]) -> list[str]:
    asked = await sync_to_async(log_request)(job, query)
    chunks = [chunk async for chunk in text.job_text(job, asked)]
    return b"".join(chunks).decode().splitlines()


@pytest.mark.parametrize("count", [DEFAULT_TAIL - 1, DEFAULT_TAIL, DEFAULT_TAIL + 1, 3000])
@pytest.mark.parametrize("place", [in_pod, in_archive, in_both])
@pytest.mark.parametrize("query", [{}, {"replica": "worker-0"}], ids=["all", "one"])
async def test_the_last_lines_of_a_longer_log_say_so(
    world: World, place: object, count: int, query: dict[str, str]
) -> None:
    job = await a_job(world)
    await place(world, job, count)  # type: ignore[operator]
    mark = "" if query else "worker-0 | "
    missing = count - DEFAULT_TAIL
    verb = "line is" if missing == 1 else "lines are"
    counted = f"[homeport] {missing:,} earlier {verb} left out; {ALL}"
    said = [mark + (MORE if place is in_pod else counted)] if missing > 0 else []
    shown = [mark + str(n) for n in range(max(0, missing), count)]
    assert await as_text(job, query) == said + shown


async def test_who_names_a_number_or_wants_all_is_told_nothing(world: World) -> None:
    job = await a_job(world)
    await in_pod(world, job, 30)
    for query, count in (({"tail": "20"}, 20), ({"download": "1"}, 30)):
        found = await as_text(job, {"replica": "worker-0", **query})
        assert found == [str(n) for n in range(30 - count, 30)]


async def test_lines_of_a_long_archive_are_not_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "COUNTED_BYTES", 8889)
    job = await a_job(world)
    await in_archive(world, job, 3000)  # 8,890 bytes lie before the newest thousand
    assert (await as_text(job, {"replica": "worker-0"}))[0] == MORE
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert (await frame(socket, "left_out"))["count"] is None
        said = f"[homeport] 8,890 bytes of earlier output are left out; {HAVE}"
        assert (await lines(socket, 1001))[0] == said


async def begun(world: World, job: Workload, count: int) -> tuple[list[object], list[str]]:
    """All lines that a viewer begins with; before the how many-th it is told that how many are left out."""
    async with world.open(f"/ws/jobs/{job.pk}/logs/?replica=worker-0", job.owner) as socket:
        told: list[object] = []
        texts: list[str] = []
        while len(texts) < count:
            found = await frame(socket)
            if found["type"] == "left_out":
                told.append((len(texts), found["count"]))
            texts += [line["text"] for line in found.get("lines", ())]
    assert len(texts) == count
    return told, texts


@pytest.mark.parametrize("count", [FIRST_LINES - 1, FIRST_LINES, FIRST_LINES + 1, 3000])
@pytest.mark.parametrize("place", ["its own follow", "a warm one", "one that began later"])
async def test_a_viewer_begins_with_how_much_is_left_out(
    world: World, place: str, count: int
) -> None:
    job = await a_job(world)
    await in_pod(world, job, count)
    is_cut = count > FIRST_LINES
    shown = [str(n) for n in range(max(0, count - FIRST_LINES), count)]
    wanted = ([(0, None)], [LEFT_OUT, *shown]) if is_cut else ([], shown)
    path = f"/ws/jobs/{job.pk}/logs/?replica=worker-0"
    if place == "one that began later":
        path += f"&cursor=worker-0.l.1.{parse_time(stamp(count - 3).decode())}.1."
    if place == "its own follow":
        assert await begun(world, job, min(count, FIRST_LINES) + is_cut) == wanted
        return
    async with world.open(path, job.owner) as first:
        await frame(first, "lines")
        assert await begun(world, job, min(count, FIRST_LINES) + is_cut) == wanted


async def test_a_viewer_of_an_archive_is_told_how_many_lines_are_left_out(world: World) -> None:
    job = await a_job(world)
    await in_archive(world, job, 3000)
    said = f"[homeport] 2,000 earlier lines are left out; {HAVE}"
    shown = [str(n) for n in range(2000, 3000)]
    assert await begun(world, job, 1001) == ([(0, 2000)], [said, *shown])


async def test_lines_that_come_while_a_short_log_is_opened_are_not_lost(world: World) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.lines(*(b"%d" % n for n in range(FIRST_LINES)))
    logs_of, hub = world.cluster.logs, await get_hub()

    def open_log(*what: str, follow: bool, **how: object) -> object:
        if follow and how["since_time"] is None:
            log.lines(b"1000", b"1001", at=SECOND)
        return logs_of(*what, follow=follow, **how)

    hub.source.logs = open_log  # type: ignore[assignment, method-assign]
    shown = [str(n) for n in range(FIRST_LINES + 2)]
    assert await begun(world, job, len(shown)) == ([], shown)


@pytest.mark.parametrize("lost", [0, 1, 400])
@pytest.mark.parametrize("run_start", [0, 12], ids=["first container", "another"])
async def test_what_a_node_has_lost_of_a_log_is_told(
    world: World, monkeypatch: pytest.MonkeyPatch, lost: int, run_start: int
) -> None:
    """A kubelet reads the newest file of a container alone; what came before is archived."""
    monkeypatch.setattr(left_out, "LIVE_MAX_BYTES", 1000)
    job = await a_job(world)
    kept = b"".join(b"step %d\n" % n for n in range(500))
    ended = b"of another\n\n"[:run_start]
    before = ["of another", ""][:run_start]
    fields = {"pod_uid": "uid-worker-0", "is_complete": False, "run_start_byte": run_start}
    pieces = [(0, ended)] * bool(run_start) + [(run_start, kept)]
    await sync_to_async(keep)(job, pieces, **fields)
    log = world.cluster.pods["pod-worker-0"]
    here = [f"step {n}" for n in range(lost, 510)]
    for number, line in enumerate(here, start=lost):
        log.lines(line.encode(), at=number * SECOND)
    said = [LOST] if lost else []
    one = {"replica": "worker-0"}
    # Some lines in the pod are enough for who asks for no more.
    assert await as_text(job, one | {"tail": "100"}) == here[-100:]
    assert await as_text(job, one | {"tail": str(len(here))}) == here
    found = await as_text(job, one | {"tail": "600"})
    assert found == before + said + here
    assert await as_text(job, one) == before + said + here
    await Replica.objects.filter(workload=job).aupdate(started_at=BEGAN)
    told: list[object] = [(len(before), None)] if lost else []
    shown = before + said + here
    assert await begun(world, job, len(shown)) == (told, shown)
    if run_start:
        return
    # Since a time of which the node has lines, nothing is missing.
    at = stamp(lost * SECOND + SECOND).decode()
    assert await as_text(job, one | {"since": at}) == here[1:]
    at = stamp(max(0, lost - 1) * SECOND).decode()
    assert await as_text(job, one | {"since": at}) == said + here
