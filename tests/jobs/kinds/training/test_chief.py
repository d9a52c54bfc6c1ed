"""Trainings with a chief: who decides, what serves it, and how long."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from jobs.kinds.plan import Delete
from jobs.kinds.state import PodFacts, ReplicaKey, Root, ServingJob
from jobs.rules.endings import ContainerExit, Disruption
from jobs.rules.states import ReplicaState, WorkloadState
from tests.jobs.kinds import NOW, after, plan
from tests.jobs.kinds.training.cases import ARCHIVED, PS, SERVER, SERVICE, W0, W1, job, pod, seen

CHIEF, EVALUATOR = ReplicaKey("chief", 0, 1), ReplicaKey("evaluator", 0, 1)
COUNTS = {"chief": 1, "worker": 2, "ps": 1, "evaluator": 1}
RUNNING, SUCCEEDED, FAILED = WorkloadState.RUNNING, WorkloadState.SUCCEEDED, WorkloadState.FAILED
ALL = dict.fromkeys((CHIEF, W0, W1, PS, EVALUATOR), "Running")


def with_chief(state: WorkloadState = RUNNING, **more: Any) -> Any:
    return job(
        state,
        counts=COUNTS,
        memory=dict.fromkeys(COUNTS, "1Gi"),
        root_name="mnist-abc123-chief",
        **more,
    )


def serving(role: str, **more: Any) -> ServingJob:
    return ServingJob("Job", f"mnist-abc123-{role}", f"{role}-job", role=role, **more)


def shown(
    pods: dict[ReplicaKey, str],
    verdict: str = "",
    *,
    lost: tuple[int, ...] = (),
    evaluator: dict[str, Any] | None = None,
) -> Any:
    root = Root("Job", "mnist-abc123-chief", "root-uid", verdict=verdict)
    workers = [key.index for key, phase in pods.items() if key.role == "worker"]
    done = frozenset(i for i in workers if pods[ReplicaKey("worker", i, 1)] == "Succeeded")
    jobs = (
        serving("worker", completed=done, failed=frozenset(lost)),
        serving("evaluator", **(evaluator or {})),
    )
    return seen(*(pod(key, phase) for key, phase in pods.items()), at=root, serving_jobs=jobs)


@pytest.mark.parametrize(
    ("policy", "pods", "verdict", "lost", "state"),
    [
        (None, {CHIEF: "Succeeded"}, "complete", (), SUCCEEDED),
        (None, {W0: "Succeeded", W1: "Succeeded"}, "", (), RUNNING),
        (None, {CHIEF: "Failed"}, "failed", (), FAILED),
        (None, {W1: "Failed"}, "", (), RUNNING),
        (None, {W1: "Failed"}, "", (1,), RUNNING),
        (None, {W0: "Failed", W1: "Failed"}, "", (0, 1), FAILED),
        ("worker0", {W0: "Succeeded"}, "", (), SUCCEEDED),
        ("worker0", {CHIEF: "Succeeded"}, "complete", (), RUNNING),
        ("worker0", {W0: "Failed"}, "", (0,), FAILED),
        ("worker0", {W1: "Failed"}, "", (1,), RUNNING),
        ("all", {CHIEF: "Succeeded"}, "complete", (), RUNNING),
        ("all", {CHIEF: "Succeeded", W0: "Succeeded", W1: "Succeeded"}, "complete", (), SUCCEEDED),
        ("all", {W1: "Failed"}, "", (1,), FAILED),
    ],
)
def test_who_decides(policy, pods, verdict, lost, state) -> None:
    row = with_chief(success_policy=policy)
    made = plan(row, shown({**ALL, **pods}, verdict, lost=lost))
    assert made.columns.get("state", row.state) is state
    if state is FAILED:
        first = min(key for key, phase in pods.items() if phase == "Failed")
        assert made.columns["reason"].text == f"{first.who} ended with exit code 1."


def test_nobody_misses_an_evaluator() -> None:
    lost = {"failed": frozenset({0})}
    starting = with_chief(WorkloadState.STARTING)
    made = plan(starting, shown({**ALL, EVALUATOR: "Failed"}, evaluator=lost))
    assert made.columns["state"] is RUNNING
    states = {row.key: row.state for row in made.replicas}
    assert states[EVALUATOR] is ReplicaState.FAILED


def test_a_worker_that_is_started_again_is_told_and_counts_for_nothing_else() -> None:
    row, observed = with_chief(), shown({**ALL, W1: "Failed"})
    row, observed = after(plan(row, observed), row, observed)
    more = {"key": W1, "phase": "Running", "node": "a", "is_running": True, "created_at": NOW}
    again = PodFacts("Pod", "again", "uid-2", **more)
    made = plan(row, replace(observed, pods=(*observed.pods, again)))
    assert [(e.reason, e.subject, e.message) for e in made.events] == [
        ("restarted", "worker-1", "worker-1 ended with exit code 1.")
    ]
    assert made.columns.get("state", RUNNING) is RUNNING


def gone(*things: Any) -> set[Delete]:
    return {Delete(one.kind, one.name, one.uid) for one in things}


WORKERS, EVALUATORS = serving("worker"), serving("evaluator")


@pytest.mark.parametrize(
    ("after_s", "evaluator", "expected"),
    [
        (29, {}, set()),
        (31, {}, gone(WORKERS, SERVER, SERVICE)),
        (599, {}, gone(WORKERS, SERVER, SERVICE)),
        (601, {}, gone(WORKERS, SERVER, SERVICE, EVALUATORS)),
        (1, {"completed": frozenset({0})}, gone(EVALUATORS)),
        (31, {"failed": frozenset({0})}, gone(WORKERS, SERVER, SERVICE, EVALUATORS)),
    ],
)
def test_what_serves_is_removed_after_the_chief_and_the_evaluator_last(
    after_s, evaluator, expected
) -> None:
    ended_at = NOW - timedelta(seconds=after_s)
    row = with_chief(SUCCEEDED, deciders_ended_at=ended_at, finished_at=ended_at)
    made = plan(row, shown({**ALL, CHIEF: "Succeeded"}, "complete", evaluator=evaluator))
    assert {step for step in made.steps if isinstance(step, Delete)} == expected


def test_an_evaluator_that_is_gone_is_not_waited_for() -> None:
    ended_at = NOW - timedelta(seconds=31)
    times = {"deciders_ended_at": ended_at, "finished_at": ended_at}
    row = with_chief(SUCCEEDED, notes=ARCHIVED, clean_policy="all", **times)
    left = shown({CHIEF: "Succeeded"}, "complete")
    left = replace(left, servers=(), services=(), serving_jobs=())
    assert gone(left.root) <= set(plan(row, left).steps)


def test_after_a_failure_nothing_stays() -> None:
    row = with_chief(FAILED, deciders_ended_at=NOW, finished_at=NOW)
    made = plan(row, shown({**ALL, CHIEF: "Failed"}, "failed"))
    assert set(made.steps) == gone(WORKERS, SERVER, SERVICE, EVALUATORS)


def test_an_evaluator_that_fails_after_the_end_has_failed() -> None:
    row = with_chief(SUCCEEDED, deciders_ended_at=NOW, finished_at=NOW)
    ends = {W0: ContainerExit(1, "Error"), EVALUATOR: ContainerExit(1, "Error")}
    pods = {**ALL, CHIEF: "Succeeded", **dict.fromkeys(ends, "Failed")}
    states = {one.key: one.state for one in plan(row, shown(pods, "complete")).replicas}
    assert (states[W0], states[EVALUATOR]) == (ReplicaState.STOPPED, ReplicaState.FAILED)


LAUNCHER = ReplicaKey("launcher", 0, 1)
DRAINED = {"disruption": Disruption("EvictionByEvictionAPI"), "is_terminating": True}


@pytest.mark.parametrize(
    ("pods", "verdict", "lost", "state", "cause"),
    [
        ((pod(LAUNCHER, "Succeeded"), pod(W0), pod(W1)), "complete", (), SUCCEEDED, ""),
        ((pod(LAUNCHER, "Failed"), pod(W0), pod(W1)), "failed", (), FAILED, ""),
        ((pod(LAUNCHER), pod(W0, "Failed"), pod(W1)), "", (0,), FAILED, ""),
        # mpirun fails before the pod of the worker has ended.
        ((pod(LAUNCHER, "Failed"), pod(W0, **DRAINED), pod(W1)), "failed", (), None, "disrupted"),
        ((pod(LAUNCHER), pod(W0, "Failed", **DRAINED), pod(W1)), "", (0,), None, "disrupted"),
    ],
)
def test_mpi_ends_with_its_launcher_or_with_any_worker(pods, verdict, lost, state, cause) -> None:
    counts = {"launcher": 1, "worker": 2}
    name = "mnist-abc123-launcher"
    memory = dict.fromkeys(counts, "1Gi")
    row = job(RUNNING, topology="mpi", counts=counts, memory=memory, root_name=name)
    workers = serving("worker", failed=frozenset(lost))
    at = Root("Job", name, "root-uid", verdict=verdict)
    observed = seen(*pods, at=at, serving_jobs=(workers,), servers=())
    made = plan(row, observed)
    notes = made.columns.get("notes", row.notes)
    assert (made.columns.get("state"), notes.attempt_cause) == (
        state or WorkloadState.RESTARTING,
        cause,
    )
    if state is SUCCEEDED:  # at once
        assert gone(workers, SERVICE) <= set(plan(*after(made, row, observed)).steps)


@pytest.mark.parametrize(("master", "state"), [(1, FAILED), (0, WorkloadState.STOPPED)])
def test_servers_that_nobody_drives_are_stopped_at_their_deadline(master, state) -> None:
    counts = {**({"master": 1} if master else {}), "worker": 2}
    name = f"mnist-abc123-{next(iter(counts))}"
    row = job(
        RUNNING,
        topology="tf-ingraph",
        counts=counts,
        memory=dict.fromkeys(counts, "1Gi"),
        root_name=name,
        deadline_s=60,
    )
    at = Root("Job", name, "root-uid", verdict="failed", fail_reason="DeadlineExceeded")
    made = plan(row, seen(pod(W0), pod(W1), at=at, servers=()))
    assert made.columns["state"] is state
    assert made.columns["reason"].code == "deadline"
