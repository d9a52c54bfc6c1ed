"""Every change of the queue's order is on the page, in REST and on the page of the training, all from one look."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async

from jobs.models import Workload
from jobs.scheduling.actions import change
from jobs.workloads.actions import prioritize, reorder, stop
from tenants.models import User
from tests.factories import make_user
from tests.jobs.engine.kubelet import Life
from tests.jobs.engine.simulation import Sim
from tests.jobs.engine.test_admission import needs
from tests.jobs.engine.world import World
from tests.jobs.fleet.rows import read, rest

pytestmark = pytest.mark.django_db(transaction=True)

# Between two estimates of times there used to be a minute, in which the order stood still, too.
_PATIENCE_S = 20
# A change of the queue as people make it, and the order in which its entries are tried from then on.
CHANGES: dict[str, tuple[Callable[[User], Any], list[str]]] = {
    "high": (lambda by: _give(by, "second", "high"), ["second", "first", "bobs", "low"]),
    "low": (lambda by: _give(by, "first", "low"), ["second", "bobs", "first", "low"]),
    "front": (lambda by: _move(by, "second", to_front=True), ["second", "first", "bobs", "low"]),
    "back": (lambda by: _move(by, "first", to_front=False), ["second", "first", "bobs", "low"]),
    "fair share": (
        lambda by: change(by=by, changes={"fair_share": True}),
        ["bobs", "first", "second", "low"],
    ),
    "stop": (lambda by: stop(by=by, workload=_row("first")), ["second", "bobs", "low"]),
}


def _row(name: str) -> Workload:
    return Workload.objects.get(name=name)


def _give(by: User, name: str, priority: str) -> Workload:
    return prioritize(by=by, workload=_row(name), priority=priority)


def _move(by: User, name: str, *, to_front: bool) -> Workload:
    return reorder(by=by, workload=_row(name), to_front=to_front)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """alice's training has all GPUs; two of hers, one of bob's and one of low priority wait."""
    world = World(Sim(namespaces=("u-alice", "u-bob")))
    world.sim.lives = {"worker-0": [Life("hang")]}
    await world.submit(name="runs", replicas=needs(gpu=8))
    await world.until(lambda row: row.state == "running")
    for name, more in {"first": {}, "second": {}, "bobs": {"owner": "bob"}}.items():
        await world.submit(name=name, replicas=needs(gpu=8), **more)
    await world.submit(name="low", replicas=needs(gpu=8), priority="low", owner="bob")
    await world.round()
    assert world.shift is not None
    following = asyncio.ensure_future(world.shift._estimates.run())
    yield world
    following.cancel()


def _places(by: User) -> list[tuple[str, int | None]]:
    """In REST's order: name, and position in the whole queue."""
    return [(one["name"], one["position_all"]) for one in rest(by, "/api/v1/queue/")["results"]]


def _check(by: User, order: list[str]) -> None:
    entries = rest(by, "/api/v1/queue/")["results"]
    assert [(one["name"], one["position_all"]) for one in entries] == _in_line(order)
    names = [link.text for link in read(by, "/queue/").all("a", class_="job-name")]
    assert names == order, "on the page"
    for entry in entries:
        one = rest(by, f"/api/v1/jobs/{entry['id']}/")
        told = ("position", "position_all", "start_estimate", "rules", "reason")
        assert [one[name] for name in told] == [entry[name] for name in told], entry["name"]
        note = read(by, f"/trainings/{entry['id']}/").one("div", id="queue-place").text
        place = f"Position {entry['position']} in its namespace, {entry['position_all']} in the"
        assert place in note, entry["name"]


def _in_line(order: list[str]) -> list[tuple[str, int]]:
    return [(name, at) for at, name in enumerate(order, 1)]


async def _follows(by: User, order: list[str]) -> None:
    """Waits until REST has this order; then everything else has it, too."""
    for _ in range(_PATIENCE_S * 10):
        if await sync_to_async(_places)(by) == _in_line(order):
            break
        await asyncio.sleep(0.1)
    await sync_to_async(_check)(by, order)


@pytest.mark.parametrize("case", CHANGES)
async def test_a_change_is_followed_everywhere(world: World, case: str) -> None:
    admin = await sync_to_async(make_user)("root", role="admin")
    await _follows(admin, ["first", "second", "bobs", "low"])
    happens, order = CHANGES[case]
    await sync_to_async(happens)(admin)
    await world.round()
    await _follows(admin, order)


async def test_what_comes_has_a_place_at_once(world: World) -> None:
    admin = await sync_to_async(make_user)("root", role="admin")
    await _follows(admin, ["first", "second", "bobs", "low"])
    await world.submit(name="new", replicas=needs(gpu=8))
    await world.round()
    await _follows(admin, ["first", "second", "bobs", "new", "low"])
