"""The ways out of a service's life: stop, fail, back to the queue, delete. Pure."""

from datetime import timedelta

from jobs.reconciler.record import Sweep, Thing, Verify
from jobs.rules import queue, reasons
from jobs.rules.reasons import Reason
from jobs.services.models import ServiceState
from jobs.services.reconciler.draft import Draft
from jobs.services.reconciler.record import ServiceRow

# Pods have a grace of 30 s; what has not confirmed its end by then is on a node that is lost.
CONFIRM_S = 90


def wants_stop(row: ServiceRow) -> bool:
    """Whether a person, the tenant's suspension or the owner's end stops it."""
    return row.desired == "stop" or bool(row.tenant_closed) or not row.is_owner_active


def stop_reason(row: ServiceRow) -> Reason:
    """Who ended it, in words."""
    if row.desired == "stop":
        return reasons.stopped(by=row.stopped_by, why=row.stop_reason)
    if row.tenant_closed:
        deleting = row.tenant_closed == "deleting"
        return reasons.make("tenant_deleting" if deleting else "tenant_suspended")
    return reasons.make("owner_disabled")


def begin(draft: Draft, goal: str, why: Reason) -> None:
    """From now on everything is taken down; `goal` is "stop", "fail" or "queue"."""
    draft.note(
        leaving=goal,
        leaving_at=draft.now,
        leaving_why=(why.code, why.text, why.next_step),
    )
    leave(draft)


def leave(draft: Draft) -> None:
    """Takes everything down, then goes where it was meant to go."""
    why = Reason(*draft.memo.leaving_why)
    goal = draft.memo.leaving
    if goal == "queue" and wants_stop(draft.row):
        goal, why = "stop", stop_reason(draft.row)
        draft.note(leaving=goal, leaving_why=(why.code, why.text, why.next_step))
    draft.turn(ServiceState.STARTING if goal == "queue" else ServiceState.STOPPING, why)
    if not vacate(draft):
        return
    draft.set(node="", gpus="", node_port=None)
    if goal == "queue":
        _requeue(draft, why)
        return
    draft.note(leaving="", leaving_at=None)
    draft.set(ended_at=draft.now, cleaned_at=draft.now)
    draft.turn(ServiceState.FAILED if goal == "fail" else ServiceState.STOPPED, why)
    draft.is_settled = True


def _requeue(draft: Draft, why: Reason) -> None:
    count = draft.memo.withdrawals + 1
    not_before = draft.now + timedelta(seconds=queue.backoff_s(count))
    draft.set(
        not_before=not_before,
        admitted_at=None,
        has_plan=False,
        root_uid="",
        pod="",
        memo=draft.memo.for_new_start(),
    )
    draft.note(withdrawals=count)
    draft.turn(ServiceState.QUEUED, reasons.make("withdrawn", text=why.text))
    draft.show([(draft.row.requested_at, "")], detail=why.text)
    draft.due(not_before)


def settle(draft: Draft) -> None:
    """Ended, and nothing of it may be left in the cluster."""
    if draft.row.cleaned_at is None and not is_untouched(draft) and not vacate(draft):
        return
    if draft.row.cleaned_at is None:
        draft.set(cleaned_at=draft.now)
    draft.is_settled = True


def erase(draft: Draft) -> None:
    """Deleted in any state: objects in the cluster, then the row. What is on the volumes stays."""
    if draft.row.cleaned_at is None and not is_untouched(draft) and not vacate(draft):
        return
    draft.delete_row()


# --- taking down ---
def things(draft: Draft) -> list[Thing]:
    """Every object of the service that a watch shows."""
    seen = draft.seen
    roots: list[Thing] = [seen.root] if seen.root is not None else []
    return [*roots, *seen.doors, *seen.others, *seen.pods]


def is_untouched(draft: Draft) -> bool:
    """Nothing of this start was ever asked of the cluster."""
    return not draft.row.has_plan and not draft.row.root_uid and not things(draft)


def vacate(draft: Draft) -> bool:
    """Deletes everything; True when nothing is left, or only what a lost node has to confirm.

    The root goes first, and the cluster removes what it owns. What is still there long after the
    root is known to be gone is deleted one by one, and what no watch shows is swept.
    """
    seen = draft.seen
    if draft.memo.leaving_at is None:
        draft.note(leaving_at=draft.now)
    if seen.namespace == "gone" and seen.is_current:
        return True
    roots = [thing for thing in things(draft) if thing.kind == "Deployment"]
    if roots:
        draft.delete(*roots)
        return False
    may_exist = bool(draft.row.has_plan or draft.row.root_uid)
    if may_exist and not seen.is_root_absent:
        draft.call(Verify(draft.row.root_name))
        return False
    left = things(draft)
    if not draft.memo.swept and may_exist:
        draft.call(Sweep())
        return False
    if not left:
        return True
    draft.delete_left(left, lambda thing: thing.kind == "Pod")
    all_marked = all(thing.is_terminating for thing in left)
    return draft.is_past(draft.memo.leaving_at, CONFIRM_S) and all_marked
