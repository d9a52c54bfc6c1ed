"""Places and times of what waits, as rows that pages read: from admission's last look."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from channels.layers import get_channel_layer
from django.utils.timezone import now

from jobs.engine import estimates
from jobs.engine.estimates import Estimated, usual_durations
from jobs.models import Workload
from jobs.places import QueuePlace
from jobs.rules.queue.estimate import Estimate
from jobs.rules.queue.state import UNKNOWN
from portal import live
from tests.factories import make_job, make_tenant
from tests.jobs.engine.kubelet import START, Life
from tests.jobs.engine.simulation import Sim
from tests.jobs.engine.test_admission import needs
from tests.jobs.engine.world import World
from tests.jobs.rules.test_estimate import runs, state, waits

pytestmark = pytest.mark.django_db(transaction=True)


async def worked_out(world: World) -> bool:
    assert world.shift is not None
    return await world.shift._estimates.run_once()


async def kept() -> dict[str, tuple[Any, ...]]:
    rows = QueuePlace.objects.order_by("position_all").select_related("workload")
    return {
        row.workload.name: (row.position, row.position_all, row.basis, row.cause)
        async for row in rows
    }


async def test_places_and_times_are_kept_while_something_waits() -> None:
    world = World(Sim(namespaces=("u-alice", "u-bob")))
    world.sim.lives = {"worker-0": [Life("hang")]}
    policy = {"deadline_s": 600, "starting_deadline_s": 60}
    first = await world.submit(name="first", replicas=needs(gpu=8), **policy)
    await world.until(lambda row: row.state == "running")
    second = await world.submit(name="second", owner="bob", replicas=needs(gpu=8), **policy)
    await world.submit(name="third", owner="bob", replicas=needs(gpu=8))
    low = await world.submit(name="low", replicas=needs(gpu=1), priority="low")
    await world.round()
    assert await worked_out(world)
    assert await kept() == {
        "second": (1, 1, "deadline", first.pk),
        "third": (2, 2, "deadline", second.pk),
        "low": (1, 3, "unlimited", (await Workload.objects.aget(name="third")).pk),
    }
    row = await QueuePlace.objects.aget(workload=second.pk)
    ends_by = (await world.row(first)).ends_by
    assert row.starts_at is not None
    assert abs(row.starts_at - ends_by) <= timedelta(seconds=150)
    assert row.starts_at.timestamp() % 300 == 0
    assert row.rules[-1].startswith("Reservation: a node is kept for it")
    layer = get_channel_layer()
    channel = await layer.new_channel()
    await layer.group_add(live.EVERYBODY_GROUP, channel)
    assert not await worked_out(world), "nothing was looked at since"
    await Workload.objects.filter(pk=low.pk).aupdate(desired="stop")
    await world.round()
    assert await worked_out(world)
    assert [*await kept()] == ["second", "third"]
    told = await asyncio.wait_for(layer.receive(channel), timeout=1)
    assert told["frame"]["kind"] == "queue", "open pages are told that places have moved"
    await layer.group_discard(live.EVERYBODY_GROUP, channel)
    await Workload.objects.aupdate(desired="stop")
    await world.until(lambda row: row.state == "stopped", of=first, seconds=5)
    assert not await worked_out(world)
    assert await kept() == {}


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("abc", "abc"),
        ("bc", "bc"),  # it started, or was stopped
        ("ac", "ac"),
        ("abcd", "abc"),  # it came last
        ("acb", "a"),
        ("cab", ""),
        ("adbc", "a"),  # it came with a high priority
        ("", ""),
    ],
)
def test_a_time_holds_until_somebody_gets_another_place_before_it(line: str, known: str) -> None:
    of_before = Estimated("abc", {name: Estimate(60, "deadline") for name in "abc"})
    assert "".join(of_before.still_true(line)) == known


async def test_the_order_does_not_wait_for_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a long queue times rest for a minute; who came meanwhile has a place without one."""
    world = World(Sim())
    world.sim.lives = {"worker-0": [Life("hang")]}
    monkeypatch.setattr(estimates, "_TIMES_REST_TIMES", 1e9)
    first = await world.submit(name="first", replicas=needs(gpu=8), deadline_s=600)
    await world.until(lambda row: row.state == "running")
    await world.submit(name="second", replicas=needs(gpu=8))
    await world.round()
    assert await worked_out(world)
    await world.submit(name="third", replicas=needs(gpu=8))
    await world.round()
    assert await worked_out(world)
    assert await kept() == {
        "second": (1, 1, "deadline", first.pk),
        "third": (2, 2, "new", None),
    }


