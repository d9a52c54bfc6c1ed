"""Reads whether a training has succeeded or failed, and why it waits. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass

from jobs.kinds import crashes
from jobs.kinds.state import PodFacts, ReplicaKey, ReplicaRow, Root, Serving
from jobs.kinds.training import replicas
from jobs.kinds.training.replicas import Situation
from jobs.rules import endings, patterns, reasons, restarts, waits
from jobs.rules.reasons import Reason
from jobs.rules.restarts import Cause, ReplicaEnd, RestartPolicy
from jobs.rules.states import ReplicaState, WorkloadState
from jobs.rules.topologies import SuccessPolicy, needed, success_policy


@dataclass(frozen=True)
class Outcome:
    """How a training ends.

    Attributes:
        is_success: the training is a success.
        reason: why it failed.
        may_retry: another attempt may do better (never after the deadline or a broken image).
        exit_code: of the replica that decided; None: none did, or its code is not known.
        lost: the replica that the cluster took away, and that it was it that ended the attempt; else empty.
        cause: of the attempt that follows such a loss.
    """

    is_success: bool
    reason: Reason = reasons.NONE
    may_retry: bool = False
    exit_code: int | None = None
    lost: str = ""
    cause: Cause = Cause.DISRUPTED


@dataclass(frozen=True)
class Restarts:
    """A server's program ended `count` times since the last look."""

    who: str
    count: int
    cause: Reason


def policy_of(now: Situation) -> SuccessPolicy:
    """When it counts as succeeded."""
    return success_policy(now.topology, now.run_policy.success_policy, now.row.counts)


def _deciding(now: Situation) -> list[ReplicaRow]:
    role = now.deciding.name
    return [row for row in now.current if row.key.role == role]


# --- success, failure ---
def find_success(now: Situation) -> Outcome | None:
    """Set when all that has to succeed has."""
    root, role, counts = now.observed.root, now.deciding.name, now.row.counts
    done = {
        (row.key.role, row.key.index) for row in now.current if row.state is ReplicaState.SUCCEEDED
    }
    if root is not None and root.uid == now.row.root_uid:
        is_complete = root.verdict == "complete"
        indexes = (now.row.tasks or range(counts[role])) if is_complete else root.completed
        done |= {(role, index) for index in indexes}
    done |= {(job.role, index) for job in now.observed.serving_jobs for index in job.completed}
    policy = policy_of(now)
    must = needed(now.topology, policy, counts)
    if now.row.tasks:
        must = frozenset((role, index) for index in now.row.tasks)
    if must <= done:
        return Outcome(is_success=True)
    if now.least is None or policy is not SuccessPolicy.ALL or len(done) < now.least:
        return None
    # Its Job is a failed one as soon as one index has failed, though enough have succeeded.
    is_over = len(done) + len(_failed_for_good(now)) >= counts[role]
    return Outcome(is_success=True) if is_over else None


def _failed_for_good(now: Situation) -> frozenset[int]:
    """Indexes of deciding replicas that are not tried again."""
    root = now.observed.root
    return frozenset() if root is None or root.uid != now.row.root_uid else root.failed


def is_failure(now: Situation) -> bool:
    """Whether the cluster has said so: of the root, or of replicas that serve it."""
    root = now.observed.root
    if root is None or root.uid != now.row.root_uid:
        return False
    if now.least is not None and 0 in root.failed:
        return True  # the others meet by it, or it must succeed
    return root.verdict == "failed" or bool(_find_lost(now))


def _find_lost(now: Situation) -> set[tuple[str, int]]:
    """Serving replicas that have failed for good and are missed: one that must succeed or that the
    others cannot do without, or all of a role; nobody misses what is apart.
    """
    must = needed(now.topology, policy_of(now), now.row.counts)
    lost: set[tuple[str, int]] = set()
    for job in now.observed.serving_jobs:
        failed = {(job.role, index) for index in job.failed}
        is_all = len(failed) >= now.row.counts[job.role]
        role = now.topology.role(job.role)
        is_missed = is_all or failed & must or not role.replaced_when_lost
        if is_missed and not role.is_apart:
            lost |= failed
    return lost


def _failing(now: Situation) -> list[ReplicaRow]:
    """Replicas whose failure is the training's."""
    lost, role = _find_lost(now), now.deciding.name
    if now.least is not None:
        failed = {(role, index) for index in _failed_for_good(now)}
        lost |= failed & needed(now.topology, policy_of(now), now.row.counts) or failed
    return [
        row
        for row in now.current
        if (row.key.role == role and now.least is None)
        or not now.role_of(row.key).replaced_when_lost
        or (row.key.role, row.key.index) in lost
    ]


def find_cause(now: Situation) -> ReplicaEnd | None:
    """How the replica ended that decides."""
    return restarts.decisive(restart_policy(now), _failures(now))


def restart_policy(now: Situation) -> RestartPolicy:
    """Which of its failures are retried."""
    return RestartPolicy(now.run_policy.restart_policy)


