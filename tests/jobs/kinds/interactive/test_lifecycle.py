"""What follows from each situation of a service: a table of row x cluster -> calls, state, reason."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobs.kinds.notes import Notes
from jobs.kinds.state import (
    CreateAll,
    Delete,
    GateService,
    ObjectRef,
    Observed,
    PatchRoot,
    Plan,
    PodFacts,
    Root,
    Sweep,
    Verify,
    WorkloadRow,
)
from jobs.rules import reasons
from jobs.rules.endings import ContainerExit, Disruption
from jobs.rules.states import JobState
from tests.jobs.kinds import plan

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
ROOT = Root("Deployment", "nb-abc", "root-1", replicas=1)
DOOR = GateService("Service", "nb-abc", "door-1", node_port=31000)
POD = PodFacts("Pod", "nb-abc-x", "pod-1", node="a", prepared_from=NOW, scheduled_at=NOW)
RUNS = replace(POD, is_running=True, started_at=NOW, pulled_at=NOW)
READY = replace(RUNS, is_ready=True, ready_at=NOW)
UP = Observed(root=ROOT, services=(DOOR,), pods=(READY,))
GONE = Observed(is_root_absent=True, is_swept=True)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def row(**changes: Any) -> WorkloadRow:
    """One that runs, with changes."""
    plain: dict[str, Any] = {
        "id": "1",
        "namespace": "u-a",
        "kube_name": "nb-abc",
        "root_name": "nb-abc",
        "kind": "notebook",
        "image": "lab/jupyter:1",
        "memory": {"notebook": "2Gi"},
        "queued_at": ago(60),
        "observed_generation": 1,
        "state": JobState.RUNNING,
        "admitted_at": ago(59),
        "has_plan": True,
        "root_uid": "root-1",
        "node_port": 31000,
        "notes": notes(),
    }
    known = plain | changes
    return WorkloadRow(**known | {"state": JobState(known["state"])})


def notes(**changes: Any) -> Notes:
    known = {"children_of": "root-1", "committed_at": ago(50), "pod_uid": "pod-1"}
    return Notes(**known | {"was_ready": True} | changes)


def fresh(**changes: Any) -> WorkloadRow:
    """One that has just been admitted."""
    known = {"state": JobState.STARTING, "root_uid": "", "node_port": None, "notes": Notes()}
    return row(**known | changes)


def starting(**changes: Any) -> WorkloadRow:
    given = {"was_ready": False, "starting_since": ago(50), **changes.pop("known", {})}
    return row(state=JobState.STARTING, notes=notes(**given), **changes)


def decide(one: WorkloadRow, seen: Observed) -> Plan:
    return plan(one, seen, NOW)


def outcome(one: WorkloadRow, seen: Observed) -> tuple[tuple[Any, ...], str, str]:
    """Calls, state and code of the reason afterwards."""
    decided = decide(one, seen)
    columns = decided.columns
    state = str(columns.get("state", one.state))
    return decided.steps, state, columns.get("reason", one.reason).code


DELETE_ROOT = Delete("Deployment", "nb-abc", "root-1")

TABLE = {
    "new": (
        row(observed_generation=0, state="queued", has_plan=False, root_uid=""),
        Observed(),
        ((), "queued", ""),
    ),
    "admitted": (fresh(), Observed(), ((CreateAll(),), "starting", "creating")),
    "refused for now": (
        fresh(),
        Observed(trouble=reasons.make("leftover", detail="x")),
        ((CreateAll(),), "starting", "leftover"),
    ),
    "refused for ever": (
        fresh(),
        Observed(blocked=reasons.make("refused", detail="no")),
        ((Verify("nb-abc"),), "stopping", "refused"),
    ),
    "made": (
        fresh(),
        Observed(root=replace(ROOT, replicas=0), services=(DOOR,), made_root="root-1"),
        ((PatchRoot("nb-abc", "root-1", {"replicas": 1}),), "starting", "creating"),
    ),
    "half made": (
        fresh(),
        Observed(root=replace(ROOT, replicas=0)),
        ((CreateAll(),), "starting", "creating"),
    ),
    "pod waits": (
        starting(),
        replace(UP, pods=(replace(POD, node="", unplaced_why="0/1 nodes: none"),)),
        ((), "starting", "placing"),
    ),
    "pod is prepared": (starting(), replace(UP, pods=(POD,)), ((), "starting", "preparing")),
    "program starts": (starting(), replace(UP, pods=(RUNS,)), ((), "starting", "app_starting")),
    "program answers": (starting(), UP, ((), "running", "")),
    "runs": (row(), UP, ((), "running", "")),
    "slow to answer": (row(), replace(UP, pods=(RUNS,)), ((), "running", "")),
    "does not answer": (
        row(notes=notes(silent_since=ago(31))),
        replace(UP, pods=(replace(RUNS, probe_problem="Readiness probe failed: 503"),)),
        ((), "running", "not_answering"),
    ),
    "pod vanished": (row(), replace(UP, pods=()), ((), "starting", "creating")),
    "pod replaced": (
        row(),
        replace(UP, pods=(replace(POD, uid="pod-2"),)),
        ((), "starting", "replaced"),
    ),
    "quota refuses its pod": (
        starting(),
        replace(UP, root=replace(ROOT, refused="it is too much"), pods=()),
        ((), "starting", "quota_refused"),
    ),
    "stop is wanted": (row(desired="stop"), UP, ((DELETE_ROOT,), "stopping", "stopped")),
    "owner is out": (
        row(is_owner_active=False),
        UP,
        ((DELETE_ROOT,), "stopping", "owner_disabled"),
    ),
    "tenant is suspended": (
        row(tenant_closed="suspended"),
        UP,
        ((DELETE_ROOT,), "stopping", "tenant_suspended"),
    ),
    "root goes": (
        row(
            state="stopping",
            desired="stop",
            notes=notes(leaving="stop", leaving_why=("stopped", "Stopped.", "")),
        ),
        replace(UP, root=replace(ROOT, is_terminating=True)),
        ((), "stopping", "stopped"),
    ),
    "root is out of view": (
        row(
            state="stopping",
            desired="stop",
            notes=notes(leaving="stop", leaving_why=("stopped", "Stopped.", "")),
        ),
        replace(UP, root=None),
        ((Verify("nb-abc"),), "stopping", "stopped"),
    ),
    "root is gone": (
        row(
            state="stopping",
            desired="stop",
            notes=notes(leaving="stop", leaving_why=("stopped", "Stopped.", "")),
        ),
        Observed(is_root_absent=True),
        ((Sweep(),), "stopping", "stopped"),
    ),
    "all is gone": (
        row(
            state="stopping",
            desired="stop",
            notes=notes(leaving="stop", leaving_why=("stopped", "Stopped.", "")),
        ),
        GONE,
        ((), "stopped", "stopped"),
    ),
    "another start, old things there": (
        row(generation=2),
        UP,
        ((DELETE_ROOT,), "stopping", "starting_again"),
    ),
    "another start, all clean": (
        row(generation=2, state="queued", cleaned_at=ago(5), desired="run"),
        Observed(),
        ((), "queued", ""),
    ),
    "root deleted by hand": (
        row(),
        Observed(is_root_absent=True),
        ((Sweep(),), "stopping", "root_deleted"),
    ),
    "namespace is gone": (
        row(),
        Observed(namespace="gone", is_root_absent=True),
        ((), "failed", "namespace_gone"),
    ),
    "not placed in time": (
        starting(known={"starting_since": ago(301)}),
        replace(UP, pods=(replace(POD, node="", unplaced_why="none"),)),
        ((DELETE_ROOT,), "starting", "not_placed"),
    ),
    "no answer in time": (
        starting(known={"running_since": ago(601)}),
        replace(UP, pods=(RUNS,)),
        ((DELETE_ROOT,), "stopping", "never_ready"),
    ),
    "no image in time": (
        starting(known={"problem_since": ago(601)}),
        replace(
            UP,
            pods=(
                replace(POD, waiting_in="app", waiting_reason="ErrImagePull", waiting_message="x"),
            ),
        ),
        ((DELETE_ROOT,), "stopping", "image_pull"),
    ),
    "gate does not start": (
        starting(),
        replace(
            UP,
            pods=(replace(POD, waiting_in="gate", gate_end=ContainerExit(1, "Error", "no port")),),
        ),
        ((), "starting", "gate_failed"),
    ),
    "shut down from inside": (
        row(),
        replace(UP, pods=(replace(RUNS, restarts=1, last_end=ContainerExit(0, "Completed")),)),
        ((DELETE_ROOT,), "stopping", "shut_down"),
    ),
    "third crash": (
        row(notes=notes(crashes=(ago(9).isoformat(), ago(5).isoformat()), pod_restarts=2)),
        replace(UP, pods=(replace(RUNS, restarts=3, last_end=ContainerExit(1, "Error", "words")),)),
        ((DELETE_ROOT,), "stopping", "app_crash_loop"),
    ),
    "no python in the image": (
        starting(),
        replace(
            UP, pods=(replace(POD, end=ContainerExit(127, "StartError", "python3: not found")),)
        ),
        ((DELETE_ROOT,), "stopping", "app_missing"),
    ),
}


@pytest.mark.parametrize("about", TABLE)
def test_the_table(about: str) -> None:
    one, seen, expected = TABLE[about]
    assert outcome(one, seen) == expected


@pytest.mark.parametrize("about", TABLE)
def test_a_second_look_at_the_same_writes_nothing_more(about: str) -> None:
    one, seen, _ = TABLE[about]
    seen = replace(seen, made_root="", is_swept=False)
    for _ in range(4):
        one = replace(one, **decide(one, seen).columns)
    assert not decide(one, seen).writes


def test_what_it_looks_at_again_by_itself_is_bounded_in_time() -> None:
    decided = decide(starting(), replace(UP, pods=(RUNS,)))
    assert decided.next_due is not None
    assert NOW < decided.next_due <= NOW + timedelta(seconds=600)
    assert decide(row(), UP).next_due is None


def test_the_memory_limit_is_named_when_it_was_too_little() -> None:
    end = ContainerExit(137, "OOMKilled")
    decided = decide(row(), replace(UP, pods=(replace(RUNS, restarts=1, last_end=end),)))
    told = [event.message for event in decided.events]
    assert any("more than its 2Gi of memory" in text for text in told)
    assert decided.columns["restarts"] == 1


def test_a_pod_that_the_cluster_took_is_no_crash() -> None:
    lost = replace(RUNS, phase="Failed", disruption=Disruption("DeletionByPodGC"))
    seen = replace(UP, pods=(replace(POD, uid="pod-2"),), deleted_pods=(lost,))
    decided = decide(row(), seen)
    assert decided.columns["reason"].code == "node_lost"
    assert not decided.columns["notes"].crashes


def test_things_of_an_earlier_start_do_not_stay() -> None:
    old = ObjectRef("Service", "nb-old", "door-0")
    one = row(
        state="stopping",
        desired="stop",
        notes=notes(leaving="stop", leaving_at=ago(11), swept=True),
    )
    decided = decide(one, Observed(is_root_absent=True, others=(old,)))
    assert decided.steps == (Delete("Service", "nb-old", "door-0"),)


@pytest.mark.parametrize(("left_s", "is_deleted"), [(11, False), (89, False), (90, True)])
def test_a_pod_is_left_to_the_cluster_while_its_replica_set_may_be_there(
    left_s: int, is_deleted: bool
) -> None:
    one = row(
        state="stopping",
        desired="stop",
        notes=notes(leaving="stop", leaving_at=ago(left_s), swept=True),
    )
    decided = decide(one, Observed(is_root_absent=True, pods=(READY,)))
    assert decided.steps == ((Delete("Pod", READY.name, READY.uid),) if is_deleted else ())


def test_a_node_that_is_lost_does_not_hold_up_a_stop_for_ever() -> None:
    ghost = replace(READY, is_terminating=True)
    why = ("stopped", "Stopped on request.", "")
    one = row(
        state="stopping",
        desired="stop",
        notes=notes(leaving="stop", leaving_why=why, leaving_at=ago(91), swept=True),
    )
    decided = decide(one, Observed(is_root_absent=True, pods=(ghost,)))
    assert decided.columns["state"] == JobState.STOPPED


def test_a_delete_removes_the_row_only_when_nothing_is_left() -> None:
    assert not decide(row(desired="delete"), UP).delete_row
    assert decide(row(desired="delete"), GONE).delete_row
    assert decide(row(desired="delete", state="stopped", cleaned_at=ago(9)), Observed()).delete_row
