"""Details of trainings that a table does not hold."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs.kinds.notes import Notes, dump, load
from jobs.kinds.state import ReplicaRow
from jobs.rules.endings import ContainerExit
from jobs.rules.states import ReplicaState, WorkloadState
from tests.jobs.kinds import NOW, after, plan
from tests.jobs.kinds.training.cases import (
    ALL_RUN,
    EARLIER,
    GOING,
    PS,
    RUNNING,
    W0,
    W1,
    job,
    pod,
    root,
    seen,
)


@pytest.mark.parametrize(("apart", "times"), [(3, 3), (6, 7)], ids=["near", "far apart"])
def test_three_restarts_within_ten_minutes_fail_the_training(apart: int, times: int) -> None:
    rows, observed = job(RUNNING), seen(*ALL_RUN)
    at = NOW
    for restarts in range(1, times + 1):
        assert rows.state is RUNNING
        at += timedelta(minutes=apart)
        crashed = pod(PS, restarts=restarts, last_end=ContainerExit(1, "Error"))
        made = plan(rows, replace(observed, pods=(pod(W0), pod(W1), crashed)), at)
        assert next(event.reason for event in made.events) == "restarted"
        rows, observed = after(made, rows, observed)
    if apart > 5:
        assert rows.state is RUNNING
        return
    assert (rows.state, rows.reason.code) == (WorkloadState.FAILED, "ps_crash_loop")
    assert "ps-0 ended with exit code 1" in rows.reason.text


def test_the_first_failure_is_the_cause() -> None:
    first = pod(W1, "Failed", end=ContainerExit(3, "Error"), finished_at=NOW - timedelta(seconds=5))
    second = pod(W0, "Failed", end=ContainerExit(4, "Error"), finished_at=NOW)
    made = plan(job(RUNNING), seen(second, first, pod(PS), at=root(verdict="failed")), NOW)
    assert made.columns["reason"].text == "worker-1 ended with exit code 3."


def test_how_a_pod_ended_is_known_even_when_it_went_between_two_looks() -> None:
    known = {W0: ReplicaRow(W0, pod="p", pod_uid="worker-0-uid", state=ReplicaState.RUNNING)}
    gone = pod(W0, "Failed", end=ContainerExit(143, "Error"), is_terminating=True)
    stopping = job(WorkloadState.STOPPING, desired="stop", notes=replace(GOING, stopping_at=NOW))
    observed = seen(at=root(is_suspended=True), replicas=known, deleted_pods=(gone,))
    row = next(r for r in plan(stopping, observed, NOW).replicas if r.key == W0)
    assert (row.state, row.exit_code) == (ReplicaState.STOPPED, 143)


def test_an_earlier_pod_does_not_come_back_when_its_successor_is_gone() -> None:
    known = {
        W0: ReplicaRow(
            W0, pod="p", pod_uid="second", state=ReplicaState.RUNNING, incarnation=2, started_at=NOW
        )
    }
    first = pod(W0, "Failed", finished_at=EARLIER)
    stopping = job(WorkloadState.STOPPING, desired="stop", notes=replace(GOING, stopping_at=NOW))
    row = plan(stopping, seen(first, replicas=known), NOW).replicas[0]
    assert (row.pod_uid, row.incarnation, row.state) == ("second", 2, ReplicaState.STOPPED)


def test_notes_survive_being_stored() -> None:
    notes = Notes(
        event_count=3,
        committed_at=NOW,
        restarts={"ps-0": ("x",)},
        lost=("a",),
        restart_reason=("c", "t", "n"),
        rescues={"worker-0/1": 2},
    )
    assert load(dump(notes)) == notes
    assert load({**dump(notes), "of a later version": 1}) == notes
    assert load({}) == Notes()
    assert dump(Notes()) == {}