def may_change(now: Situation, cause: ReplicaEnd) -> bool:
    """Whether a replica that ended just after this one, and is not seen yet, may still outdo it."""
    policy = restart_policy(now)
    is_alone = now.row.counts[now.deciding.name] == 1
    is_final = restarts.is_retried(policy, cause.reason.code, cause.exit_code)
    return policy is RestartPolicy.EXIT_CODE and not is_alone and not is_final


def _failures(now: Situation) -> Iterator[ReplicaEnd]:
    """How each deciding replica failed, by its pod, or by what is stored of a pod that is gone."""
    pods = {pod.uid: pod for pod in (*now.observed.deleted_pods, *now.observed.pods)}
    for row in _failing(now):
        pod = pods.get(row.pod_uid)
        if pod is not None and pod.disruption is not None:
            if now.role_of(row.key).replaced_when_lost:
                continue  # it is made again, and ended nothing
            reason, at = endings.reason_of_disruption(row.key.who, pod.disruption), pod.finished_at
        elif row.state is not ReplicaState.FAILED:
            continue
        elif pod is None:
            reason, at = _of_row(now, row), row.finished_at
        else:
            reason, at = replicas.reason_of_failure(now, pod), pod.finished_at
        if reason.code:
            yield ReplicaEnd(row.key.who, reason, row.exit_code, at)


def _ended(row: ReplicaRow) -> float:
    return row.finished_at.timestamp() if row.finished_at else float("inf")


def _of_row(now: Situation, row: ReplicaRow) -> Reason:
    """A row keeps code and text; the next step is in the table, or goes by the exit code."""
    if not row.reason_code:
        return reasons.NONE
    if row.exit_code:
        memory = now.row.memory[row.key.role]
        again = endings.reason_of_end(row.key.who, endings.ContainerExit(row.exit_code), memory)
        if again.code == row.reason_code:
            return Reason(row.reason_code, row.reason_text, again.next_step)
    return Reason(row.reason_code, row.reason_text, reasons.ROWS[row.reason_code][1])


def unseen_loss(now: Situation) -> ReplicaEnd:
    """Of a Job that says that a replica was taken away, when no pod says so any more."""
    known = {pod.uid for pod in now.observed.pods}
    rows = sorted(_deciding(now), key=lambda row: (row.pod_uid in known, row.key))
    who = rows[0].key.who
    return ReplicaEnd(who, reasons.make("cluster_restarted", who=who))


def without_cause(now: Situation) -> Reason:
    """A failure that nothing explains."""
    rows = _failing(now)
    lost = [row for row in rows if row.state is ReplicaState.FAILED]
    if lost:
        return reasons.make("lost_outcome", who=lost[0].key.who)
    stopped = [row for row in rows if row.state is ReplicaState.STOPPED]
    if stopped:
        return reasons.make("pod_deleted", who=min(stopped, key=_ended).key.who)
    root = now.observed.root
    detail = (root.fail_message or root.fail_reason) if root is not None else ""
    return reasons.make("job_failed", detail=detail or "no reason was given.")


def find_moved(now: Situation) -> Outcome | None:
    """Set when a replica is not where the programs of the others were told that it is."""
    if not now.has_told_addresses:
        return None
    for key in now.meeting:
        if now.replicas[key].address != now.observed.replicas[key].address:
            why = reasons.make("address_changed", who=key.who)
            return Outcome(False, why, lost=key.who, cause=Cause.ADDRESS)
    return None


def failure_of_array(now: Situation, root: Root) -> ReplicaEnd:
    """How many have failed for good, and how one of them did."""
    failed = {ReplicaKey(now.deciding.name, index, now.row.attempt).who for index in root.failed}
    ends = [end for end in _failures(now) if end.who in failed]
    first = min(ends, key=ReplicaEnd.order, default=ReplicaEnd("", without_cause(now)))
    counts = {"count": len(failed), "most": len(now.row.tasks)}
    reason = reasons.make("tasks_failed", cause=first.reason.text, **counts)
    return ReplicaEnd(first.who, reason, first.exit_code)


# --- servers ---
def find_restarts(now: Situation) -> Iterator[Restarts]:
    """Of servers whose program ended since the last look."""
    serving = {role.name for role in now.topology.serving(now.row.counts)}
    for key, pod in replicas.newest(now.observed.pods).items():
        if key.role in serving and key.attempt == now.row.attempt:
            count = replicas.new_restarts(now, pod)
            if count:
                yield Restarts(key.who, count, _restart_cause(now, pod))


def find_replaced(now: Situation) -> Iterator[Restarts]:
    """Of replicas that their Job has started again, each by itself, since the last look."""
    roles = {job.role for job in now.observed.serving_jobs} | {now.deciding.name}
    for row in sorted(now.current, key=lambda r: r.key):
        before = now.observed.replicas.get(row.key)
        if row.key.role not in roles or before is None or before.pod_uid == row.pod_uid:
            continue
        pod = _ended_pod(now, row)
        if pod is not None and pod.disruption is None:
            yield Restarts(row.key.who, 1, replicas.reason_of_failure(now, pod))


