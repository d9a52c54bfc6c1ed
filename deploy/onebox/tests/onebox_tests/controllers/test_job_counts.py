"""The counts of a Job are exact though it is killed between any two writes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from onebox.api.controllers.gc import GarbageCollector
from onebox.api.controllers.intervals import parse_indexes
from onebox.api.controllers.job import JobController, JobFinalizers
from onebox.api.controllers.job_facts import index_of, is_tracked
from onebox.api.controllers.job_status import is_finished
from onebox.api.controllers.objects import name_of, uid_of
from onebox.api.controllers.podstate import is_active
from onebox_tests.controllers.world import Obj, World, pod_spec


@contextmanager
def a_world() -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder:
        world = World(
            Path(folder),
            lambda api: [JobController(api), JobFinalizers(api), GarbageCollector(api)],
        )
        try:
            yield world
        finally:
            world.close()


@dataclass
class Ledger:
    """What the test did to pods, by uid: the truth that the status must tell."""

    succeeded: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    indexes: set[int] = field(default_factory=set)

    def act(self, world: World, action: str, choice: int) -> None:
        """End, fail or delete one of the active pods."""
        active = [pod for pod in world.active() if is_tracked(pod)]
        if not active:
            return
        pod = active[choice % len(active)]
        if action == "succeed":
            world.finish(pod)
            self.succeeded.add(uid_of(pod))
            self.indexes.add(index_of(pod) or 0)
        elif action == "fail":
            world.finish(pod, 1)
            self.failed.add(uid_of(pod))
        else:
            world.api.delete("pods", "ada", name_of(world.run(pod)))
            self.failed.add(uid_of(pod))


def status(world: World) -> Obj:
    return world.api.get("jobs", "ada", "mnist")["status"]


def settle_with_kills(world: World, kills: list[int]) -> None:
    """Settle while being killed after so many writes, again and again."""
    for commits in kills:
        if not world.settle_or_die_after(commits):
            return
    world.settle()


def check_invariants(world: World, parallelism: int) -> None:
    active = [pod for pod in world.pods() if is_active(pod)]
    assert len(active) <= parallelism
    indexes = [index_of(pod) for pod in active if index_of(pod) is not None]
    assert len(indexes) == len(set(indexes))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["succeed", "fail", "fail", "delete"]),
        st.integers(0, 5),
        st.lists(st.integers(0, 7), max_size=3),
    ),
    max_size=8,
)


@given(
    completions=st.integers(1, 5),
    parallelism=st.integers(1, 3),
    is_indexed=st.booleans(),
    steps=STEPS,
)
@settings(max_examples=40, derandomize=True, deadline=None, database=None)
def test_every_pod_is_counted_once_whatever_the_order_and_the_kills(
    completions: int, parallelism: int, is_indexed: bool, steps: list[tuple[str, int, list[int]]]
) -> None:
    ledger = Ledger()
    with a_world() as world:
        spec = {
            "completions": completions,
            "parallelism": parallelism,
            "completionMode": "Indexed" if is_indexed else "NonIndexed",
            "backoffLimit": 1000,
            "template": {"spec": pod_spec(restartPolicy="Never")},
        }
        world.api.create("jobs", "ada", {"metadata": {"name": "mnist"}, "spec": spec})
        world.settle()
        for action, choice, kills in steps:
            if is_finished(world.api.get("jobs", "ada", "mnist")):
                break
            ledger.act(world, action, choice)
            settle_with_kills(world, kills)
            check_invariants(world, parallelism)
            world.advance(700)  # longer than any back-off
        finish_everything(world, ledger)

        final = status(world)
        assert final.get("succeeded", 0) == len(ledger.succeeded) == completions
        assert final.get("failed", 0) == len(ledger.failed)
        assert final["uncountedTerminatedPods"] == {}
        if is_indexed:
            assert parse_indexes(final["completedIndexes"], completions) == ledger.indexes
        assert not any(is_tracked(pod) for pod in world.pods())


def finish_everything(world: World, ledger: Ledger) -> None:
    for _ in range(50):
        if is_finished(world.api.get("jobs", "ada", "mnist")):
            return
        for pod in world.pods():
            if "deletionTimestamp" in pod["metadata"]:
                world.remove(pod)
        for pod in world.active():
            world.finish(pod)
            ledger.succeeded.add(uid_of(pod))
            ledger.indexes.add(index_of(pod) or 0)
        world.settle()
        world.advance(700)
    raise AssertionError(f"the Job does not end: {status(world)}")


@given(
    commits=st.integers(0, 12), limit=st.integers(0, 2), per_index=st.booleans(), ok=st.booleans()
)
@settings(max_examples=30, derandomize=True, deadline=None, database=None)
def test_a_failing_job_ends_with_the_same_numbers_wherever_it_is_killed(
    commits: int, limit: int, per_index: bool, ok: bool
) -> None:
    with a_world() as world:
        spec: Obj = {
            "completions": 2,
            "parallelism": 2,
            "completionMode": "Indexed",
            "template": {"spec": pod_spec(restartPolicy="Never")},
        }
        if per_index:
            spec |= {"backoffLimitPerIndex": limit, "maxFailedIndexes": 0}
        else:
            spec |= {"backoffLimit": limit}
        world.api.create("jobs", "ada", {"metadata": {"name": "mnist"}, "spec": spec})
        world.settle_or_die_after(commits)
        if ok:
            world.finish(next(p for p in world.active() if index_of(p) == 1))
        for _ in range(limit + 1):
            world.settle()
            world.finish(next(p for p in world.active() if index_of(p) == 0), 1)
            world.settle_or_die_after(commits)
            world.advance(700)
        final = status(world)
        reasons = {c["type"]: c["reason"] for c in final["conditions"]}
        reason = "MaxFailedIndexesExceeded" if per_index else "BackoffLimitExceeded"
        assert reasons == {"FailureTarget": reason, "Failed": reason}
        # The other index's pod is deleted with the Job and counts as failed, unless it succeeded.
        assert final["failed"] == limit + 1 + (0 if ok else 1)
        assert final.get("succeeded", 0) == (1 if ok else 0)
        assert final.get("failedIndexes") == ("0" if per_index else None)
