"""What the replica rows of the current attempt become by what their pods show. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from jobs.kinds.state import ObjectRef, Observed, PodFacts, ReplicaKey, ReplicaRow, WorkloadRow
from jobs.kinds.training.spec import RunPolicy
from jobs.rules import endings, reasons, waits
from jobs.rules.endings import ContainerExit
from jobs.rules.reasons import Reason
from jobs.rules.states import FINAL_REPLICA_STATES, FINAL_STATES, ReplicaState, WorkloadState
from jobs.rules.topologies import Role, RoleKind, Topology, get_topology
from jobs.rules.waits import WaitingPod

KILLED = frozenset({137, 255})  # SIGKILL, and what a node reports of containers that it lost
_GOOD = frozenset({ReplicaState.RUNNING, ReplicaState.SUCCEEDED})


@dataclass(frozen=True)
class Situation:
    """All that a decision about a training goes by; `replicas` are its rows as they are by now."""

    row: WorkloadRow
    run_policy: RunPolicy
    observed: Observed
    now: datetime
    replicas: Mapping[ReplicaKey, ReplicaRow] = field(default_factory=dict)

    @property
    def topology(self) -> Topology:
        return get_topology(self.row.topology)

    @property
    def deciding(self) -> Role:
        """The role whose replicas are the root Job."""
        return self.topology.deciding(self.row.counts)

    def role_of(self, key: ReplicaKey) -> Role:
        """The role of a replica, as this training has it."""
        found = self.topology.role(key.role)
        return replace(found, replaced_when_lost=True) if key.role in self.row.least else found

    @property
    def least(self) -> int | None:
        """How many deciding replicas suffice where each is replaced alone; None: it is not."""
        role = self.deciding.name
        return self.row.counts[role] if self.run_policy.sparse_spec else self.row.least.get(role)

    @property
    def current(self) -> list[ReplicaRow]:
        """Rows of the current attempt."""
        return [row for row in self.replicas.values() if row.key.attempt == self.row.attempt]

    @property
    def expected(self) -> list[ReplicaKey]:
        """Keys of the current attempt's replicas: of an array those that have begun, and the first that do."""
        attempt = self.row.attempt
        if self.topology.is_array:
            role = self.deciding.name
            first = {ReplicaKey(role, n, attempt) for n in self.row.tasks[: self.row.at_once]}
            begun = {pod.key for pod in self.observed.pods if pod.key.attempt == attempt}
            return sorted(first | begun | {row.key for row in self.current})
        return [
            ReplicaKey(role, index, attempt)
            for role, count in self.row.counts.items()
            for index in range(count)
        ]

    @property
    def has_told_addresses(self) -> bool:
        """Whether programs may know where all replicas are; another address would be news to them."""
        if self.run_policy.addresses != "ip":
            return False
        stored = map(self.observed.replicas.get, self.meeting)
        return all(row is not None and row.address for row in stored)

    @property
    def meeting(self) -> list[ReplicaKey]:
        """Those that others talk to."""
        return [key for key in self.expected if not self.role_of(key).is_apart]

    @property
    def awaited(self) -> list[ReplicaKey]:
        """Those without which the attempt has not started.

        Once all of it has run nobody waits for what is apart, which may be lost and come back late,
        nor for as many replicas as may be missing.
        """
        attempt = self.observed.attempt
        if attempt is None or attempt.started_at is None:
            return self.expected
        spare = self.spare
        return [key for key in self.meeting if key not in spare]

    @property
    def spare(self) -> set[ReplicaKey]:
        """Replicas that do not run, as many as may be missing; never the first, by which they meet.

        With a sparse spec none meets by another: all but one may be.
        """
        found: set[ReplicaKey] = set()
        is_sparse = self.run_policy.sparse_spec
        for role, least in ({self.deciding.name: 1} if is_sparse else self.row.least).items():
            indexes = range(0 if is_sparse else 1, self.row.counts[role])
            others = [ReplicaKey(role, n, self.row.attempt) for n in indexes]
            idle = [key for key in others if self.replicas[key].state not in _GOOD]
            found.update(idle[: self.row.counts[role] - least])
        return found


def newest(pods: Iterable[PodFacts]) -> dict[ReplicaKey, PodFacts]:
    """The pod that stands for each replica: the youngest, as a replaced one may still be there."""
    found: dict[ReplicaKey, PodFacts] = {}
    for pod in pods:
        other = found.get(pod.key)
        if other is None or pod.age() > other.age():
            found[pod.key] = pod
    return found


