"""Decides whether a training has succeeded, failed, or is tried again. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.reconciler import replicas
from jobs.reconciler.draft import Draft
from jobs.reconciler.record import PodFacts, ReplicaKey, ReplicaRow
from jobs.rules import endings, patterns, reasons, waits
from jobs.rules.reasons import Reason
from jobs.rules.states import ReplicaState
from jobs.rules.topologies import SuccessPolicy, get_topology, is_success, success_policy

CRASH_LOOP_COUNT = 3
CRASH_LOOP_S = 600
STRAGGLER_S = 120
# How long the cluster's verdict waits for the pod that explains it; they come by different watches.
EXPLANATION_S = 5


@dataclass(frozen=True)
class Outcome:
    """What has been decided.

    Attributes:
        is_success: the training is a success.
        reason: why it failed.
        may_retry: another attempt may do better (never after the deadline or a broken image).
    """

    is_success: bool
    reason: Reason = reasons.NONE
    may_retry: bool = False


def decide(draft: Draft) -> Outcome | None:
    """The outcome, or None while the training goes on."""
    return _success(draft) or _failure(draft) or _crash_loop(draft) or _hopeless_start(draft)


def _deciding(draft: Draft) -> str:
    return get_topology(draft.job.topology).deciding.name


def _success(draft: Draft) -> Outcome | None:
    root = draft.seen.root
    role = _deciding(draft)
    job = draft.job
    done = {
        row.key.index
        for row in draft.current()
        if row.key.role == role and row.state is ReplicaState.SUCCEEDED
    }
    if root is not None and root.uid == job.root_uid:
        done |= root.completed
        if root.verdict == "complete":
            return Outcome(is_success=True)
    policy = success_policy(get_topology(job.topology), job.success_policy)
    if is_success(policy, done, job.counts[role]):
        return Outcome(is_success=True)
    return None


def _failure(draft: Draft) -> Outcome | None:
    """The cluster's verdict, as soon as it can be explained."""
    root = draft.seen.root
    if root is None or root.uid != draft.job.root_uid or root.verdict != "failed":
        return None
    if root.fail_reason == "DeadlineExceeded":
        deadline = reasons.duration_text(draft.job.deadline_s or 0)
        return Outcome(False, reasons.make("deadline", deadline=deadline))
    cause = _cause(draft)
    if cause is None:
        if draft.memo.verdict_at is None:
            draft.note(verdict_at=draft.now)
        if not draft.is_past(draft.memo.verdict_at, EXPLANATION_S):
            return None
        cause = _unexplained(draft)
    return Outcome(False, cause, may_retry=True)


def _cause(draft: Draft) -> Reason | None:
    """The reason of the replica that failed first."""
    role = _deciding(draft)
    failed = {
        row.key: row
        for row in draft.current()
        if row.key.role == role and row.state is ReplicaState.FAILED
    }
    seen = [
        pod
        for pod in (*draft.seen.pods, *draft.seen.departed)
        if pod.key in failed and pod.uid == failed[pod.key].pod_uid
    ]
    for pod in replicas.earliest(seen):
        reason = replicas.reason_of_failure(draft, pod)
        if reason.code:
            return reason
    for row in sorted(failed.values(), key=_ended):
        if row.reason_code:
            return _of_row(draft, row)
    return None


def _ended(row: ReplicaRow) -> float:
    return row.finished_at.timestamp() if row.finished_at else float("inf")


def _of_row(draft: Draft, row: ReplicaRow) -> Reason:
    """A row keeps code and text; the next step is in the table."""
    if row.exit_code:
        memory = draft.job.memory[row.key.role]
        again = endings.reason_of_end(row.key.who, endings.End(row.exit_code), memory)
        if again.code == row.reason_code:
            return again
    return Reason(row.reason_code, row.reason_text, reasons.ROWS[row.reason_code][1])


def _unexplained(draft: Draft) -> Reason:
    role = _deciding(draft)
    rows = [row for row in draft.current() if row.key.role == role]
    lost = [row for row in rows if row.state is ReplicaState.FAILED]
    if lost:
        return reasons.make("lost_outcome", who=lost[0].key.who)
    stopped = [row for row in rows if row.state is ReplicaState.STOPPED]
    if stopped:
        return reasons.make("pod_deleted", who=min(stopped, key=_ended).key.who)
    root = draft.seen.root
    detail = (root.fail_message or root.fail_reason) if root is not None else ""
    return reasons.make("job_failed", detail=detail or "it did not say why.")