def _restart_cause(now: Situation, pod: PodFacts) -> Reason:
    who = pod.key.who
    if pod.last_end is None or pod.last_end.exit_code == 0:
        return endings.reason_of_code(who, 0)
    return endings.reason_of_end(who, pod.last_end, now.row.memory[pod.key.role])


def find_crash_loop(now: Situation) -> Outcome | None:
    """Set when a server's program ended too often."""
    for who, times in sorted(now.row.notes.restarts.items()):
        if not crashes.is_loop(times, now.now):
            continue
        role, _, index = who.rpartition("-")
        key = ReplicaKey(role, int(index), now.row.attempt)
        pod = replicas.newest(now.observed.pods).get(key)
        cause = _restart_cause(now, pod).text if pod is not None else "its pod was deleted."
        count = len(crashes.recent(times, now.now)) + 1
        return Outcome(False, reasons.make("ps_crash_loop", who=who, count=count, cause=cause))
    return None


# --- a start ---
def waiting_reasons(now: Situation) -> list[Reason]:
    """Why each replica that does not run yet does not."""
    found = [
        Reason(row.reason_code, row.reason_text, _next_step(row.reason_code))
        for row in map(now.replicas.get, now.awaited)
        if row is not None
        and row.state in {ReplicaState.PENDING, ReplicaState.STARTING}
        and row.reason_code
    ]
    serving: tuple[Serving, ...] = (*now.observed.servers, *now.observed.serving_jobs)
    refused = [one.refused for one in serving if one.refused]
    refusal = now.observed.refusal or (refused[0] if refused else "")
    if refusal and any(not row.pod_uid for row in now.current):
        found.append(reasons.make(patterns.find_code("quota_refused", refusal), detail=refusal))
    return found


def _next_step(code: str) -> str:
    step = reasons.ROWS[code][1]
    return "" if "{" in step else step


def find_hopeless_start(now: Situation, *, is_late: bool) -> Outcome | None:
    """An image or set-up that no patience cures: what is held is given back."""
    for reason in waiting_reasons(now):
        family = patterns.family_of(reason.code)
        if family in waits.HOPELESS or (is_late and family in waits.FATAL_AFTER_DEADLINE):
            return Outcome(False, reason)
    return None


def find_new_starts(now: Situation, root: Root) -> Iterator[Reason]:
    """Why replicas start once more: the cluster took them, or a retry by the cluster."""
    for row in sorted(now.current, key=lambda r: r.key):
        pod = _ended_pod(now, row)
        if pod is None:
            if now.row.state is WorkloadState.RUNNING and _was_replaced(now, row):
                yield reasons.make("replaced", who=row.key.who)
        elif pod.disruption is not None:
            if root.retries_itself or now.role_of(row.key).replaced_when_lost:
                yield endings.reason_of_disruption(row.key.who, pod.disruption)
        elif root.retries_itself:
            number, most = max(1, root.failed_count), now.run_policy.retries
            if number <= most:
                cause = replicas.reason_of_failure(now, pod).text or f"{row.key.who} failed."
                yield reasons.make("retrying", cause=cause, number=number, most=most)


def _ended_pod(now: Situation, row: ReplicaRow) -> PodFacts | None:
    """The failed pod because of which a replica starts again; None when there is no such pod.

    That is the replica's pod itself, or, once it has been replaced, the one that was its pod at the
    last look.
    """
    before = now.observed.replicas.get(row.key)
    uid = row.pod_uid if row.state is ReplicaState.FAILED else before.pod_uid if before else ""
    if not uid or (uid == row.pod_uid and row.state is not ReplicaState.FAILED):
        return None
    known = (*now.observed.pods, *now.observed.deleted_pods)
    return next((pod for pod in known if pod.uid == uid and pod.phase == "Failed"), None)


def _was_replaced(now: Situation, row: ReplicaRow) -> bool:
    """Its pod went, or became another one, between two looks; its end was never seen."""
    before = now.observed.replicas.get(row.key)
    is_new = before is not None and before.pod_uid not in {"", row.pod_uid}
    return is_new or (row.state is ReplicaState.PENDING and bool(row.pod_uid))


def find_stragglers(now: Situation) -> list[str]:
    """Those that still run although worker 0 has succeeded, all being needed."""
    knows_none = now.topology.is_array or now.run_policy.sparse_spec  # of the others
    if policy_of(now) is not SuccessPolicy.ALL or knows_none:
        return []
    rows = {row.key.index: row for row in _deciding(now)}
    if 0 not in rows or rows[0].state is not ReplicaState.SUCCEEDED:
        return []
    return sorted(row.key.who for row in rows.values() if row.state is ReplicaState.RUNNING)