def update(now: Situation) -> dict[ReplicaKey, ReplicaRow]:
    """The rows of all expected replicas as they are to be."""
    pods = newest(now.observed.pods)
    deleted_pods = newest(now.observed.deleted_pods)
    rows = {}
    for key in now.expected:
        row = now.replicas.get(key) or ReplicaRow(key)
        pod = pods.get(key)
        if pod is not None and not _is_past(row, pod):
            row = _from_pod(now, row, pod)
        elif row.pod_uid and row.state not in FINAL_REPLICA_STATES:
            row = _without_pod(now, row, deleted_pods.get(key))
        elif now.row.state in FINAL_STATES and row.state not in FINAL_REPLICA_STATES:
            row = replace(row, state=ReplicaState.STOPPED, reason_code="", reason_text="")
        rows[key] = row
    return rows


def _is_past(row: ReplicaRow, pod: PodFacts) -> bool:
    """Whether this is an earlier pod of the replica, whose successor has gone already.

    A replacement is made only after its predecessor has ended (podReplacementPolicy: Failed).
    """
    if not row.pod_uid or pod.uid == row.pod_uid or not pod.has_ended:
        return False
    if row.started_at is None or pod.finished_at is None:
        return True
    return pod.finished_at <= row.started_at


def _from_pod(now: Situation, row: ReplicaRow, pod: PodFacts) -> ReplicaRow:
    if row.pod_uid != pod.uid:
        incarnation = row.incarnation + (1 if row.pod_uid else 0)
        kept = _kept_address(now, row)
        row = ReplicaRow(row.key, incarnation, pod.name, pod.uid, address=kept)
    elif row.state in FINAL_REPLICA_STATES:
        # How a pod ended does not change any more; that it is then deleted says nothing new.
        return row
    reason = _reason(now, pod)
    state = _state(now, pod)
    is_over = state in FINAL_REPLICA_STATES
    address = pod.address if now.run_policy.addresses == "ip" else ""
    return _with(
        row,
        node=pod.node or row.node,
        gpus=pod.gpus or row.gpus,
        address=address or row.address,
        state=state,
        exit_code=pod.end.exit_code if pod.end is not None else None,
        reason_code=reason.code,
        reason_text=reason.text,
        restarts=pod.restarts + row.incarnation - 1,
        started_at=pod.started_at or row.started_at,
        finished_at=(pod.finished_at or now.now) if is_over else None,
    )


def _kept_address(now: Situation, row: ReplicaRow) -> str:
    """That of a pod that is gone: nobody is told it any more, unless all have been."""
    return row.address if now.has_told_addresses else ""


def _with(row: ReplicaRow, **values: Any) -> ReplicaRow:
    """The row with these values; itself when it has them, as most rows do at most looks."""
    is_same = all(getattr(row, name) == value for name, value in values.items())
    return row if is_same else replace(row, **values)


def _state(now: Situation, pod: PodFacts) -> ReplicaState:
    if pod.phase == "Succeeded":
        is_stop = now.row.state in {WorkloadState.STOPPING, WorkloadState.STOPPED}
        # A Deployment's program is only ever ended, but that of a Job may end by itself.
        if is_stop or (
            is_server(now.row, pod) and now.role_of(pod.key).kind is RoleKind.DEPLOYMENT
        ):
            return ReplicaState.STOPPED
        return ReplicaState.SUCCEEDED
    if pod.phase == "Failed":
        return ReplicaState.STOPPED if _was_stopped(now, pod) else ReplicaState.FAILED
    return pod.replica_state


def is_server(now: WorkloadRow, thing: ObjectRef) -> bool:
    """Whether it is the pod of a replica that serves the deciding ones until it is stopped."""
    serving = {role.name for role in get_topology(now.topology).serving(now.counts)}
    return isinstance(thing, PodFacts) and thing.key.role in serving


def _was_stopped(now: Situation, pod: PodFacts) -> bool:
    """Ended because we, or the cluster for another replica's sake, asked it to."""
    if pod.disruption is not None:
        return False
    is_ours = now.row.state is WorkloadState.STOPPING or now.row.state in FINAL_STATES
    # What serves may end when it loses those that it served; nobody talks to what is apart.
    is_left = is_ours and is_server(now.row, pod) and not now.role_of(pod.key).is_apart
    was_asked = pod.is_terminating or is_left
    return was_asked and (pod.end is None or not pod.end.is_fetch)


