"""What to do next for one job: the whole of what is wanted against the whole of what is. Pure.

Level-triggered: no step depends on having seen an event, and each may be repeated. The life:

    queued -> (admission) -> starting: root and children are made, the root is set going
    -> running: all replicas run -> an outcome -> succeeded | failed, then `ending.settle` recycles
    the servers, waits for the archive and removes what the clean policy says.

Everything else is a way out of it: stop, delete, withdrawal (not placed in time: back to the queue)
and another attempt (a replica of a coupled topology failed and retries are left).
"""

from datetime import datetime, timedelta

from jobs.reconciler import ending, outcome, replicas
from jobs.reconciler.draft import Draft
from jobs.reconciler.record import (
    VIEW_LAG_S,
    CreateAll,
    JobRow,
    Observed,
    Plan,
    PodFacts,
    ReplicaRow,
    Root,
    SetSuspended,
    Verify,
)
from jobs.rules import endings, patterns, queue, reasons, waits
from jobs.rules.reasons import Reason
from jobs.rules.states import FINAL_STATES, JobState, ReplicaState
from jobs.rules.topologies import get_topology


def plan(job: JobRow, seen: Observed, now: datetime) -> Plan:
    """The plan for one job.

    Args:
        job: its rows, as committed.
        seen: what the cluster shows of it.
        now: our clock; never compared with times of the cluster.
    """
    draft = Draft(job, seen, now)
    _absorb(draft)
    job = draft.job
    if job.desired == "delete":
        ending.erase(draft)
    elif job.state is JobState.QUEUED:
        _queued(draft)
    else:
        replicas.update(draft)
        if job.state in FINAL_STATES:
            ending.settle(draft)
        elif draft.memo.leaving:
            _leave(draft)
        elif job.state is JobState.STOPPING:
            ending.stop(draft)
        elif ending.wants_stop(job):
            ending.begin_stop(draft)
        else:
            _drive(draft)
        if draft.job.state not in FINAL_STATES:
            draft.explain_trouble(seen.trouble)
    return draft.finish()


def _absorb(draft: Draft) -> None:
    """What our last steps did is committed before anything follows from it."""
    if draft.seen.made_root:
        draft.set(root_uid=draft.seen.made_root)
        draft.note(children_of=draft.seen.made_root, missing_since=None)
    if draft.seen.is_swept:
        draft.note(swept=True)
    if draft.seen.is_erased:
        draft.note(erased=True)


def _queued(draft: Draft) -> None:
    """Only a person (or the tenant's end) takes a job out of the queue here; admission does else."""
    reason = ending.stop_reason(draft.job)
    if draft.job.desired == "stop" or draft.job.tenant_closed == "deleting":
        draft.turn(JobState.STOPPED, reason)
        draft.set(finished_at=draft.now)
        ending.settle(draft)


# --- on the way up ---
def _drive(draft: Draft) -> None:
    """starting and running: objects, then the replicas, then what they mean."""
    if draft.seen.blocked.code:
        _fail(draft, draft.seen.blocked)
        return
    root = draft.seen.root
    if root is None:
        _without_root(draft)
        return
    draft.note(missing_since=None)
    if draft.job.root_uid and root.uid != draft.job.root_uid:
        _fail(draft, reasons.make("root_deleted"))
        return
    if root.is_terminating:
        # Somebody deletes it; what follows is decided when it is gone.
        return
    if draft.memo.children_of != root.uid or not draft.job.root_uid:
        _create(draft)
        return
    _commit(draft, root)
    _follow(draft, root)


def _create(draft: Draft) -> None:
    draft.call(CreateAll())
    draft.explain(draft.seen.trouble if draft.seen.trouble.code else reasons.make("creating"))
    _withdraw_late(draft)


def _without_root(draft: Draft) -> None:
    """Not made yet, not seen yet, or deleted by somebody."""
    job = draft.job
    if not job.root_uid:
        if draft.seen.namespace == "gone" and draft.seen.is_current:
            _fail(draft, reasons.make("namespace_gone", namespace=job.namespace))
        else:
            _create(draft)
    elif draft.seen.is_root_absent:
        gone = draft.seen.namespace != "active"
        code = "namespace_gone" if gone else "root_deleted"
        finished = outcome.decide(draft)
        if finished is not None and finished.is_success:
            _succeed(draft)
        else:
            _fail(draft, reasons.make(code, namespace=job.namespace))
    else:
        if draft.memo.missing_since is None:
            draft.note(missing_since=draft.now)
        if draft.is_past(draft.memo.missing_since, VIEW_LAG_S):
            draft.call(Verify(job.root_name))


