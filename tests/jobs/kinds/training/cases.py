"""The table of trainings: each state of one against each thing the cluster may show."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from jobs.kinds.notes import Notes
from jobs.kinds.plan import CreateAll, Delete, Erase, PatchRoot, Rescue, Sweep, Verify
from jobs.kinds.state import (
    ArchiveRow,
    AttemptRow,
    GateService,
    ObjectRef,
    Observed,
    PodFacts,
    ReplicaKey,
    ReplicaRow,
    Root,
    ServerDeployment,
    ServingJob,
    WorkloadRow,
)
from jobs.kinds.training.spec import RunPolicy
from jobs.rules import reasons
from jobs.rules.endings import ContainerExit, Disruption
from jobs.rules.states import ReplicaState, WorkloadState
from tests.jobs.kinds import NOW, Case

EARLIER = NOW - timedelta(minutes=2)
W0, W1, PS = ReplicaKey("worker", 0, 1), ReplicaKey("worker", 1, 1), ReplicaKey("ps", 0, 1)
POLICY = RunPolicy.__struct_fields__
GOING = Notes(children_of="root-uid", committed_at=EARLIER)


def job(
    state: WorkloadState = WorkloadState.STARTING, notes: Notes = GOING, **more: Any
) -> WorkloadRow:
    base = WorkloadRow(
        id="0",
        kind="job",
        namespace="u-alice",
        kube_name="mnist-abc123",
        root_name="mnist-abc123-worker",
        topology="tf-ps",
        image="tf:2",
        counts={"worker": 2, "ps": 1},
        memory={"worker": "2Gi", "ps": "1Gi"},
        state=state,
        admitted_at=EARLIER,
        has_plan=True,
        root_uid="root-uid",
        notes=notes,
        run_policy={name: more.pop(name) for name in POLICY if name in more},
    )
    return replace(base, **more)


FRESH = job(notes=Notes(), root_uid="")
QUEUED = job(WorkloadState.QUEUED, Notes(), has_plan=False, root_uid="", admitted_at=None)
ENDED = {"deciders_ended_at": EARLIER, "finished_at": EARLIER}


def root(**more: Any) -> Root:
    return Root("Job", "mnist-abc123-worker", "root-uid", **more)


def pod(key: ReplicaKey, phase: str = "Running", **more: Any) -> PodFacts:
    facts: dict[str, Any] = {
        "key": key,
        "phase": phase,
        "created_at": EARLIER,
        "node": "a",
        "is_running": phase == "Running",
        "started_at": EARLIER,
        **more,
    }
    if phase in {"Succeeded", "Failed"}:
        facts.setdefault("end", ContainerExit(0 if phase == "Succeeded" else 1, "Error"))
        facts.setdefault("finished_at", NOW)
    return PodFacts("Pod", f"{key.who}-pod", f"{key.who}-uid", **facts)


SERVER = ServerDeployment("Deployment", "mnist-abc123-ps-0", "ps-uid", role="ps")
SERVICE = GateService("Service", "mnist-abc123", "service-uid")
CONFIG = ObjectRef("ConfigMap", "mnist-abc123", "config-uid")
ALL_RUN = (pod(W0), pod(W1), pod(PS))
BOTH_DONE = (pod(W0, "Succeeded"), pod(W1, "Succeeded"), pod(PS))


def seen(*pods: PodFacts, at: Root | None = root(), **more: Any) -> Observed:  # noqa: B008
    facts: dict[str, Any] = {"servers": (SERVER,), "services": (SERVICE,), "others": (CONFIG,)}
    return Observed(root=at, pods=pods, **{**facts, **more})


NOTHING = Observed()


UNSUSPEND = PatchRoot("mnist-abc123-worker", "root-uid", {"suspend": False})
SUSPEND = PatchRoot("mnist-abc123-worker", "root-uid", {"suspend": True})
VERIFY = Verify("mnist-abc123-worker")
NO_ROOT = Delete("Job", "mnist-abc123-worker", "root-uid")
NO_SERVERS = (
    Delete("Deployment", "mnist-abc123-ps-0", "ps-uid"),
    Delete("Service", "mnist-abc123", "service-uid"),
)
MISSING = Notes(children_of="root-uid", committed_at=EARLIER, missing_since=EARLIER)
ARCHIVED = replace(GOING, archive="complete", pods_ended_at=EARLIER)
STARTING, RUNNING, STOPPING = WorkloadState.STARTING, WorkloadState.RUNNING, WorkloadState.STOPPING
RESTARTING, SUSPENDED = WorkloadState.RESTARTING, WorkloadState.SUSPENDED
SUCCEEDED, FAILED, STOPPED = WorkloadState.SUCCEEDED, WorkloadState.FAILED, WorkloadState.STOPPED

HELD = root(is_suspended=True)
COMPLETE, BROKEN = root(verdict="complete"), root(verdict="failed")
ABSENT = replace(NOTHING, is_root_absent=True)
BARE: dict[str, Any] = {"servers": (), "services": ()}
LEFT: dict[str, Any] = {"at": None, "is_root_absent": True, "others": (), **BARE}
LATE = replace(GOING, starting_since=NOW - timedelta(seconds=300))
JUST = {"deciders_ended_at": NOW, "finished_at": NOW}
STOPS = job(STOPPING, desired="stop", notes=replace(GOING, stopping_at=NOW))
CHIEF, EVALUATOR = ReplicaKey("chief", 0, 1), ReplicaKey("evaluator", 0, 1)
WORKS: dict[str, Any] = {"serving_jobs": (ServingJob("Job", "w", "w-uid", role="worker"),)}
GONE = pod(EVALUATOR, "Pending", node="", started_at=None, unplaced_why="full")
POLICY_FAILED = root(verdict="failed", fail_reason="PodFailurePolicy")
UNCONFIRMED = replace(GOING, stopping_at=NOW - timedelta(seconds=200))
OVER = job(SUCCEEDED, notes=ARCHIVED, ttl_s=60, **ENDED)
SWEPT = replace(GOING, swept=True)
ONE_FAILED = (pod(W0), pod(W1, "Failed"), pod(PS))
UNPLACED = pod(W1, "Pending", node="", started_at=None, unplaced_why="full")
NO_IMAGE = pod(W0, "Pending", started_at=None, waiting_reason="InvalidImageName")
TAKEN = pod(W1, "Failed", disruption=Disruption("DeletionByTaintManager"))
LOST = pod(W0, "Failed", disruption=Disruption("DeletionByTaintManager"))
EVICTED = pod(W1, disruption=Disruption("EvictionByEvictionAPI"), is_terminating=True)
OFTEN = replace(GOING, free_attempts=10)
STEADY = AttemptRow(1, "disrupted", EARLIER, NOW - timedelta(minutes=10))
DOWN = replace(
    GOING,
    teardown="retry",
    teardown_at=EARLIER,
    teardown_reason=("retrying", "worker-0 ended with exit code 1. It is retried (1 of 1).", ""),
    swept=True,
    short_attempts=1,
)
OLD = {"retries_itself": True}
LATER_FAILED = pod(
    W0, "Failed", end=ContainerExit(137, "OOMKilled"), finished_at=NOW + timedelta(hours=1)
)
BY_CODE = {"restart_policy": "exit_code"}
SPARSE: dict[str, Any] = {"sparse_spec": True}
KILLED = pod(PS, restarts=3, last_end=ContainerExit(137, "Error", "the node was restarted"))
RESTARTED = pod(PS, is_running=False, restarts=1, last_end=ContainerExit(1, "Error"))
BACK = replace(pod(PS, address="10.0.0.9"), uid="other")
NAME_TAKEN = reasons.make("name_taken", detail="x")
REFUSED = reasons.make("quota_refused", detail="exceeded quota")
NO_CAUSE = root(verdict="failed", fail_reason="MaxFailedIndexesExceeded")
PAST_DEADLINE = root(verdict="failed", fail_reason="DeadlineExceeded")

ASIDE = job(SUSPENDED, replace(GOING, archive="complete"), has_plan=False, root_uid="")
LEAVES = replace(
    GOING,
    stopping_at=EARLIER,
    teardown="suspend",
    teardown_at=EARLIER,
    teardown_reason=("suspended", "Suspended on request.", ""),
    archive="complete",
    swept=True,
)


def single(notes: Notes = GOING, **more: Any) -> WorkloadRow:
    """One that runs, and of which one replica is all."""
    return job(RUNNING, notes, topology="single", counts={"worker": 1}, **more)


def chief(notes: Notes = GOING, **more: Any) -> WorkloadRow:
    """One whose chief decides, with a worker and an evaluator that serve it."""
    counts = {"chief": 1, "worker": 1, "ps": 1, "evaluator": 1}
    memory = dict.fromkeys(counts, "1Gi")
    return job(RUNNING, notes, counts=counts, memory=memory, **more)


def elastic(notes: Notes = GOING, **more: Any) -> WorkloadRow:
    """One whose two workers may become one."""
    shape = {"topology": "torch-ddp", "counts": {"worker": 2}, "least": {"worker": 1}}
    return job(RUNNING, notes, **{**shape, **more})


def deleted(notes: Notes = GOING, **more: Any) -> WorkloadRow:
    """One that ran, and is to be deleted."""
    return job(RUNNING, desired="delete", notes=replace(notes, **more))


def held(row: WorkloadRow, **more: Any) -> WorkloadRow:
    """The same, which somebody wants to be suspended."""
    return replace(row, desired="suspend", **more)


def ended(state: WorkloadState, notes: Notes = GOING, **more: Any) -> WorkloadRow:
    """One that has ended a while ago."""
    return job(state, notes=notes, **ENDED, **more)


def ran(pod_uid: str, state: WorkloadState) -> dict[ReplicaKey, ReplicaRow]:
    """What is stored of worker 0, which ran in this pod."""
    row = ReplicaRow(W0, pod="p", pod_uid=pod_uid, state=ReplicaState(state), started_at=EARLIER)
    return {W0: row}


def met(*ips: str) -> dict[ReplicaKey, ReplicaRow]:
    """What is stored of replicas at these addresses."""
    rows = zip((W0, W1, PS), ips, strict=True)
    return {key: ReplicaRow(key, pod_uid=f"{key.who}-uid", address=ip) for key, ip in rows}


def told(pod_uid: str) -> dict[ReplicaKey, ArchiveRow]:
    """What its runner told from this pod."""
    return {W0: ArchiveRow(W0, is_complete=True, pod_uid=pod_uid, exit_code=0)}


# A table: each case is to be read at a glance.
# fmt: off
CASES = [
    # --- queued ---
    Case("queued waits for admission", QUEUED, NOTHING),
    Case("queued, stopped", replace(QUEUED, desired="stop"), NOTHING, (), STOPPED, "stopped",
         {"cleaned": True, "settled": True}),
    Case("queued, deleted", replace(QUEUED, desired="delete"), NOTHING, (Erase(),)),
    Case("queued, tenant suspended: waits", replace(QUEUED, tenant_closed="suspended"), NOTHING),
    Case("queued, tenant deleted", replace(QUEUED, tenant_closed="deleting"), NOTHING, (), STOPPED,
         "tenant_deleting"),
    # --- suspended ---
    Case("queued, suspended: on hold", held(QUEUED), NOTHING, (), SUSPENDED, "suspended"),
    Case("suspended: stays, also with its tenant", held(ASIDE, tenant_closed="suspended"), NOTHING),
    Case("suspended, tenant deleted", held(ASIDE, tenant_closed="deleting"), NOTHING, (), STOPPED,
         "tenant_deleting", {"cleaned": True, "settled": True}),
    Case("suspended, stopped", replace(ASIDE, desired="stop"), NOTHING, (), STOPPED, "stopped",
         {"cleaned": True, "settled": True}),
    Case("suspended, deleted", replace(ASIDE, desired="delete"), NOTHING, (Erase(),)),
    Case("resumed: queued anew", ASIDE, NOTHING, (), WorkloadState.QUEUED, ""),
    Case("suspended before it was set going: taken down",
         held(job(notes=Notes(children_of="root-uid"))), seen(at=HELD), (), STOPPING, "suspended",
         {"teardown": "suspend"}),
    Case("suspending what runs, also while its tenant is suspended: the root is suspended",
         held(job(RUNNING), tenant_closed="suspended"), seen(*ALL_RUN), (SUSPEND,), STOPPING,
         "suspended"),
    Case("suspending, all has ended: its log comes first", held(STOPS),
         seen(at=HELD, replicas=ran("u", RUNNING), **BARE), (), STOPPING, "suspended",
         {"teardown": "suspend"}),
    Case("suspending, its log is kept: its objects go", held(STOPS, notes=LEAVES),
         seen(at=HELD, **BARE), (NO_ROOT,), STOPPING, more={"teardown": "suspend"}),
    Case("suspending, nothing is left", held(STOPS, notes=LEAVES), ABSENT, (), SUSPENDED,
         more={"root_uid": ""}),
    Case("suspending, then stopped", replace(STOPS, notes=LEAVES), ABSENT, (), STOPPED, "stopped",
         {"root_uid": "", "cleaned": True, "settled": True}),
    Case("suspended when all has just succeeded", held(job(RUNNING)), seen(*BOTH_DONE, at=COMPLETE),
         (), SUCCEEDED, ""),
    Case("suspended between two attempts", held(job(RESTARTING, DOWN)), ABSENT, (), SUSPENDED,
         "suspended", {"root_uid": ""}),
    # --- starting: absent, partial, foreign, newer, terminating ---
    Case("nothing is there: all is made", FRESH, NOTHING, (CreateAll(),), None, "creating"),
    Case("the root alone is there: the rest is made", FRESH, seen(at=HELD), (CreateAll(),)),
    Case("made but not recorded: made again", job(notes=Notes()), seen(at=HELD), (CreateAll(),)),
    Case("all is made: set going", job(), seen(at=HELD), (UNSUSPEND,)),
    Case("made by the last steps: recorded and set going", FRESH,
         replace(seen(at=HELD), made_root="root-uid"), (UNSUSPEND,), more={"root_uid": "root-uid"}),
    Case("set going by us, not in the view yet: waits", job(), NOTHING),
    Case("not in the view for long: read afresh", job(notes=MISSING), NOTHING, (VERIFY,)),
    Case("a fresh read says it is gone: failed with words", job(notes=MISSING), ABSENT, (), FAILED,
         "root_deleted"),
    Case("the namespace is gone", job(notes=MISSING), replace(ABSENT, namespace="gone"), (), FAILED,
         "namespace_gone"),
    Case("another root of the same name", job(), seen(at=replace(root(), uid="newer")), NO_SERVERS,
         FAILED, "root_deleted"),
    Case("the root is being deleted: waits", job(), seen(at=root(is_terminating=True))),
    Case("somebody else's object has the name: fails, and nothing half made is left", FRESH,
         replace(NOTHING, blocked=NAME_TAKEN), (VERIFY,), FAILED, "name_taken"),
    Case("the cluster says not now: tried again, with words", FRESH,
         replace(NOTHING, trouble=REFUSED), (CreateAll(),), None, "quota_refused"),
    Case("the namespace goes, and our rights in it: that is why", FRESH,
         replace(NOTHING, trouble=REFUSED, namespace="terminating"), (CreateAll(),), None,
         "namespace_going"),
    # --- replicas ---
    Case("all run", job(), seen(*ALL_RUN), (), RUNNING, ""),
    Case("one has no node yet", job(), seen(pod(W0), pod(PS)), (), STARTING),
    Case("one is not placed", job(), seen(pod(W0), pod(PS), UNPLACED), (), STARTING, "placing"),
    Case("not placed for too long: everything is given back", job(notes=LATE),
         seen(pod(W0), pod(PS)), (NO_ROOT,), STARTING, "not_placed", {"teardown": "queue"}),
    Case("the same while the watches are broken: waits", job(notes=LATE),
         seen(pod(W0), pod(PS), is_current=False), (), STARTING),
    Case("an image that is none", job(), seen(pod(PS), NO_IMAGE), (SUSPEND,), FAILED, "image_name"),
    Case("both workers have succeeded", job(RUNNING), seen(*BOTH_DONE), (), SUCCEEDED, ""),
    Case("the cluster says complete before the pods show it", job(RUNNING),
         seen(*ALL_RUN, at=COMPLETE), (), SUCCEEDED),
    Case("worker 0 decides", job(RUNNING, success_policy="worker0"),
         seen(pod(W0, "Succeeded"), pod(W1), pod(PS)), (), SUCCEEDED),
    Case("a worker has failed, and the cluster says so", job(RUNNING), seen(*ONE_FAILED, at=BROKEN),
         (), FAILED, "exit_code"),
    Case("a worker has failed, no verdict yet: waits", job(RUNNING), seen(*ONE_FAILED), (),
         RUNNING),
    Case("the verdict is there, its cause is not yet: waits", job(RUNNING),
         seen(*ALL_RUN, at=NO_CAUSE), (), RUNNING),
    Case("a failure with retries left: another attempt", job(RUNNING, retries=1),
         seen(*ONE_FAILED, at=BROKEN), (NO_ROOT,), RESTARTING, "retrying", {"teardown": "retry"}),
    Case("a single one with retries left: another attempt, too", single(retries=1),
         seen(pod(W0, "Failed"), at=BROKEN), (NO_ROOT,), RESTARTING, "retrying",
         {"teardown": "retry"}),
    Case("the deadline, with retries left: no other attempt",
         job(RUNNING, retries=1, deadline_s=3600), seen(*ALL_RUN, at=PAST_DEADLINE), (), FAILED,
         "deadline"),
    Case("the cluster took a worker away", job(RUNNING), seen(pod(W0), TAKEN, pod(PS)), (),
         STARTING, "node_lost"),
    Case("the cluster took a single one away, no verdict yet: waits", single(),
         seen(LOST), (), RUNNING),
    Case("the cluster took a single one away: another attempt for nothing", single(),
         seen(LOST, at=BROKEN), (NO_ROOT,), RESTARTING, "node_lost", {"teardown": "retry"}),
    Case("the cluster took it away, and nobody saw its pod go: for nothing, after a while",
         single(replace(GOING, verdict_at=EARLIER)), seen(at=POLICY_FAILED), (NO_ROOT,), RESTARTING,
         "cluster_restarted", {"teardown": "retry"}),
    Case("the cluster takes a worker that is replaced away, and its peer fails: a failure",
         job(RUNNING), seen(pod(W0, "Failed"), EVICTED, pod(PS), at=BROKEN), (), FAILED, "exit_code"),
    Case("the same where it is not replaced: another attempt for nothing",
         job(RUNNING, topology="torch-ddp", counts={"worker": 2}),
         seen(pod(W0, "Failed"), EVICTED, at=BROKEN), (NO_ROOT,), RESTARTING, "drained",
         {"teardown": "retry"}),
    Case("an evaluator that the cluster takes away holds nobody up",
         chief(replace(GOING, starting_since=None)),
         seen(pod(CHIEF), pod(W0), pod(PS), GONE, attempt=STEADY, **WORKS), (), RUNNING, ""),
    Case("a chief that has ended leaves its workers the time that they have",
         chief(success_policy="all", deadline_s=60), seen(pod(W0), pod(PS), at=COMPLETE, **WORKS),
         None, FAILED, "deadline"),
    Case("the eleventh time in a row costs a retry", single(OFTEN, retries=1),
         seen(LOST, at=BROKEN), (NO_ROOT,), RESTARTING, "retrying", {"teardown": "retry"}),
    Case("the eleventh time in a row without a retry: failed", single(OFTEN),
         seen(LOST, at=BROKEN), NO_SERVERS, FAILED, "disrupted_often"),
    Case("the eleventh time, after it ran for long: for nothing", single(OFTEN),
         seen(LOST, at=BROKEN, attempt=STEADY), (NO_ROOT,), RESTARTING, "node_lost",
         {"teardown": "retry"}),
    Case("by exit code: 1 ends it, whatever retries are left", single(retries=2, **BY_CODE),
         seen(pod(W0, "Failed"), at=BROKEN), NO_SERVERS, FAILED, "exit_code"),
    Case("by exit code: 137 is retried", single(retries=2, **BY_CODE),
         seen(pod(W0, "Failed", end=ContainerExit(137, "Error")), at=BROKEN), (NO_ROOT,),
         RESTARTING, "retrying", {"teardown": "retry"}),
    Case("by exit code: what may still have ended just before is waited for",
         job(RUNNING, retries=1, **BY_CODE), seen(*ONE_FAILED, at=BROKEN), (), RUNNING),
    Case("by exit code: of two that ended together the one that is retried decides",
         job(RUNNING, retries=1, **BY_CODE),
         seen(pod(W0, "Failed", end=ContainerExit(143, "Error")), *ONE_FAILED[1:], at=BROKEN),
         (NO_ROOT,), RESTARTING, "retrying", {"teardown": "retry"}),
    Case("by exit code: nothing else has ended by then",
         job(RUNNING, replace(GOING, verdict_at=NOW - timedelta(seconds=2)), retries=1, **BY_CODE),
         seen(*ONE_FAILED, at=BROKEN), (), FAILED, "exit_code"),
    Case("never, and the cluster took it away: another attempt for nothing",
         single(restart_policy="never"), seen(LOST, at=BROKEN), (NO_ROOT,), RESTARTING, "node_lost",
         {"teardown": "retry"}),
    Case("by address: a server is back at another one: another attempt for nothing",
         job(RUNNING, addresses="ip", restart_policy="never"),
         seen(*ALL_RUN[:2], BACK, replicas=met("10.0.0.1", "10.0.0.2", "10.0.0.3")), (NO_ROOT,), RESTARTING,
         "address_changed", {"teardown": "retry"}),
    Case("by address: nobody has been told the one before, as another was lacking: goes on",
         job(addresses="ip"), seen(*ALL_RUN[:2], BACK, replicas=met("10.0.0.1", "", "10.0.0.3")), (),
         RUNNING),
    Case("by name: where a server is back does not matter", job(RUNNING),
         seen(*ALL_RUN[:2], BACK, replicas=met("10.0.0.1", "10.0.0.2", "10.0.0.3"))),
    Case("elastic: a worker is taken away, the other goes on", elastic(),
         seen(pod(W0), TAKEN, attempt=STEADY), (), RUNNING),
    Case("elastic: a worker has failed for good, the other goes on", elastic(),
         seen(pod(W0), pod(W1, "Failed"), at=root(failed=frozenset({1})), attempt=STEADY), (), RUNNING),
    Case("elastic: enough have succeeded, whatever the Job says", elastic(),
         seen(pod(W0, "Succeeded"), pod(W1, "Failed"),
              at=root(verdict="failed", completed=frozenset({0}), failed=frozenset({1}))), None, SUCCEEDED),
    Case("elastic: one has succeeded, the other will yet: goes on", elastic(),
         seen(pod(W0, "Succeeded"), pod(W1), at=root(completed=frozenset({0}))), (), RUNNING),
    Case("elastic: the first has failed for good, by which the others meet: another attempt",
         elastic(retries=1), seen(pod(W0, "Failed"), pod(W1), at=root(failed=frozenset({0}))), (NO_ROOT,),
         RESTARTING, "retrying", {"teardown": "retry"}),
    Case("elastic: too few are left: failed", elastic(counts={"worker": 2}, least={"worker": 2}),
         seen(pod(W0), pod(W1, "Failed"), at=root(verdict="failed", failed=frozenset({1}))), None, FAILED,
         "exit_code"),
    Case("sparse: worker 0 is taken away and has no room for long, the others go on",
         job(RUNNING, LATE, **SPARSE), seen(LOST, pod(W1), pod(PS), attempt=STEADY), (), RUNNING),
    Case("sparse: no worker has room for long: back to the queue", job(RUNNING, LATE, **SPARSE),
         seen(replace(UNPLACED, key=W0), UNPLACED, pod(PS), attempt=STEADY), (NO_ROOT,), STARTING,
         "not_placed", {"teardown": "queue"}),
    Case("sparse: others run on after worker 0 has succeeded: none of them waits for it",
         job(RUNNING, replace(GOING, worker0_ended_at=EARLIER), **SPARSE),
         seen(pod(W0, "Succeeded"), pod(W1), pod(PS), attempt=STEADY), (), RUNNING, ""),
    Case("sparse, worker 0 decides: the others' failures are not the training's",
         job(RUNNING, success_policy="worker0", **SPARSE),
         seen(LATER_FAILED, pod(W1, "Failed"), pod(PS), at=root(failed=frozenset({0, 1}))), None,
         FAILED, "out_of_memory"),
    # --- restarting ---
    Case("all is down, the back-off is not over: waits",
         job(RESTARTING, replace(DOWN, teardown_at=NOW)), ABSENT, (), RESTARTING, "retrying",
         {"teardown": "retry"}),
    Case("all is down, the second one in a row waits for longer",
         job(RESTARTING, replace(DOWN, short_attempts=5)), ABSENT, more={"teardown": "retry"}),
    Case("the back-off is over: the next attempt", job(RESTARTING, DOWN), ABSENT, (), STARTING,
         "retrying", {"root_uid": ""}),
    Case("stopped during the back-off", job(RESTARTING, DOWN, desired="stop"), ABSENT, (), STOPPED,
         "stopped"),
    Case("the tenant is suspended during the back-off",
         job(RESTARTING, DOWN, tenant_closed="suspended"), ABSENT, (), STOPPED, "tenant_suspended"),
    Case("deleted during the back-off", job(RESTARTING, DOWN, desired="delete"), ABSENT, (Erase(),),
         more={"teardown": "retry"}),
    Case("the deadline comes during the back-off",
         job(RESTARTING, replace(DOWN, teardown_at=NOW), deadline_s=90), ABSENT, (), FAILED,
         "deadline"),
    # --- admitted by an earlier version, whose Job tries a single one again by itself ---
    Case("a Job that retries does so", single(retries=2), seen(pod(W0, "Failed"), at=root(**OLD)),
         (), STARTING, "retrying"),
    Case("a Job that replaces what was lost does so", single(), seen(LOST, at=root(**OLD)), (),
         STARTING, "node_lost"),
    Case("a Job that has used up its retries: no other attempt", single(retries=2),
         seen(pod(W0, "Failed"), at=root(verdict="failed", failed_count=3, **OLD)), NO_SERVERS, FAILED,
         "exit_code"),
    # --- servers ---
    Case("a parameter server's program starts again: still running", job(RUNNING),
         seen(pod(W0), pod(W1), RESTARTED), (), RUNNING, more={"restarts": 1}),
    Case("the node of a parameter server went down: no restart of it", job(RUNNING),
         seen(pod(W0), pod(W1), KILLED), (), RUNNING),
    Case("an exit code that only the runner told is used",
         job(RUNNING, MISSING, topology="single", counts={"worker": 1}),
         replace(ABSENT, replicas=ran("u", WorkloadState.RUNNING), archives=told("u")), (),
         SUCCEEDED),
    # --- stopping ---
    Case("stop of what runs: the root is suspended", job(RUNNING, desired="stop"), seen(*ALL_RUN),
         (SUSPEND,), STOPPING, "stopped"),
    Case("stop before it was set going: taken down",
         job(desired="stop", notes=Notes(children_of="root-uid")), seen(at=HELD), (), STOPPING,
         more={"teardown": "stop"}),
    Case("stopping, pods still end: waits", STOPS, seen(*ALL_RUN, at=HELD), (), STOPPING),
    Case("stopping, only servers are left: they go", STOPS, seen(pod(PS), at=HELD), NO_SERVERS),
    Case("stopping, nothing runs", STOPS, seen(at=HELD, **BARE), (), STOPPED, "stopped"),
    Case("stopping, a node does not confirm: stopped with words", replace(STOPS, notes=UNCONFIRMED),
         seen(pod(W1, is_terminating=True), at=HELD, **BARE), (), STOPPED, "stop_unconfirmed"),
    Case("stopping, the servers are in their grace, after that of the workers",
         replace(STOPS, notes=UNCONFIRMED), seen(pod(PS, is_terminating=True), at=HELD, **BARE)),
    Case("stopping, servers do not confirm: stopped with words",
         replace(STOPS, notes=replace(UNCONFIRMED, stopping_at=NOW - timedelta(seconds=400))),
         seen(pod(PS, is_terminating=True), at=HELD, **BARE), (), STOPPED, "stop_unconfirmed"),
    Case("the tenant is suspended", job(RUNNING, tenant_closed="suspended"), seen(*ALL_RUN),
         (SUSPEND,), STOPPING, "tenant_suspended"),
    # --- after the outcome ---
    Case("succeeded a moment ago: the servers have their grace", job(SUCCEEDED, **JUST),
         seen(*BOTH_DONE, at=COMPLETE)),
    Case("succeeded, the grace is over", ended(SUCCEEDED), seen(*BOTH_DONE, at=COMPLETE),
         NO_SERVERS),
    Case("succeeded, the others are ended when worker 0 decides",
         ended(SUCCEEDED, success_policy="worker0"), seen(pod(W0, "Succeeded"), pod(W1), pod(PS)),
         (SUSPEND, *NO_SERVERS)),
    Case("failed by our decision: workers are ended at once", job(FAILED, **JUST), seen(*ALL_RUN),
         (SUSPEND,)),
    Case("failed, workers have ended: servers go at once", job(FAILED, **JUST),
         seen(pod(W0, "Failed"), pod(W1, "Failed"), pod(PS), at=BROKEN), NO_SERVERS),
    Case("all has ended without a mark: a rescue pod after a while",
         ended(FAILED, replace(GOING, pods_ended_at=EARLIER)),
         seen(pod(W0, "Failed"), at=BROKEN, **BARE), (Rescue(W0, "worker-0-uid", 1),)),
    Case("a mark of an earlier pod does not count for the last one",
         ended(FAILED, replace(GOING, pods_ended_at=EARLIER)),
         Observed(root=BROKEN, replicas=ran("second", WorkloadState.FAILED),
                  archives=told("first")), (Rescue(W0, "second", 1),)),
    Case("all has ended and is archived: kept until its time to live", ended(SUCCEEDED, ARCHIVED),
         seen(*BOTH_DONE[:2], at=COMPLETE, **BARE), more={"settled": True}),
    Case("the time to live is over", OVER, seen(*BOTH_DONE[:2], at=COMPLETE, **BARE), (NO_ROOT,)),
    Case("the root is gone from the view: made sure", OVER, NOTHING, (VERIFY,)),
    Case("orphans of a root that is gone are deleted one by one", OVER,
         seen(at=None, is_root_absent=True), NO_SERVERS),
    Case("nothing is left: swept", OVER, ABSENT, (Sweep(),)),
    Case("swept: clean", replace(OVER, notes=replace(ARCHIVED, swept=True)), ABSENT,
         more={"cleaned": True, "settled": True}),
    # --- delete ---
    Case("delete of what runs", deleted(), seen(*ALL_RUN), (NO_ROOT,)),
    Case("delete, the root is gone: its pods are the cluster's to remove",
         deleted(SWEPT, teardown_at=NOW), seen(pod(PS), **LEFT)),
    Case("delete, the root is gone for a while: a server's pod may be made once more",
         deleted(SWEPT, teardown_at=NOW - timedelta(seconds=30)), seen(pod(W0), pod(PS), **LEFT),
         (Delete("Pod", pod(W0).name, pod(W0).uid),)),
    Case("delete, the root is gone for long: what is left is deleted one by one",
         deleted(SWEPT, teardown_at=EARLIER), seen(pod(PS), **LEFT),
         (Delete("Pod", pod(PS).name, pod(PS).uid),)),
    Case("delete of what is clean: the store is erased",
         ended(SUCCEEDED, desired="delete", cleaned_at=EARLIER), NOTHING, (Erase(),)),
    Case("delete, objects are gone: the store is erased", deleted(SWEPT), ABSENT, (Erase(),)),
    Case("delete, all is erased: the row goes", deleted(SWEPT, purged=True), ABSENT,
         more={"deleted": True}),
]
# fmt: on
