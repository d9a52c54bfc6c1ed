"""The table of what is served: each situation of one against each thing the cluster may show."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from jobs.kinds.notes import Notes
from jobs.kinds.plan import CreateAll, Delete, PatchRoot, Sweep, Verify
from jobs.kinds.state import (
    GateService,
    ObjectRef,
    Observed,
    PodFacts,
    ReplicaKey,
    ReplicaRow,
    Root,
    WorkloadRow,
)
from jobs.rules import reasons
from jobs.rules.endings import ContainerExit
from jobs.rules.states import ReplicaState, WorkloadState
from tests.jobs.kinds import NOW, Case

ROOT = Root("Deployment", "nb-abc", "root-1", replicas=1)
DOOR = GateService("Service", "nb-abc", "door-1", node_port=31000)
POD = PodFacts("Pod", "nb-abc-x", "pod-1", node="a", prepared_from=NOW, scheduled_at=NOW)
RUNS = replace(POD, is_running=True, started_at=NOW, pulled_at=NOW)
READY = replace(RUNS, is_ready=True, ready_at=NOW)
REPLICA = ReplicaKey("notebook", 0, 1)
KNOWN = ReplicaRow(REPLICA, pod=POD.name, pod_uid=POD.uid, node="a", state=ReplicaState.RUNNING)
UP = Observed(root=ROOT, services=(DOOR,), pods=(READY,), replicas={REPLICA: KNOWN})
ABSENT = Observed(is_root_absent=True)
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
        "state": WorkloadState.RUNNING,
        "admitted_at": ago(59),
        "has_plan": True,
        "root_uid": "root-1",
        "node_port": 31000,
        "notes": notes(),
    }
    known = plain | changes
    return WorkloadRow(**known | {"state": WorkloadState(known["state"])})


def notes(**changes: Any) -> Notes:
    known = {"children_of": "root-1", "committed_at": ago(50)}
    return Notes(**known | {"was_ready": True} | changes)


def starting(**known: Any) -> WorkloadRow:
    given = {"was_ready": False, "starting_since": ago(50), **known}
    return row(state=WorkloadState.STARTING, notes=notes(**given))


def shows(**changes: Any) -> Observed:
    """All is up, but its pod is so."""
    return replace(UP, pods=(replace(POD, **changes),))


def runs(**changes: Any) -> Observed:
    """All is up, but its pod, which runs, is so."""
    return replace(UP, pods=(replace(RUNS, **changes),))


def going(since_s: float) -> WorkloadRow:
    """One whose root has gone, stopped so many seconds ago."""
    left = notes(
        teardown="stop",
        teardown_at=ago(since_s),
        teardown_reason=("stopped", "Stopped.", ""),
        swept=True,
    )
    return row(state="stopping", desired="stop", notes=left)


DELETE_ROOT = (Delete("Deployment", "nb-abc", "root-1"),)
SCALE = (PatchRoot("nb-abc", "root-1", {"replicas": 1}),)
CREATE, VERIFY, SWEEP = (CreateAll(),), (Verify("nb-abc"),), (Sweep(),)
# One that has just been admitted, and one that is being stopped.
FRESH = row(state=WorkloadState.STARTING, root_uid="", node_port=None, notes=Notes())
LEAVING = notes(teardown="stop", teardown_reason=("stopped", "Stopped.", ""))
STOPPING = row(state="stopping", desired="stop", notes=LEAVING)
OLD = ObjectRef("Service", "nb-old", "door-0")
LEFT = replace(ABSENT, pods=(READY,))
NEW = row(observed_generation=0, state="queued", has_plan=False, root_uid="")
CLEAN = row(generation=2, state="queued", cleaned_at=ago(5), desired="run")
HALF = replace(ROOT, replicas=0)
MADE = Observed(root=HALF, services=(DOOR,), made_root="root-1")
CRASHED = notes(crashes=(ago(9).isoformat(), ago(5).isoformat()), pod_restarts=2)
FULL = replace(UP, root=replace(ROOT, refused="it is too much"), pods=())
PULLS = {"waiting_in": "app", "waiting_reason": "ErrImagePull", "waiting_message": "x"}
AWAY = {
    "waiting_in": "app",
    "waiting_reason": "CreateContainerError",
    "waiting_message": "stat /x: transport endpoint is not connected",
}
NO_PORT = {"waiting_in": "gate", "gate_end": ContainerExit(1, "Error", "no port")}
NO_PYTHON = ContainerExit(127, "StartError", "python3: not found")
REFUSED = Observed(blocked=reasons.make("refused", detail="no"))
LEFTOVER = Observed(trouble=reasons.make("leftover", detail="x"))
QUEUED, STARTS, RUNNING, STOPS, STOPPED, FAILED = map(
    WorkloadState, ("queued", "starting", "running", "stopping", "stopped", "failed")
)
STOP, FAIL, QUEUE = {"teardown": "stop"}, {"teardown": "fail"}, {"teardown": "queue"}
MADE_ROOT = {"root_uid": "root-1"}

# A table: each case is to be read at a glance.
# fmt: off
CASES = [
    Case("new", NEW, Observed(), (), QUEUED, ""),
    Case("admitted", FRESH, Observed(), CREATE, STARTS, "creating"),
    Case("refused for now", FRESH, LEFTOVER, CREATE, STARTS, "leftover"),
    Case("refused for ever", FRESH, REFUSED, VERIFY, STOPS, "refused", FAIL),
    Case("made", FRESH, MADE, SCALE, STARTS, "creating", MADE_ROOT),
    Case("half made", FRESH, Observed(root=HALF), CREATE, STARTS, "creating"),
    Case("pod waits", starting(), shows(node="", unplaced_why="0/1"), (), STARTS, "placing"),
    Case("pod is prepared", starting(), shows(), (), STARTS, "preparing"),
    Case("program starts", starting(), runs(), (), STARTS, "app_starting"),
    Case("program answers", starting(), UP, (), RUNNING, ""),
    Case("runs", row(), UP, (), RUNNING, ""),
    Case("slow to answer", row(), runs(), (), RUNNING, ""),
    Case("does not answer", row(notes=notes(silent_since=ago(31))),
         runs(probe_problem="Readiness probe failed: 503"), (), RUNNING, "not_answering"),
    Case("pod vanished", row(), replace(UP, pods=()), (), STARTS, "creating"),
    Case("pod replaced", row(), shows(uid="pod-2"), (), STARTS, "replaced"),
    Case("quota refuses its pod", starting(), FULL, (), STARTS, "quota_refused"),
    Case("stop is wanted", row(desired="stop"), UP, DELETE_ROOT, STOPS, "stopped", STOP),
    Case("owner is out", row(is_owner_active=False), UP, DELETE_ROOT, STOPS, "owner_disabled",
         STOP),
    Case("tenant is suspended", row(tenant_closed="suspended"), UP, DELETE_ROOT, STOPS,
         "tenant_suspended", STOP),
    Case("root goes", STOPPING, replace(UP, root=replace(ROOT, is_terminating=True)), (), STOPS,
         "stopped", STOP),
    Case("root is out of view", STOPPING, replace(UP, root=None), VERIFY, STOPS, "stopped", STOP),
    Case("root is gone", STOPPING, ABSENT, SWEEP, STOPS, "stopped", STOP),
    Case("all is gone", STOPPING, GONE, (), STOPPED, "stopped"),
    Case("things of an earlier start do not stay", going(11), replace(ABSENT, others=(OLD,)),
         (Delete("Service", "nb-old", "door-0"),), more=STOP),
    Case("a pod is left to the cluster", going(11), LEFT, more=STOP),
    Case("while its ReplicaSet may be there", going(89), LEFT, more=STOP),
    Case("and then deleted", going(90), LEFT, (Delete("Pod", POD.name, POD.uid),), more=STOP),
    Case("a node that is lost does not hold up a stop for ever", going(91),
         replace(ABSENT, pods=(replace(READY, is_terminating=True),)), (), STOPPED, "stopped"),
    Case("deleted while it is up", row(desired="delete"), UP, DELETE_ROOT),
    Case("deleted, and nothing is left", row(desired="delete"), GONE, more={"deleted": True}),
    Case("deleted when it was clean",
         row(desired="delete", state="stopped", cleaned_at=ago(9)), Observed(),
         more={"deleted": True}),
    Case("another start, old things", row(generation=2), UP, DELETE_ROOT, STOPS, "starting_again"),
    Case("another start, all clean", CLEAN, Observed(), (), QUEUED, "", {"root_uid": ""}),
    Case("root deleted by hand", row(), ABSENT, SWEEP, STOPS, "root_deleted", FAIL),
    Case("namespace is gone", row(), replace(ABSENT, namespace="gone"), (), FAILED,
         "namespace_gone"),
    Case("not placed in time", starting(starting_since=ago(301)),
         shows(node="", unplaced_why="none"), DELETE_ROOT, STARTS, "not_placed", QUEUE),
    Case("no answer in time", starting(running_since=ago(601)), runs(), DELETE_ROOT, STOPS,
         "never_ready", FAIL),
    Case("no image in time", starting(problem_since=ago(601)), shows(**PULLS), DELETE_ROOT, STOPS,
         "image_pull", FAIL),
    Case("its volume is away for long", starting(problem_since=ago(601)), shows(**AWAY), (), STARTS,
         "volume_server"),
    Case("a volume that it never had", starting(problem_since=ago(601)),
         shows(**AWAY, prepared_from=None), DELETE_ROOT, STOPS, "volume_server", FAIL),
    Case("gate does not start", starting(), shows(**NO_PORT), (), STARTS, "gate_failed"),
    Case("shut down from inside", row(), runs(restarts=1, last_end=ContainerExit(0, "Completed")),
         DELETE_ROOT, STOPS, "shut_down", STOP),
    Case("its time is over", row(admitted_at=ago(3601), ends_by=ago(-119)), runs(), DELETE_ROOT, STOPS,
         "max_duration", STOP),
    Case("its time is not over", row(admitted_at=ago(3601), ends_by=ago(-121)), UP, (), RUNNING, ""),
    Case("third crash", row(notes=CRASHED),
         runs(restarts=3, last_end=ContainerExit(1, "Error", "words")), DELETE_ROOT, STOPS,
         "app_crash_loop", FAIL),
    Case("no python in the image", starting(), shows(end=NO_PYTHON), DELETE_ROOT, STOPS,
         "app_missing", FAIL),
    Case("no program in the image", starting(), shows(end=ContainerExit(69, "Error")), DELETE_ROOT,
         STOPS, "app_missing", FAIL),
]
# fmt: on
