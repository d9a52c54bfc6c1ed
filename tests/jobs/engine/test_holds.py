"""Nodes that an admin holds: what leaves them, what stays, what still starts there, and whose promise moves."""

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from jobs.engine.admission import write
from jobs.models import Attempt, Replica, Workload
from jobs.places import NodeReservation
from jobs.scheduling import holds
from jobs.scheduling.models import NodeHold
from tenants.models import User
from tests.factories import make_user
from tests.jobs.engine.kubelet import START, Life
from tests.jobs.engine.simulation import Sim
from tests.jobs.engine.test_admission import needs
from tests.jobs.engine.world import World

pytestmark = pytest.mark.django_db(transaction=True)


class Held:
    """Two nodes of eight GPUs, and an admin."""

    def __init__(self) -> None:
        self.world = World(Sim(namespaces=("u-alice", "u-bob", "u-carol")))
        self.world.sim.add_node("other")
        self.world.sim.lives = {"worker-0": [Life("hang")]}
        self.admin: User | None = None

    async def submit(self, name: str, gpu: int, owner: str, **more: Any) -> Workload:
        found = await self.world.submit(
            name=name, owner=owner, replicas=needs(gpu=gpu), starting_deadline_s=60, **more
        )
        assert isinstance(found, Workload)
        return found

    async def hold(self, node: str, after_s: float, **more: Any) -> list[str]:
        """Whose promises it moves. It is held so many seconds from now on."""

        def done() -> list[str]:
            self.admin = self.admin or make_user("root", role="admin")
            at = START + timedelta(seconds=self.world.sim.seconds + after_s)
            effects = holds.effects_of([node], at, of_pool=False)
            holds.hold(by=self.admin, nodes=[node], from_at=at, reason="new disk", confirmed=None)
            self.stays = [one.name for one in effects.stays]
            self.stops = [one.name for one in effects.stops]
            return [one.workload.name for one in effects.moves]

        return await sync_to_async(done)()

    async def release(self, node: str) -> None:
        assert self.admin is not None
        await sync_to_async(holds.release)(by=self.admin, nodes=[node])

    async def nodes(self) -> dict[str, str]:
        """Name of what runs -> its node."""
        rows = Replica.objects.filter(workload__state="running").exclude(node="")
        return {row.workload.name: row.node async for row in rows.select_related("workload")}


async def test_a_hold_moves_a_promise_and_says_whose() -> None:
    held = Held()
    world = held.world
    await held.submit("first", 6, "alice", deadline_s=600)
    await world.until(lambda row: row.state == "running")
    await held.submit("second", 6, "bob", deadline_s=3000)
    await world.until(lambda row: row.state == "running")
    assert await held.nodes() == {"first": "node", "second": "other"}
    large = await held.submit("large", 8, "carol", deadline_s=3000)
    await world.rest(2)
    before = await NodeReservation.objects.aget()
    assert (before.workload_id, before.room[0][0]) == (large.pk, "node")
    assert await held.hold("other", 600) == []
    assert (held.stays, held.stops) == (["second"], [])
    await world.rest(3)
    assert (await NodeReservation.objects.aget()).starts_at == before.starts_at
    await held.release("other")
    assert await held.hold("node", 7200) == [], "it has left by then"
    await world.rest(3)
    kept = await NodeReservation.objects.aget()
    assert (kept.room, kept.starts_at) == (before.room, before.starts_at)
    assert await held.hold("node", 3000) == ["large"]
    assert held.stays == [], "it ends before"
    await world.rest(3)
    after = await NodeReservation.objects.aget()
    assert after.room[0][0] == "other"
    assert before.starts_at is not None
    assert after.starts_at is not None
    assert (after.starts_at - before.starts_at).total_seconds() >= 2400
    row = await world.row(large)
    assert "; node node is held from " in row.reason_text
    assert "a node is kept so that it starts by " in row.reason_text
    # What ends before still starts there, and nothing that may last longer.
    short = await held.submit("short", 1, "alice", deadline_s=600)
    endless = await held.submit("endless", 1, "bob")
    await world.until(lambda row: row.state == "running", of=short)
    assert (await held.nodes())["short"] == "node"
    assert (await world.row(endless)).state == "queued"
    assert "node node is held from " in (await world.row(endless)).reason_text


async def test_a_hold_that_comes_while_a_look_goes_on_is_seen_by_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The look has read no hold, and what it is about to start was in nobody's list."""
    held = Held()
    world = held.world
    await held.submit("first", 8, "alice")
    await world.until(lambda row: row.state == "running")
    assert world.shift is not None
    lease, moved = world.shift._lease, []
    commit = lease.commit

    async def commit_late(written: Any) -> Any:
        if getattr(written, "func", None) is write and not moved:
            moved.append(await held.hold("other", 600))
        return await commit(written)

    monkeypatch.setattr(lease, "commit", commit_late)
    endless = await held.submit("endless", 8, "bob")
    await world.rest(5)
    assert (moved, held.stays) == ([[]], [])
    row = await world.row(endless)
    assert (row.state, row.plan) == ("queued", None)
    assert "node other is held from " in row.reason_text


async def test_low_leaves_one_grace_before_and_what_else_runs_stays() -> None:
    held = Held()
    world = held.world
    normal = await held.submit("normal", 4, "bob", retries=1)
    await world.until(lambda row: row.state == "running")
    low = await held.submit("low", 4, "alice", priority="low")
    await world.until(lambda row: row.state == "running")
    assert await held.nodes() == {"normal": "node", "low": "node"}
    assert await held.hold("node", 400) == []
    assert (held.stays, held.stops) == (["normal"], ["low"])
    began_s = world.sim.seconds
    await world.until(lambda row: row.state == "stopping", of=low, seconds=10)
    assert 270 <= world.sim.seconds - began_s <= 300, "the queue is empty, and it is looked at"
    told = (await world.row(low)).reason_text
    hold = await NodeHold.objects.aget()
    at = f"{hold.from_at:%H:%M UTC on %d %B}"
    assert told == f"Stopped: an admin holds node node from {at} (new disk)."
    await world.until(lambda row: row.state == "running" and row.attempt == 2, of=low, seconds=5)
    assert world.sim.seconds - began_s < 410
    assert await held.nodes() == {"normal": "node", "low": "other"}
    row = await world.row(low)
    assert (row.preempted_at, row.preempted_why) == (None, "")
    last = await Attempt.objects.filter(workload=low.pk).order_by("number").alast()
    assert last is not None
    assert (last.number, last.cause) == (2, "preempted")
    # A retry is a start: what stays has its next attempt elsewhere.
    assert (await world.row(normal)).state == "running"
    [pod] = [one for one in world.sim.of("Pod") if one["metadata"]["namespace"] == "u-bob"]
    world.sim._finish(pod, "Failed", 1)
    await world.until(lambda row: row.state == "restarting", of=normal)
    late = await held.submit("late", 4, "carol", priority="low")
    await world.until(lambda row: row.state == "running" and row.attempt == 2, of=normal, seconds=5)
    assert await held.nodes() == {"normal": "other", "low": "other"}
    assert (await world.row(late)).state == "queued"
