"""The archive in the same pane: what is shown when a pod is gone, and where it goes on."""

import pytest

from jobs.logs import sources
from jobs.models import LogSegment
from jobs.rules.states import ReplicaState, WorkloadState
from tests.jobs.logs.served import (
    World,
    a_job,
    archive_of,
    change,
    frame,
    lines,
    to_the_end,
)

pytestmark = pytest.mark.django_db(transaction=True)


DONE = {"state": WorkloadState.SUCCEEDED, "replica": {"state": ReplicaState.SUCCEEDED}}


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
    assert texts[0] == (
        "[homeport] 4,000 earlier lines are left out; the download and `homeport logs` have them"
    )
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
    monkeypatch.setattr(sources, "LOOK_AGAIN_S", 0.05)
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