def _reason(now: Situation, pod: PodFacts) -> Reason:
    """Why this replica failed, or why it does not run yet."""
    who = pod.key.who
    if pod.has_ended or pod.is_terminating:
        return reason_of_failure(now, pod) if pod.phase == "Failed" else reasons.NONE
    if pod.is_running:
        return reasons.NONE
    if pod.waiting_reason == "CrashLoopBackOff" and pod.last_end is not None:
        return endings.reason_of_end(who, pod.last_end, now.row.memory[pod.key.role])
    image = now.row.images.get(pod.key.role, now.row.image)
    return waits.reason_of_wait(
        WaitingPod(
            who=who,
            image="of Homeport's helpers" if pod.waiting_in == "fetch" else image,
            node=pod.node,
            unplaced_why=pod.unplaced_why,
            fetch_runs=pod.fetch_runs,
            waiting_reason=pod.waiting_reason,
            waiting_message=pod.waiting_message,
            mount_problem=pod.mount_problem,
        )
    )


def reason_of_failure(now: Situation, pod: PodFacts) -> Reason:
    """Why a failed pod failed."""
    who = pod.key.who
    if _was_stopped(now, pod):
        return reasons.NONE
    if pod.disruption is not None:
        return endings.reason_of_disruption(who, pod.disruption)
    if pod.pod_reason == "Evicted":
        return endings.reason_of_eviction(who, pod.pod_message)
    if pod.end is not None:
        return endings.reason_of_end(who, pod.end, now.row.memory[pod.key.role])
    words = (pod.pod_reason, pod.pod_message)
    return endings.reason_of_refusal(who, ": ".join(word for word in words if word))


def _without_pod(now: Situation, row: ReplicaRow, last: PodFacts | None) -> ReplicaRow:
    """A replica whose pod is gone: its last status, else what its runner reported, else ours."""
    if last is not None and last.uid == row.pod_uid and last.has_ended:
        return _from_pod(now, row, last)
    if not now.observed.is_current:
        return row
    code = _reported_code(now, row) if row.exit_code is None else row.exit_code
    is_over = now.row.state is WorkloadState.STOPPING or now.row.state in FINAL_STATES
    if code is None and not is_over and not now.row.notes.teardown:
        # The cluster replaces it; until then it is one that waits.
        kept = _kept_address(now, row)
        return replace(
            row, state=ReplicaState.PENDING, address=kept, reason_code="", reason_text=""
        )
    state = ReplicaState.STOPPED
    reason = reasons.NONE
    if code is not None and not is_over:
        state = ReplicaState.SUCCEEDED if code == 0 else ReplicaState.FAILED
        reason = endings.reason_of_end(
            row.key.who, ContainerExit(code), now.row.memory[row.key.role]
        )
    return replace(
        row,
        state=state,
        exit_code=code,
        reason_code=reason.code,
        reason_text=reason.text,
        finished_at=row.finished_at or now.now,
    )


def _reported_code(now: Situation, row: ReplicaRow) -> int | None:
    """The exit code that the runner (or a rescue) reported for this very pod."""
    archive = now.observed.archives.get(row.key)
    if archive is None or archive.pod_uid not in {"", row.pod_uid}:
        return None
    return archive.exit_code


def new_restarts(now: Situation, pod: PodFacts) -> int:
    """How often a server's program ended by its own fault since the last look."""
    known = now.observed.replicas.get(pod.key)
    is_same = known is not None and known.pod_uid == pod.uid
    before = known.restarts - known.incarnation + 1 if known is not None and is_same else 0
    count = max(0, pod.restarts - before)
    end = pod.last_end
    if end is None:
        return count
    # Killed without a word, and not for its memory: the node went down, not the program.
    said_nothing = not end.termination.reason and end.termination.exit_code is None
    is_silent = end.exit_code in KILLED and end.cluster_reason != "OOMKilled" and said_nothing
    return 0 if is_silent else count


def all_placed(now: Situation) -> bool:
    """Whether every replica has been given a node."""
    return all(now.replicas[key].node for key in now.awaited)


def all_run(now: Situation) -> bool:
    """Whether every replica runs, has succeeded, or has failed for good while others go on.

    Those of an array do not wait for each other: one that has begun is enough.
    """
    if now.topology.is_array:
        return any(row.started_at is not None for row in now.current)
    given_up = {(job.role, index) for job in now.observed.serving_jobs for index in job.failed}
    return all(
        now.replicas[key].state in _GOOD or (key.role, key.index) in given_up for key in now.awaited
    )
