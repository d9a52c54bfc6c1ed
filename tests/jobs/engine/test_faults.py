"""Every call that changes the cluster, refused, unanswered, or the last one of the process.

The same table runs against real processes in tests/e2e/test_crash_table.py; here each point of each
life is tried, in milliseconds.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from jobs.leader.lease import LeaseLostError
from jobs.models import Workload
from jobs.places import NodeClaim
from jobs.rules.states import FOLLOWERS, WorkloadState
from portal.cluster.errors import (
    ClusterError,
    Forbidden,
    QuotaExceeded,
    TooManyRequests,
    Unavailable,
)
from tests.jobs.engine.kubelet import Life
from tests.jobs.engine.simulation import Fault, Sim
from tests.jobs.engine.world import ROLE, TF_PS, World

pytestmark = pytest.mark.django_db(transaction=True)

KINDS = ("before", "after", "lost")
CLEANED = {"topology": "tf-ps", "replicas": TF_PS, "clean_policy": "all"}


@dataclass(frozen=True)
class Course:
    """A whole life of a workload: how it is asked for, how it goes on to its end, what that takes.

    Attributes:
        calls: how many change the cluster.
        born: the pods that it has, each once.
        ends: its last state.
    """

    ask: Callable[[World], Awaitable[Any]]
    go_on: Callable[[World], Awaitable[Any]]
    calls: int
    born: tuple[str, ...]
    ends: str

    async def live(self, world: World) -> None:
        await self.ask(world)
        await self.go_on(world)

    async def is_clean_and_ran_once(self, world: World) -> bool:
        born = {who: n for who, n in world.sim.born.items() if not who.startswith("rescue")}
        assert born == dict.fromkeys(self.born, 1)
        assert world.sim.live_things() == []
        assert (await world.row()).state == self.ends
        return True


async def ask_training(world: World) -> None:
    await world.submit(**CLEANED)


async def ask_training_that_hangs(world: World) -> None:
    world.sim.lives = {"worker-0": [Life("hang")], "worker-1": [Life("hang")]}
    await ask_training(world)


async def ask_training_of_a_group(world: World) -> None:
    world.sim.has_pod_groups = True
    await ask_training(world)


async def ask_notebook(world: World) -> None:
    await world.submit("notebook")


async def ends(world: World) -> None:
    await world.until(lambda row: row.cleaned_at, rounds=200)


async def runs_and_is_stopped(world: World) -> None:
    await world.until(lambda row: row.state == "running")
    await world.intend(desired="stop")
    await ends(world)


PODS = ("worker-0", "worker-1", "ps-0")
COURSES = {
    # Made and set going; Deployment and Service recycled; the root removed.
    "success": Course(ask_training, ends, 6 + 2 + 1, PODS, "succeeded"),
    # Made and set going; suspended; recycled; removed.
    "stop": Course(ask_training_that_hangs, runs_and_is_stopped, 6 + 1 + 2 + 1, PODS, "stopped"),
    # A PodGroup beside them; loosened once they are placed.
    "together": Course(ask_training_of_a_group, ends, 7 + 1 + 2 + 1, PODS, "succeeded"),
    # Deployment, Secret, Service; scaled to one; removed.
    "notebook": Course(ask_notebook, runs_and_is_stopped, 3 + 1 + 1, ("notebook-0",), "stopped"),
}
WHOLE = [(name, n) for name in ("success", "notebook") for n in range(COURSES[name].calls)]
CALLS = [*WHOLE, *(("stop", n) for n in range(6, COURSES["stop"].calls))]  # begins as a success
CALLS += [("together", 1), ("together", 7)]  # the group is made, and loosened


@pytest.mark.parametrize("name", COURSES)
async def test_the_table_is_complete(name: str) -> None:
    world = World()
    await COURSES[name].live(world)
    assert len(world.sim.mutations) == COURSES[name].calls, world.sim.mutations
    assert await COURSES[name].is_clean_and_ran_once(world)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "number"), CALLS)
async def test_a_fault_at_each_call(name: str, number: int, kind: str) -> None:
    world = World()
    world.sim.faults = [Fault(number, kind)]
    await COURSES[name].live(world)
    assert await COURSES[name].is_clean_and_ran_once(world)
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
@pytest.mark.parametrize(("name", "number"), WHOLE)
async def test_a_refusal_at_each_call_is_tried_again(
    name: str, number: int, error: ClusterError
) -> None:
    world = World()
    world.sim.faults = [Fault(number, "error", error), Fault(number + 1, "error", error)]
    await COURSES[name].live(world)
    assert await COURSES[name].is_clean_and_ran_once(world)


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


async def transitions_are_allowed(job: Workload) -> None:
    state = "starting"  # admission is an event of its own
    async for event in job.events.filter(reason="state").order_by("id"):
        before, _, after = event.message.partition(":")[0].partition(" -> ")
        assert before in {state, "queued"}
        assert WorkloadState(after) in FOLLOWERS[WorkloadState(before)]
        state = "starting" if after == "queued" else after


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
    await world.submit(**CLEANED, retries=retries, deadline_s=100)
    await world.rest(rounds)
    if desired != "run":
        await world.intend(desired=desired)
    await world.until(lambda job: job.cleaned_at and desired != "delete", rounds=600)
    assert world.sim.live_things() == []
    job = await world.row()
    if desired == "delete":
        assert job is None
    else:
        await transitions_are_allowed(job)
        assert job.state in {"succeeded", "failed", "stopped"}
        assert job.notes.get("archive") == "complete" or not job.notes.get("committed_at")


@pytest.mark.parametrize("rounds", range(6))
@pytest.mark.parametrize("desired", ["stop", "delete"])
async def test_a_changed_mind_at_any_moment_with_a_killed_process(
    rounds: int, desired: str
) -> None:
    world = World()
    world.sim.faults = [Fault(number, "after") for number in range(1, 12, 2)]
    await world.submit("notebook")
    await world.rest(rounds)
    await world.intend(desired=desired)
    await world.until(lambda service: service.cleaned_at and desired == "stop")
    assert world.sim.live_things() == []


@pytest.mark.parametrize(
    ("name", "frozen_from"),
    [*(("success", n) for n in range(1, 12)), *(("notebook", n) for n in range(1, 7))],
)
async def test_a_view_that_falls_behind_deletes_and_doubles_nothing(
    name: str, frozen_from: int
) -> None:
    world = World()
    await COURSES[name].ask(world)
    await world.rest(frozen_from)
    world.is_view_frozen = True
    await world.rest(15)
    world.is_view_frozen = False
    await COURSES[name].go_on(world)
    assert await COURSES[name].is_clean_and_ran_once(world)


async def test_two_reconcilers_by_accident_make_nothing_twice() -> None:
    world = World()
    await world.submit(**CLEANED)
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
    await ends(world)
    assert await COURSES["success"].is_clean_and_ran_once(world)


# --- one that is stopped for another one ---
# Calls that make the first and set it going; that end it, and then make the other one and set it going.
BEGUN, HANDED_OVER = 5, 8


async def low_gives_way(faults: list[Fault]) -> World:
    """A training of low priority that gives its room to another namespace's."""
    world = World(Sim(namespaces=("u-alice", "u-bob")))
    world.sim.lives = {"worker-0": [Life("hang")]}
    world.sim.faults = faults
    asks = {"worker": {**ROLE, "gpu_count": 8}}
    low = await world.submit(name="low", replicas=asks, priority="low")
    await world.until(lambda row: row.state == "running", of=low)
    normal = await world.submit(owner="bob", name="normal", replicas=asks)
    await world.until(lambda row: row.state == "running", of=normal, seconds=5)
    row = await world.until(lambda row: row.state == "queued", of=low, seconds=5)
    assert (row.state, row.attempt, row.preempted_at) == ("queued", 2, None)
    assert (row.notes["preemptions"], row.notes.get("retries_used", 0)) == (1, 0)
    assert not await NodeClaim.objects.aexists()
    return world


async def test_the_table_of_preemption_is_complete() -> None:
    world = await low_gives_way([])
    assert len(world.sim.mutations) == BEGUN + HANDED_OVER, world.sim.mutations


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", range(HANDED_OVER))
async def test_a_fault_at_each_call_of_a_preemption(number: int, kind: str) -> None:
    world = await low_gives_way([Fault(BEGUN + number, kind)])
    assert world.starts == (1 if kind == "lost" else 2)
    jobs = [obj["metadata"]["namespace"] for obj in world.sim.of("Job")]
    assert jobs == ["u-bob"]