# --- parameter servers ---
def count_restarts(draft: Draft) -> None:
    """Notes restarts of server replicas, each an event."""
    serving = {role.name for role in get_topology(draft.job.topology).serving}
    restarts = dict(draft.memo.restarts)
    for key, pod in replicas.newest(draft.seen.pods).items():
        if key.role not in serving or key.attempt != draft.job.attempt:
            continue
        count = replicas.new_restarts(draft, pod)
        if count == 0:
            continue
        kept = [at for at in restarts.get(key.who, ()) if _is_recent(draft.now, at)]
        kept += [draft.now.isoformat()] * min(count, CRASH_LOOP_COUNT)
        restarts[key.who] = tuple(kept[-CRASH_LOOP_COUNT:])
        draft.say("restarted", _restart_cause(draft, pod).text, subject=key.who, warning=True)
    if restarts != draft.memo.restarts:
        draft.note(restarts=restarts)


def _is_recent(now: datetime, at: str) -> bool:
    return now - datetime.fromisoformat(at) <= timedelta(seconds=CRASH_LOOP_S)


def _restart_cause(draft: Draft, pod: PodFacts) -> Reason:
    who = pod.key.who
    if pod.last_end is None or pod.last_end.exit_code == 0:
        return reasons.make("exit_code", who=who, exit_code=0)
    return endings.reason_of_end(who, pod.last_end, draft.job.memory[pod.key.role])


def _crash_loop(draft: Draft) -> Outcome | None:
    for who, times in sorted(draft.memo.restarts.items()):
        recent = [at for at in times if _is_recent(draft.now, at)]
        if len(recent) < CRASH_LOOP_COUNT:
            continue
        pod = replicas.newest(draft.seen.pods).get(_key(draft, who))
        cause = _restart_cause(draft, pod).text if pod is not None else "its pod is gone."
        reason = reasons.make("ps_crash_loop", who=who, count=len(recent) + 1, cause=cause)
        return Outcome(False, reason)
    return None


def _key(draft: Draft, who: str) -> ReplicaKey:
    role, _, index = who.rpartition("-")
    return ReplicaKey(role, int(index), draft.job.attempt)


# --- a start that cannot work ---
def waiting_reasons(draft: Draft) -> list[Reason]:
    """Why each replica that does not run yet does not."""
    found = [
        Reason(row.reason_code, row.reason_text, _next_step(row.reason_code))
        for row in draft.current()
        if row.state in {ReplicaState.PENDING, ReplicaState.STARTING} and row.reason_code
    ]
    refused = [server.refused for server in draft.seen.servers if server.refused]
    refusal = draft.seen.refusal or (refused[0] if refused else "")
    missing = [row for row in draft.current() if not row.pod_uid]
    if refusal and missing:
        found.append(reasons.make(patterns.find_code("quota_refused", refusal), detail=refusal))
    return found


def _next_step(code: str) -> str:
    step = reasons.ROWS[code][1]
    return "" if "{" in step else step


def _hopeless_start(draft: Draft) -> Outcome | None:
    """An image or set-up that no patience cures: what is held is given back."""
    if not draft.seen.is_current:
        return None
    late = draft.is_past(draft.memo.starting_since, draft.job.starting_deadline_s)
    for reason in waiting_reasons(draft):
        family = patterns.family_of(reason.code)
        if family in waits.HOPELESS:
            return Outcome(False, reason)
        if late and family in waits.FATAL_AFTER_DEADLINE:
            return Outcome(False, reason)
    return None


# --- stragglers ---
def straggler(draft: Draft) -> Reason | None:
    """Set when worker 0 has succeeded long ago and others still run, all being needed."""
    job = draft.job
    shape = get_topology(job.topology)
    if success_policy(shape, job.success_policy) is not SuccessPolicy.ALL:
        return None
    role = shape.deciding.name
    rows = {row.key.index: row for row in draft.current() if row.key.role == role}
    if 0 not in rows or rows[0].state is not ReplicaState.SUCCEEDED:
        return None
    running = [row.key.who for row in rows.values() if row.state is ReplicaState.RUNNING]
    if not running:
        return None
    if draft.memo.worker0_ended_at is None:
        draft.note(worker0_ended_at=draft.now)
    if not draft.is_past(draft.memo.worker0_ended_at, STRAGGLER_S):
        return None
    waited = reasons.duration_text(STRAGGLER_S)
    return reasons.make("straggler", who=", ".join(sorted(running)), waited=waited)
