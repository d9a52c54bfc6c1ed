"""Which rows a resync is at."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest

from jobs.engine import controller, store
from jobs.engine.controller import Controller
from jobs.kinds.manifests import kube_name
from jobs.leader.clock import SteadyClock
from tests.jobs.engine.kubelet import Life
from tests.jobs.engine.world import World

Looking = Callable[..., Controller]


class Rows:
    """So many rows of which nothing new is known."""

    def __init__(self, count: int) -> None:
        self.found = {UUID(int=number + 1): ("run",) for number in range(count)}

    def unsettled(self, known: Any) -> dict[UUID, tuple[str, ...]]:
        del known
        return self.found


class View:
    """Each row has this many pods; nothing else was listed yet."""

    synced = False

    def __init__(self, pods_each: int) -> None:
        self.pods = self
        self.pods_each = pods_each

    def count_of_owner(self, owner: str) -> int:
        del owner
        return self.pods_each


@pytest.fixture
def looking(monkeypatch: pytest.MonkeyPatch) -> Looking:
    def made(rows: Rows, pods_each: int = 0) -> Controller:
        monkeypatch.setattr(store, "unsettled", rows.unsettled)
        nothing: Any = None
        view: Any = View(pods_each)
        return Controller(view, nothing, nothing, SteadyClock(), nothing)

    return made


async def noted(looks: Controller) -> set[UUID]:
    for pk in looks._queue.pending():
        looks._queue.remove(pk)
    await looks.resync(at="safety")
    return set(looks._queue.pending())


async def test_a_few_rows_are_looked_at_all_together(looking: Looking) -> None:
    rows = Rows(controller._PER_RESYNC)
    looks = looking(rows)
    await looks.resync(at="safety")  # they are new to it
    assert await noted(looks) == rows.found.keys()
    assert await noted(looks) == rows.found.keys()


async def test_of_many_rows_each_has_its_turn(
    looking: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "_PER_RESYNC", 20)
    rows = Rows(50)
    looks = looking(rows)
    await looks.resync(at="safety")
    seen = [await noted(looks) for _ in range(3)]
    assert [len(turn) for turn in seen] == [20, 20, 20]
    assert set.union(*seen) == rows.found.keys()


async def test_rows_with_many_pods_take_turns_sooner(looking: Looking) -> None:
    looks = looking(Rows(200), pods_each=49)
    await looks.resync(at="safety")
    assert len(await noted(looks)) == controller._PER_RESYNC // 50


async def test_a_changed_mind_is_looked_at_whose_turn_ever_it_is(
    looking: Looking, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controller, "_PER_RESYNC", 1)
    rows = Rows(50)
    looks = looking(rows)
    await looks.resync(at="safety")
    rows.found[UUID(int=40)] = ("stop",)
    assert UUID(int=40) in await noted(looks)


def remembered(looks: Controller, pk: UUID) -> set[str]:
    """In which of its tables a workload stands."""
    tables = {**vars(looks), **vars(looks._events), **vars(looks._pods)}
    return {
        name
        for name, table in tables.items()
        if isinstance(table, dict | set) and not {pk, str(pk)}.isdisjoint(table)
    }


@pytest.mark.django_db(transaction=True)
async def test_what_has_ended_is_remembered_no_longer_than_the_cluster_has_events_of_it() -> None:
    world = World()
    world.sim.lives = {"worker-0": [Life("ok")]}
    ended = await world.submit(clean_policy="all")
    runs = await world.submit(kind="notebook")

    def happens(row: Any, reason: str) -> dict[str, Any]:
        meta = {"name": f"{row.pk}.{reason}", "namespace": row.tenant.namespace}
        about = {"kind": "Pod", "name": f"{kube_name(row.name, row.pk, 1)}-0"}
        found = {"kind": "Event", "metadata": meta, "involvedObject": about, "reason": reason}
        return world.sim.put({**found, "lastTimestamp": world.sim.stamp()})

    await world.round()
    first = [happens(await world.row(of), "Pulled") for of in (ended, runs)]
    await world.until(lambda row: row.cleaned_at, of=ended)
    await world.until(lambda row: row.state == "running", of=runs)
    await world.rest(2)
    assert world.shift is not None
    looks = world.shift._workloads
    assert remembered(looks, ended.pk) == {"_written"}
    assert "_intents" in remembered(looks, runs.pk)
    assert looks._events._written.keys() == {str(ended.pk), str(runs.pk)}
    for event in first:
        meta = event["metadata"]
        del world.sim.store["Event", meta["namespace"], meta["name"]]
    happens(await world.row(runs), "Probed")
    world.feed()
    await world.shift.tick("heard")
    await world.shift.tick("safety")
    assert remembered(looks, ended.pk) == set()
    assert [*looks._events._written] == [str(runs.pk)]
    assert len(looks._events._written[str(runs.pk)]) == 1
    for of in (ended, runs):
        events = (await world.row(of)).events.exclude(source="homeport").order_by("id")
        told = [event.reason async for event in events]
        assert told == (["Pulled", "Probed"] if of is runs else ["Pulled"])
    world.about = runs
    await world.intend(desired="stop")
    await world.until(lambda row: row.cleaned_at, of=runs)
    await world.rest(2)
    assert "_intents" not in remembered(looks, runs.pk)
    await world.intend(desired="run", generation=2)
    await world.until(lambda row: row.state == "running" and row.attempt == 2, of=runs)
