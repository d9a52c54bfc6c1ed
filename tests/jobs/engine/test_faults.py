"""Every call that changes the cluster, refused, unanswered, or the last one of the process.

The same table runs against real processes in tests/e2e/test_crash_table.py; here each point of each
life is tried, in milliseconds.
"""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobs.leader.lease import LeaseLostError
from jobs.models import Job
from jobs.rules.states import FOLLOWERS, JobState
from portal.cluster.errors import (
    ClusterError,
    Forbidden,
    QuotaExceeded,
    TooManyRequests,
    Unavailable,
)
from tests.jobs.engine.simulation import Fault, Life
from tests.jobs.engine.world import TF_PS, World

pytestmark = pytest.mark.django_db(transaction=True)

# Calls of a whole life of one parameter server and two workers: see `test_the_table_is_complete`.
SUCCESS = 6 + 2 + 1  # made and set going; Deployment and Service recycled; the root removed
STOP = 6 + 1 + 2 + 1  # made and set going; suspended; recycled; removed
KINDS = ("before", "after", "lost")


async def whole_life(world: World) -> Job:
    await world.submit(topology="tf-ps", replicas=TF_PS, clean_policy="all")
    return await world.until(lambda job: job.cleaned_at, rounds=200)


async def stopped_life(world: World) -> Job:
    world.sim.lives = {"worker-0": [Life("hang")], "worker-1": [Life("hang")]}
    await world.submit(topology="tf-ps", replicas=TF_PS, clean_policy="all")
    await world.until(lambda job: job.state == "running")
    await world.intend(desired="stop")
    return await world.until(lambda job: job.cleaned_at, rounds=200)


def is_clean_and_ran_once(world: World) -> bool:
    born = {who: n for who, n in world.sim.born.items() if not who.startswith("rescue")}
    assert born == {"worker-0": 1, "worker-1": 1, "ps-0": 1}
    assert world.sim.live_things() == []
    return True


async def transitions_are_allowed(job: Job) -> None:
    state = "starting"  # admission is an event of its own
    async for event in job.events.filter(reason="state").order_by("id"):
        before, _, after = event.message.partition(":")[0].partition(" -> ")
        assert before in {state, "queued"}
        assert JobState(after) in FOLLOWERS[JobState(before)]
        state = "starting" if after == "queued" else after


async def test_the_table_is_complete() -> None:
    world = World()
    await whole_life(world)
    assert len(world.sim.mutations) == SUCCESS, world.sim.mutations
    world = World()
    await stopped_life(world)
    assert len(world.sim.mutations) == STOP, world.sim.mutations


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(SUCCESS))
async def test_a_fault_at_each_call_of_a_successful_life(number: int, kind: str) -> None:
    world = World()
    world.sim.faults = [Fault(number, kind)]
    job = await whole_life(world)
    assert job.state == "succeeded"
    assert is_clean_and_ran_once(world)
    assert world.starts == (1 if kind == "lost" else 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(6, STOP))
async def test_a_fault_at_each_call_of_a_stop(number: int, kind: str) -> None:
    world = World()
    world.sim.faults = [Fault(number, kind)]
    job = await stopped_life(world)
    assert job.state == "stopped"
    assert is_clean_and_ran_once(world)


@pytest.mark.parametrize(
    "error",
    [
        Unavailable(503, "ServerError", "try later"),
        TooManyRequests(429, "TooManyRequests", "slow down", 3.0),
        Forbidden(403, "Forbidden", "not yet"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("number", range(SUCCESS))
async def test_a_refusal_at_each_call_is_tried_again(number: int, error: ClusterError) -> None:
    world = World()
    world.sim.faults = [Fault(number, "error", error), Fault(number + 1, "error", error)]
    job = await whole_life(world)
    assert job.state == "succeeded"
    assert is_clean_and_ran_once(world)


async def test_what_is_refused_for_long_is_tried_less_and_less_often() -> None:
    """A quota that is full: the cluster is soon asked every six seconds, not every second."""
    world = World()
    full = QuotaExceeded(403, "Forbidden", "exceeded quota: homeport")
    world.sim.faults = [Fault(number, "error", full) for number in range(500)]
    await world.submit(topology="tf-ps", replicas=TF_PS, starting_deadline_s=3600)
    await world.rest(120)
    assert 15 <= len(world.sim.mutations) <= 35
    world.sim.faults = []
    await world.until(lambda job: job.state == "running", rounds=30)


@example(set(), [], "stop", 7, "oom", 1)  # stopped on the way to another attempt, then rescued
@given(
    st.sets(st.integers(0, 14), max_size=4),
    st.lists(st.sampled_from(KINDS), min_size=4, max_size=4),
    st.sampled_from(["run", "stop", "delete"]),
    st.integers(0, 8),
    st.sampled_from(["ok", "fail", "oom", "evict", "hang"]),
    st.integers(0, 1),
)
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
async def test_any_faults_at_any_moment_end_complete_or_clean(
    numbers: set[int], kinds: list[str], desired: str, rounds: int, worker: str, retries: int
) -> None:
    world = World()
    world.sim.faults = [
        Fault(number, kind) for number, kind in zip(sorted(numbers), kinds, strict=False)
    ]
    world.sim.lives = {"worker-1": [Life(worker), Life("ok")]}
    await world.submit(
        topology="tf-ps", replicas=TF_PS, clean_policy="all", retries=retries, deadline_s=100
    )
    await world.rest(rounds)
    if desired != "run":
        await world.intend(desired=desired)
    await world.until(lambda job: job.cleaned_at and desired != "delete", rounds=600)
    assert world.sim.live_things() == []
    job = await world.job()
    if desired == "delete":
        assert job is None
    else:
        await transitions_are_allowed(job)
        assert job.state in {"succeeded", "failed", "stopped"}
        assert job.memo.get("archive") == "complete" or not job.memo.get("committed_at")


@pytest.mark.parametrize("frozen_from", range(1, 12))
async def test_a_view_that_falls_behind_deletes_and_doubles_nothing(frozen_from: int) -> None:
    world = World()
    await world.submit(topology="tf-ps", replicas=TF_PS, clean_policy="all")
    await world.rest(frozen_from)
    world.is_view_frozen = True
    await world.rest(15)
    world.is_view_frozen = False
    job = await world.until(lambda job: job.cleaned_at, rounds=200)
    assert job.state == "succeeded"
    assert is_clean_and_ran_once(world)


async def test_two_reconcilers_by_accident_make_nothing_twice() -> None:
    world = World()
    await world.submit(topology="tf-ps", replicas=TF_PS, clean_policy="all")
    await world.rest(2)
    older = world.shift
    await world.start()
    newer = world.shift
    assert older is not None
    refused = 0
    for _ in range(60):
        await world.round()
        world.shift = older
        world.feed()
        try:
            await older.tick("safety")
        except LeaseLostError:
            refused += 1
        world.shift = newer
    assert refused > 0
    job = await world.until(lambda job: job.cleaned_at, rounds=200)
    assert job.state == "succeeded"
    assert is_clean_and_ran_once(world)
