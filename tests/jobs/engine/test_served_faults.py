"""Every call that changes the cluster for a service, refused, unanswered, or the last of the process."""

import pytest

from portal.cluster.errors import ClusterError, Forbidden, TooManyRequests, Unavailable
from tests.jobs.engine.served_simulation import ServiceWorld
from tests.jobs.engine.simulation import Fault

pytestmark = pytest.mark.django_db(transaction=True)

# Deployment, Secret, Service; scaled to one; removed: see `test_the_table_is_complete`.
CALLS = 3 + 1 + 1
KINDS = ("before", "after", "lost")


async def whole_life(world: ServiceWorld) -> None:
    await world.ask_for()
    await world.settle(lambda service: service.state == "running")
    await world.change(desired="stop")
    await world.settle(lambda service: service.cleaned_at)


async def is_clean_and_ran_once(world: ServiceWorld) -> bool:
    assert dict(world.sim.born) == {"notebook-0": 1}
    assert world.sim.live_things() == []
    assert (await world.service()).state == "stopped"
    return True


async def test_the_table_is_complete() -> None:
    world = ServiceWorld()
    await whole_life(world)
    assert len(world.sim.mutations) == CALLS, world.sim.mutations
    assert await is_clean_and_ran_once(world)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(CALLS))
async def test_a_fault_at_each_call_of_a_life(number: int, kind: str) -> None:
    world = ServiceWorld()
    world.sim.faults = [Fault(number, kind)]
    await whole_life(world)
    assert await is_clean_and_ran_once(world)
    assert world.starts == (1 if kind == "lost" else 2)


@pytest.mark.parametrize(
    "error",
    [
        Unavailable(503, "ServerError", "try later"),
        TooManyRequests(429, "TooManyRequests", "slow down", 3.0),
        Forbidden(403, "Forbidden", "not yet"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("number", range(CALLS))
async def test_a_refusal_at_each_call_is_tried_again(number: int, error: ClusterError) -> None:
    world = ServiceWorld()
    world.sim.faults = [Fault(number, "error", error), Fault(number + 1, "error", error)]
    await whole_life(world)
    assert await is_clean_and_ran_once(world)


@pytest.mark.parametrize("rounds", range(6))
@pytest.mark.parametrize("desired", ["stop", "delete"])
async def test_a_changed_mind_at_any_moment_with_a_killed_process(
    rounds: int, desired: str
) -> None:
    world = ServiceWorld()
    world.sim.faults = [Fault(number, "after") for number in range(1, 12, 2)]
    await world.ask_for()
    await world.rest(rounds)
    await world.change(desired=desired)
    await world.settle(lambda service: service.cleaned_at and desired == "stop", rounds=120)
    assert world.sim.live_things() == []


@pytest.mark.parametrize("frozen_from", range(1, 7))
async def test_a_view_that_falls_behind_makes_nothing_twice(frozen_from: int) -> None:
    world = ServiceWorld()
    await world.ask_for()
    await world.rest(frozen_from)
    world.is_view_frozen = True
    await world.rest(15)
    world.is_view_frozen = False
    await world.settle(lambda service: service.state == "running", rounds=120)
    assert dict(world.sim.born) == {"notebook-0": 1}
