"""What to do next for one service: the whole of what is wanted against the whole of what is. Pure.

Level-triggered: no call depends on having seen an event, and each may be repeated. The life of one
start:

    queued -> (admission) -> starting: root and children are made, the root is scaled to one
    -> running: the gate and the program behind it answer -> stopping -> stopped | failed

A pod that dies takes it back to starting; what is not placed in time goes back to the queue. Stopping
removes everything but the volumes; another start begins with a new `start_count` when nothing of the
one before is left.
"""

from datetime import datetime

from jobs.reconciler.record import VIEW_LAG_S, CreateAll, Plan, Scale, Verify
from jobs.rules import reasons
from jobs.services.models import ENDED_STATES, ServiceState
from jobs.services.reconciler import leaving, running
from jobs.services.reconciler.draft import Draft
from jobs.services.reconciler.record import Observed, Root, ServiceRow


def plan(row: ServiceRow, seen: Observed, now: datetime) -> Plan:
    """The plan for one service.

    Args:
        row: its row, as committed.
        seen: what the cluster shows of it.
        now: our clock; never compared with times of the cluster.
    """
    draft = Draft(row, seen, now)
    _absorb(draft)
    if row.desired == "delete":
        leaving.erase(draft)
    elif row.seen_start != row.start_count:
        _begin(draft)
    elif row.state is ServiceState.QUEUED:
        _queued(draft)
    elif row.state in ENDED_STATES:
        leaving.settle(draft)
    elif draft.memo.leaving:
        leaving.leave(draft)
    elif leaving.wants_stop(draft.row):
        leaving.begin(draft, "stop", leaving.stop_reason(draft.row))
    else:
        _drive(draft)
    if draft.row.state not in {*ENDED_STATES, ServiceState.QUEUED}:
        draft.explain_trouble(seen.trouble)
    return draft.finish()


def _absorb(draft: Draft) -> None:
    """What our last calls did is committed before anything follows from it."""
    if draft.seen.made_root:
        draft.set(root_uid=draft.seen.made_root)
        draft.note(children_of=draft.seen.made_root, missing_since=None)
    if draft.seen.is_swept:
        draft.note(swept=True)


def _begin(draft: Draft) -> None:
    """Another start was asked for: nothing of the one before may be left."""
    if not leaving.is_untouched(draft) and draft.row.cleaned_at is None:
        if draft.row.state in {ServiceState.STARTING, ServiceState.RUNNING}:
            draft.turn(ServiceState.STOPPING, reasons.make("starting_again"))
        if not leaving.vacate(draft):
            return
    row = draft.row
    draft.set(
        seen_start=row.start_count,
        admitted_at=None,
        ready_at=None,
        ended_at=None,
        not_before=None,
        node="",
        gpus="",
        pod="",
        node_port=None,
        restarts=0,
        event_files=None,
        has_plan=False,
        root_uid="",
        cleaned_at=None,
        steps=(),
        memo=row.memo.for_new_start(),
    )
    if row.seen_start:
        draft.say("start", f"Start number {row.start_count}.")
    draft.turn(ServiceState.QUEUED)
    draft.show([(row.requested_at, "")])
    _queued(draft)


def _queued(draft: Draft) -> None:
    """Only a person (or the tenant's end) takes it out of the queue here; admission does else."""
    if leaving.wants_stop(draft.row):
        reason = leaving.stop_reason(draft.row)
        draft.set(ended_at=draft.now, cleaned_at=draft.now)
        draft.show([(draft.row.requested_at, "")], detail=reason.text, failed=True)
        draft.turn(ServiceState.STOPPED, reason)
        draft.is_settled = True


# --- on the way up ---
def _drive(draft: Draft) -> None:
    """starting and running: objects, then the pod, then what it means."""
    if draft.seen.blocked.code:
        leaving.begin(draft, "fail", draft.seen.blocked)
        return
    root = draft.seen.root
    if root is None:
        _without_root(draft)
        return
    if draft.row.root_uid and root.uid != draft.row.root_uid:
        leaving.begin(draft, "fail", reasons.make("root_deleted"))
        return
    if root.is_terminating:
        # Somebody deletes it; what follows is decided when it is gone.
        return
    if draft.memo.children_of != root.uid or not draft.row.root_uid:
        _create(draft)
        return
    _commit(draft, root)
    _follow_door(draft)
    running.follow(draft)


def _create(draft: Draft) -> None:
    draft.call(CreateAll())
    trouble = draft.seen.trouble
    draft.explain(trouble if trouble.code else reasons.make("creating"))
    running.show(draft, trouble.text)
    if draft.memo.starting_since is None:
        draft.note(starting_since=draft.now)
    running.withdraw_late(draft, trouble)


def _without_root(draft: Draft) -> None:
    """Not made yet, not seen yet, or deleted by somebody."""
    row = draft.row
    if not row.root_uid:
        if draft.seen.namespace == "gone" and draft.seen.is_current:
            _lost(draft)
        else:
            _create(draft)
    elif draft.seen.is_root_absent:
        _lost(draft)
    else:
        if draft.memo.missing_since is None:
            draft.note(missing_since=draft.now)
        if draft.is_past(draft.memo.missing_since, VIEW_LAG_S):
            draft.call(Verify(row.root_name))


def _lost(draft: Draft) -> None:
    code = "namespace_gone" if draft.seen.namespace != "active" else "root_deleted"
    leaving.begin(draft, "fail", reasons.make(code, namespace=draft.row.namespace))


def _commit(draft: Draft, root: Root) -> None:
    """Scales the root to one. Its uid and its children are in the database by now."""
    if draft.memo.committed_at is None:
        draft.note(committed_at=draft.now)
    if root.replicas != 1:
        draft.call(Scale(root.name, root.uid, 1))


def _follow_door(draft: Draft) -> None:
    """The port that the cluster picked; a Service that somebody deleted is made again."""
    doors = [door for door in draft.seen.doors if not door.is_terminating]
    if doors:
        if draft.memo.missing_since is not None:
            draft.note(missing_since=None)
        if doors[0].node_port is not None:
            draft.set(node_port=doors[0].node_port)
    elif draft.memo.missing_since is None:
        draft.note(missing_since=draft.now)
    if not doors and draft.is_past(draft.memo.missing_since, VIEW_LAG_S):
        draft.call(CreateAll())