def _commit(draft: Draft, root: Root) -> None:
    """Sets the root going. Its uid and its children are in the database by now."""
    if draft.memo.committed_at is None:
        draft.note(committed_at=draft.now)
    if root.is_suspended and not root.verdict:
        draft.call(SetSuspended(root.name, root.uid, value=False))


def _follow(draft: Draft, root: Root) -> None:
    """What the replicas show."""
    outcome.count_restarts(draft)
    decided = outcome.decide(draft)
    if decided is not None:
        if decided.is_success:
            _succeed(draft)
        elif decided.may_retry and _retries_left(draft):
            _try_again(draft, decided.reason)
        else:
            _fail(draft, decided.reason)
        return
    _note_again(draft, root)
    if _all_run(draft):
        _runs(draft)
    elif draft.job.state is JobState.RUNNING and not draft.memo.again:
        # A server's program starts again in its place: an event, not a new start.
        return
    else:
        _starts(draft)


def _all_run(draft: Draft) -> bool:
    wanted = {ReplicaState.RUNNING, ReplicaState.SUCCEEDED}
    return all(draft.replicas[key].state in wanted for key in replicas.expected(draft))


def _runs(draft: Draft) -> None:
    if draft.job.state is not JobState.RUNNING:
        draft.turn(JobState.RUNNING)
        draft.note(again=(), starting_since=None)
        if draft.job.started_at is None:
            draft.set(started_at=draft.now)
    late = outcome.straggler(draft)
    if late is not None and draft.job.reason.code != late.code:
        draft.say("straggler", late.text, warning=True)
    draft.explain(late or reasons.NONE)


def _note_again(draft: Draft, root: Root) -> None:
    """Remembers why replicas start once more: the cluster took them, or a retry by the cluster."""
    for row in sorted(draft.current(), key=lambda r: r.key):
        pod = _ended_pod(draft, row)
        if pod is None:
            if draft.job.state is JobState.RUNNING and _was_replaced(draft, row):
                _again(draft, reasons.make("replaced", who=row.key.who))
        elif pod.disruption is not None:
            _again(draft, endings.reason_of_disruption(row.key.who, pod.disruption))
        elif not get_topology(draft.job.topology).is_coupled:
            number = max(1, root.failed_count)
            if number <= draft.job.retries:
                cause = replicas.reason_of_failure(draft, pod).text or f"{row.key.who} failed."
                most = draft.job.retries
                _again(draft, reasons.make("retrying", cause=cause, number=number, most=most))


def _ended_pod(draft: Draft, row: ReplicaRow) -> PodFacts | None:
    """The failed pod because of which a replica starts again; None when there is no such pod.

    That is the replica's pod itself, or, once it has been replaced, the one that was its pod at the
    last look.
    """
    before = draft.seen.replicas.get(row.key)
    uid = row.pod_uid if row.state is ReplicaState.FAILED else before.pod_uid if before else ""
    if not uid or (uid == row.pod_uid and row.state is not ReplicaState.FAILED):
        return None
    known = (*draft.seen.pods, *draft.seen.departed)
    return next((pod for pod in known if pod.uid == uid and pod.phase == "Failed"), None)


def _was_replaced(draft: Draft, row: ReplicaRow) -> bool:
    """Its pod went, or became another one, between two looks; its end was never seen."""
    before = draft.seen.replicas.get(row.key)
    is_new = before is not None and before.pod_uid not in {"", row.pod_uid}
    return is_new or (row.state is ReplicaState.PENDING and bool(row.pod_uid))


def _again(draft: Draft, reason: Reason) -> None:
    if draft.memo.again and draft.memo.again[0] == reason.code:
        return
    draft.say(reason.code, reason.text, warning=True)
    draft.note(again=(reason.code, reason.text, reason.next_step))


_URGENT = frozenset({"image_name", "image_pull", "container_config", "volume", "quota_refused"})


def _starts(draft: Draft) -> None:
    """Not all replicas run: says why, and gives everything back when it takes too long."""
    waiting = waits.most_telling(outcome.waiting_reasons(draft))
    reason = waiting if waiting.code else reasons.make("creating")
    if draft.memo.again and patterns.family_of(waiting.code) not in _URGENT:
        reason = Reason(*draft.memo.again)
    draft.turn(JobState.STARTING, reason)
    if draft.memo.starting_since is None:
        draft.note(starting_since=draft.now)
    _withdraw_late(draft)


