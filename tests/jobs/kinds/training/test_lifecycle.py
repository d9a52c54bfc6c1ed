"""The plan: its table, and details that a table does not hold."""

from dataclasses import replace
from datetime import timedelta

import pytest

from jobs.kinds.notes import Notes, dump, load
from jobs.kinds.state import (
    ArchiveRow,
    Observed,
    Plan,
    ReplicaRow,
    Rescue,
    WorkloadRow,
)
from jobs.rules.endings import ContainerExit
from jobs.rules.states import JobState, ReplicaState
from tests.jobs.kinds import plan
from tests.jobs.kinds.training.cases import (
    ALL_RUN,
    CASES,
    EARLIER,
    ENDED,
    GOING,
    MISSING,
    NOW,
    PS,
    RUNNING,
    W0,
    W1,
    Case,
    job,
    pod,
    root,
    seen,
)


@pytest.mark.parametrize("case", CASES, ids=[case.about for case in CASES])
def test_what_follows(case: Case) -> None:
    made = plan(case.job, case.seen, NOW)
    assert made.steps == tuple(case.steps)
    assert made.columns.get("state", case.job.state) == (case.state or case.job.state)
    if case.code is not None:
        assert made.columns.get("reason", case.job.reason).code == case.code
    notes = made.columns.get("notes", case.job.notes)
    assert notes.leaving == case.more.get("leaving", "")
    assert sum(len(times) for times in notes.restarts.values()) == case.more.get("restarts", 0)
    assert ("cleaned_at" in made.columns) >= case.more.get("cleaned", False)
    assert made.is_settled >= case.more.get("settled", False)
    assert made.delete_row == case.more.get("deleted", False)
    assert made.columns.get("root_uid", "root-uid") == "root-uid"


@pytest.mark.parametrize("case", CASES, ids=[case.about for case in CASES])
def test_a_plan_leads_to_rest(case: Case) -> None:
    """With nothing new to see, planning again soon changes no row: no loop writes for ever."""
    rows, observed = case.job, case.seen
    for _ in range(6):
        made = plan(rows, observed, NOW)
        if not made.writes or made.delete_row:
            return
        rows, observed = after(made, rows, observed)
    pytest.fail(f"still writes {made.columns}")


def after(made: Plan, rows: WorkloadRow, observed: Observed) -> tuple[WorkloadRow, Observed]:
    """The rows once the plan is committed."""
    known = {**observed.replicas, **{row.key: row for row in made.replicas}}
    known = {key: row for key, row in known.items() if key not in made.forgotten}
    return replace(rows, **made.columns), replace(observed, replicas=known, made_root="")


# --- details that a table does not hold ---
def test_three_restarts_within_ten_minutes_fail_the_training() -> None:
    rows, observed = job(RUNNING), seen(*ALL_RUN)
    at = NOW
    for restarts in range(1, 4):
        at += timedelta(minutes=3)
        crashed = pod(PS, restarts=restarts, last_end=ContainerExit(1, "Error"))
        made = plan(rows, replace(observed, pods=(pod(W0), pod(W1), crashed)), at)
        assert next(event.reason for event in made.events) == "restarted"
        rows, observed = after(made, rows, observed)
    assert (rows.state, rows.reason.code) == (JobState.FAILED, "ps_crash_loop")
    assert "ps-0 ended with exit code 1" in rows.reason.text


def test_restarts_far_apart_do_not() -> None:
    rows, observed = job(RUNNING), seen(*ALL_RUN)
    at = NOW
    for restarts in range(1, 8):
        at += timedelta(minutes=6)
        crashed = pod(PS, restarts=restarts, last_end=ContainerExit(1, "Error"))
        made = plan(rows, replace(observed, pods=(pod(W0), pod(W1), crashed)), at)
        rows, observed = after(made, rows, observed)
    assert rows.state is RUNNING


def test_a_node_that_went_down_is_no_restart_of_the_server() -> None:
    killed = pod(PS, restarts=3, last_end=ContainerExit(137, "Error", "the node was restarted"))
    made = plan(job(RUNNING), seen(pod(W0), pod(W1), killed), NOW)
    assert made.columns.get("state", RUNNING) is RUNNING
    assert not made.events or made.events[0].reason == "state"


def test_the_first_failure_is_the_cause() -> None:
    first = pod(W1, "Failed", end=ContainerExit(3, "Error"), finished_at=NOW - timedelta(seconds=5))
    second = pod(W0, "Failed", end=ContainerExit(4, "Error"), finished_at=NOW)
    made = plan(job(RUNNING), seen(second, first, pod(PS), at=root(verdict="failed")), NOW)
    assert made.columns["reason"].text == "worker-1 ended with exit code 3."


def test_how_a_pod_ended_is_known_even_when_it_went_between_two_looks() -> None:
    known = {W0: ReplicaRow(W0, pod="p", pod_uid="worker-0-uid", state=ReplicaState.RUNNING)}
    gone = pod(W0, "Failed", end=ContainerExit(143, "Error"), is_terminating=True)
    stopping = job(JobState.STOPPING, desired="stop", notes=replace(GOING, stopping_at=NOW))
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
    stopping = job(JobState.STOPPING, desired="stop", notes=replace(GOING, stopping_at=NOW))
    row = plan(stopping, seen(first, replicas=known), NOW).replicas[0]
    assert (row.pod_uid, row.incarnation, row.state) == ("second", 2, ReplicaState.STOPPED)


def test_an_exit_code_that_only_the_runner_told_is_used() -> None:
    known = {W0: ReplicaRow(W0, pod="p", pod_uid="u", state=ReplicaState.RUNNING)}
    told = {W0: ArchiveRow(W0, is_complete=True, pod_uid="u", exit_code=0)}
    single = job(RUNNING, notes=MISSING, topology="single", counts={"worker": 1})
    observed = Observed(is_root_absent=True, replicas=known, archives=told)
    made = plan(single, observed, NOW)
    assert made.columns["state"] is JobState.SUCCEEDED


def test_a_mark_of_an_earlier_pod_does_not_count_for_the_last_one() -> None:
    known = {
        W0: ReplicaRow(W0, pod="p", pod_uid="second", state=ReplicaState.FAILED, started_at=EARLIER)
    }
    told = {W0: ArchiveRow(W0, is_complete=True, pod_uid="first")}
    ended = job(JobState.FAILED, notes=replace(GOING, pods_ended_at=EARLIER), **ENDED)
    observed = Observed(root=root(verdict="failed"), replicas=known, archives=told)
    assert plan(ended, observed, NOW).steps == (Rescue(W0, "second", 1),)


def test_notes_survive_being_stored() -> None:
    notes = Notes(
        said=3,
        committed_at=NOW,
        restarts={"ps-0": ("x",)},
        lost=("a",),
        again=("c", "t", "n"),
        rescues={"worker-0/1": 2},
    )
    assert load(dump(notes)) == notes
    assert load({**dump(notes), "of a later version": 1}) == notes
    assert load({}) == Notes()
    assert dump(Notes()) == {}