async def test_who_has_not_looked_at_the_cluster_says_nothing_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A leader that starts has listed nothing yet; later the cluster may be away."""
    world = World(Sim())
    world.sim.lives = {"worker-0": [Life("hang")]}
    await world.submit(name="first", replicas=needs(gpu=8), deadline_s=600)
    await world.until(lambda row: row.state == "running")
    waits = await world.submit(name="second", replicas=needs(gpu=8))
    front = await world.submit(name="third", replicas=needs(gpu=8), rank=-1)
    back = await world.submit(name="withdrawn", replicas=needs(gpu=8))
    cause = "Last seen: worker-0 waits for free CPU."
    said = f"{cause} The next attempt is in about 3 minutes"
    until = START + timedelta(seconds=world.sim.seconds + 178)
    await world.intend(not_before=until, reason_code="withdrawn", reason_text=said)
    await world.round()
    assert await worked_out(world)
    places = await kept()
    assert next(iter(places)) == "third", "it was moved to the front"
    queued = (waits, front, back)
    told = [(row.reason_code, row.reason_text) for row in [await world.row(of) for of in queued]]
    assert told[2] == ("withdrawn", said)

    with monkeypatch.context() as unlisted:
        unlisted.setattr(World, "feed", lambda _: None)
        await world.start()
    assert world.shift is not None
    assert not await worked_out(world)
    assert await kept() == places
    rows = [await world.row(of) for of in queued]
    assert [(row.reason_code, row.reason_text) for row in rows] == told

    [health, *_] = [one.watch.health for one in world.shift._cache._informers]
    health.problem = "The cluster cannot be reached."
    await world.shift.tick("safety")
    assert not await worked_out(world)
    assert await kept() == places
    rows = [await world.row(of) for of in queued]
    assert [row.reason_code for row in rows] == ["cluster_unreachable"] * 2 + ["withdrawn"]
    assert rows[2].reason_text.startswith(f"{cause} The next attempt is in ")

    health.problem = ""
    await world.round()
    await worked_out(world)
    assert [*await kept()] == [*places]
    rows = [await world.row(of) for of in queued]
    assert [row.reason_code for row in rows] == [code for code, _ in told]


@pytest.mark.django_db
def test_a_usual_duration_is_of_the_own_runs_of_the_same_series() -> None:
    alice, bob = make_tenant("alice"), make_tenant("bob")
    at = now()

    def ran(name: str, minutes: int, tenant=alice, **more: Any) -> None:
        began = at - timedelta(days=1)
        ended = {"state": "succeeded", "admitted_at": began} | more
        make_job(tenant, name=name, finished_at=began + timedelta(minutes=minutes), **ended)

    for number, minutes in enumerate((10, 12, 50)):
        ran(f"resnet-{number}", minutes)
        ran(f"bert-{number}", minutes, state="failed")
        ran(f"vit-{number}", minutes, tenant=bob)
    ran("lone-1", 5)
    names = ("resnet-9", "bert-9", "vit-9", "lone-9")
    waiting = {name: str(make_job(alice, name=name).pk) for name in names}
    going = str(make_job(alice, name="resnet-10", state="running").pk)
    limited = str(make_job(alice, name="resnet-11", state="running").pk)
    running = [runs(going, 1, None), runs(limited, 1, 60)]
    queued = [waits(pk, 1) for pk in waiting.values()]
    assert all(one.lasts_s == UNKNOWN for one in queued)
    found = usual_durations(state([], running, queued), at)
    assert found == {waiting["resnet-9"]: 720, going: 720}