# --- back to the queue ---
def _withdraw_late(draft: Draft) -> None:
    """Our packing was only a guess about the scheduler: what was not placed is given back."""
    since = draft.memo.starting_since or draft.job.admitted_at
    if not draft.seen.is_current or not draft.is_past(since, draft.job.starting_deadline_s):
        return
    waiting = outcome.waiting_reasons(draft)
    telling = waits.most_telling(waiting)
    stuck = patterns.family_of(telling.code) in waits.WITHDRAW_AFTER_DEADLINE
    if replicas.all_placed(draft) and not stuck:
        return
    waited = reasons.duration_text(draft.job.starting_deadline_s)
    detail = telling.text or draft.seen.trouble.text or "The cluster has not said why."
    why = reasons.make("not_placed", waited=waited, detail=detail)
    draft.say("withdrawn", why.text, warning=True)
    ending.begin_leaving(draft, "queue", why)
    _leave(draft)


def _try_again(draft: Draft, cause: Reason) -> None:
    """Another attempt of a coupled topology: everything is made anew under new names."""
    number = draft.memo.retries_used + 1
    why = reasons.make("retrying", cause=cause.text, number=number, most=draft.job.retries)
    draft.note(retries_used=number)
    draft.say("retrying", why.text, warning=True)
    ending.begin_leaving(draft, "retry", why)
    _leave(draft)


def _retries_left(draft: Draft) -> bool:
    """Retries of a single replica are the cluster's own (backoffLimit)."""
    coupled = get_topology(draft.job.topology).is_coupled
    return coupled and draft.memo.retries_used < draft.job.retries


def _leave(draft: Draft) -> None:
    """Takes everything down, then goes where it was meant to go."""
    why = Reason(*draft.memo.leaving_why)
    goal = draft.memo.leaving
    if goal != "stop" and ending.wants_stop(draft.job):
        goal, why = "stop", ending.stop_reason(draft.job)
        draft.note(leaving=goal, leaving_why=(why.code, why.text, why.next_step))
    draft.turn(JobState.STOPPING if goal == "stop" else JobState.STARTING, why)
    if not ending.vacate(draft):
        return
    if goal == "stop":
        draft.note(leaving="", leaving_at=None)
        ending.conclude_stop(draft, why)
        return
    for row in draft.current():
        if row.started_at is None:
            draft.forget(row.key)
    used_s = ending.attempt_seconds(draft)
    draft.note(spent_s=draft.memo.spent_s + used_s)
    left_s = _deadline_left(draft)
    if left_s is not None and left_s <= 0:
        deadline = reasons.duration_text(draft.job.deadline_s or 0)
        draft.note(leaving="", leaving_at=None)
        _fail(draft, reasons.make("deadline", deadline=deadline))
        return
    draft.set(
        attempt=draft.job.attempt + 1,
        root_uid="",
        has_plan=False,
        memo=draft.memo.for_new_attempt(),
    )
    if goal == "queue":
        _requeue(draft, why)
    else:
        draft.note(starting_since=draft.now, again=(why.code, why.text, why.next_step))
        draft.render(left_s)
        draft.due(draft.now)


def _requeue(draft: Draft, why: Reason) -> None:
    count = draft.job.requeued_count + 1
    not_before = draft.now + timedelta(seconds=queue.backoff_s(count))
    draft.set(requeued_count=count, not_before=not_before, admitted_at=None)
    draft.turn(JobState.QUEUED, reasons.make("withdrawn", text=why.text))
    draft.due(not_before)


def _deadline_left(draft: Draft) -> int | None:
    deadline_s = draft.job.deadline_s
    return None if deadline_s is None else deadline_s - draft.memo.spent_s


# --- outcomes ---
def _succeed(draft: Draft) -> None:
    draft.set(deciders_ended_at=draft.now, finished_at=draft.now)
    if draft.job.started_at is None:
        draft.set(started_at=draft.now)
    draft.turn(JobState.SUCCEEDED)
    ending.settle(draft)


def _fail(draft: Draft, reason: Reason) -> None:
    draft.set(deciders_ended_at=draft.now, finished_at=draft.now)
    draft.turn(JobState.FAILED, reason)
    ending.settle(draft)
