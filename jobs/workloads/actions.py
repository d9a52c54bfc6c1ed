"""Everything that changes workloads on somebody's behalf: intent in the database, never the cluster."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Max, Min
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs import changes, limits, pruning
from jobs.kinds.base import WorkloadKind
from jobs.kinds.interactive.opening import OpenLink, new_link
from jobs.kinds.registry import KINDS
from jobs.kinds.spec import WorkloadSpec, columns_of
from jobs.kinds.training.again import body_of_unfinished
from jobs.models import Workload
from jobs.rules.admission import Fit
from jobs.rules.queue.state import HIGH, LOW, NORMAL
from jobs.rules.states import FINAL_STATES, HOLDING_STATES, IDLE_STATES, Desired, WorkloadState
from jobs.workloads.fit import fit
from portal import live, room
from portal.errors import FieldError, Refused
from portal.quantity import duration_text
from tenants import policy
from tenants.borrowing import may_borrow
from tenants.models import Tenant, User


def _fit_of(by: User, tenant: Tenant, kind: WorkloadKind, spec: WorkloadSpec) -> Fit:
    """Whether what somebody may submit fits.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
        Refused: it could never start.
    """
    policy.require(by, "submit", tenant)
    found = fit(kind, spec, tenant, by)
    if found.kind == "never":
        raise Refused([FieldError(found.field, "never_fits", found.text)])
    return found


def check_submit(*, by: User, tenant: Tenant, kind: WorkloadKind, spec: WorkloadSpec) -> Fit:
    """Whether it would fit now or later, of what `submit` would take; nothing is changed.

    Raises:
        PermissionDenied, Refused: as `submit`.
    """
    found = _fit_of(by, tenant, kind, spec)
    with transaction.atomic():
        kind.check_submit(tenant, spec)
    return found


def submit(*, by: User, tenant: Tenant, kind: WorkloadKind, spec: WorkloadSpec) -> Workload:
    """Queues a workload. An acknowledged one is in the database before the answer leaves.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
        Refused: it could never start, too many changes in a minute, or what its kind refuses.
        NoRoomError: too little of the disk is free.
    """
    _fit_of(by, tenant, kind, spec)
    room.check()
    with transaction.atomic():
        limits.check_pace(by)
        limits.check_submits(by, tenant)
        kind.check_submit(tenant, spec)
        workload: Workload = Workload.objects.create(
            kind=kind.key,
            tenant=tenant,
            owner=by,
            # What starts only once needs no look that notices the start.
            observed_generation=0 if kind.can_restart else 1,
            **columns_of(spec),
        )
        changes.record(by=by, verb=kind.submit_verb, workload=workload)
        changes.tell(workload)
    return workload


def read_unfinished(*, by: User, workload: Workload) -> WorkloadSpec:
    """The request for what of an array that has ended has not succeeded, to be submitted.

    Raises:
        PermissionDenied, Refused: see `submit` and `body_of_unfinished`.
    """
    policy.require(by, "submit", workload.tenant)
    body = body_of_unfinished(workload)
    return KINDS[workload.kind].read(body, tenant=workload.tenant, user=by)


def _intend(workload: Workload, change: dict[str, Any], **only_if: Any) -> bool:
    """Writes intent if nobody decided against it meanwhile; True when it was written."""
    written = (
        Workload.objects.filter(pk=workload.pk, **only_if)
        .exclude(desired=Desired.DELETE)
        .update(revision=F("revision") + 1, **change)
    )
    if written:
        workload.refresh_from_db()
    return bool(written)


def _has_ended(workload: Workload) -> bool:
    """Whether the latest start is over; until it is noticed, the state is that of the one before."""
    is_noticed = workload.observed_generation == workload.generation
    return workload.state in FINAL_STATES and is_noticed


@transaction.atomic
def start(*, by: User, workload: Workload) -> Workload:
    """Starts one that was stopped or failed again, with what is on its volumes.

    Harmless for one that runs, or that has been started by somebody else meanwhile. One that is
    still stopping starts as soon as it has stopped.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
    """
    policy.require(by, "start", workload.tenant)
    assert KINDS[workload.kind].can_restart, f"a {workload.kind} starts once"
    if workload.desired == Desired.RUN and not _has_ended(workload):
        return workload
    change = {
        "desired": Desired.RUN,
        "generation": F("generation") + 1,
        "rank": 0,
        "queued_at": timezone.now(),
        "stop_requested_at": None,
        "stop_requested_by": None,
        "stop_reason": "",
    }
    if workload.state in FINAL_STATES:
        # As after `submit`: what happens to the new start is the reconciler's to tell.
        queued = {"state": WorkloadState.QUEUED, "reason_code": "", "reason_text": ""}
        change |= queued | {"reason_next_step": ""}
    if _intend(workload, change, generation=workload.generation):
        changes.record(by=by, verb="start", workload=workload)
        changes.tell(workload)
    return workload


@transaction.atomic
def stop(*, by: User, workload: Workload, reason: str = "") -> Workload:
    """Asks for its end, with the grace that its kind gives; volumes stay. Harmless for one that has ended.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
    """
    policy.require(by, "stop", workload.tenant)
    if workload.desired == Desired.STOP or _has_ended(workload):
        return workload
    change = {
        "desired": Desired.STOP,
        "stop_requested_at": timezone.now(),
        "stop_requested_by": by,
        "stop_reason": reason,
    }
    if _intend(workload, change, desired__in=(Desired.RUN, Desired.SUSPEND)):
        detail = {"why": reason} if reason else {}
        changes.record(by=by, verb="stop", workload=workload, detail=detail)
        changes.tell(workload)
    return workload


def _hold(
    by: User,
    verb: str,
    workload: Workload,
    change: dict[str, Any],
    same_in: Collection[str],
    **only_if: Any,
) -> Workload:
    """Suspends or resumes a training; harmless where that is what is wanted already.

    Args:
        same_in: states in which it is wanted, and still to come or just so.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
        Refused: 409, it is in another state.
    """
    policy.require(by, verb, workload.tenant)
    rows = Workload.objects.filter(pk=workload.pk).select_related("tenant__owner", "owner")
    is_new = rows.filter(**only_if).update(revision=F("revision") + 1, **change)
    found: Workload | None = rows.first()
    is_same = found and found.desired == change["desired"] and found.state in same_in
    if found is None or not (is_new or is_same):
        text = {
            "suspend": _("It is %(state)s, and cannot be suspended."),
            "resume": _("It is %(state)s. Only what is suspended can be resumed."),
        }[verb]
        state = found.state if found else _("deleted")
        raise Refused(text % {"state": state}, "wrong_state", 409)
    if is_new:
        changes.record(by=by, verb=verb, workload=found)
        changes.tell(found)
    return found


@transaction.atomic
def suspend(*, by: User, workload: Workload) -> Workload:
    """Asks that a training hold nothing until it is resumed: a stop with grace, or on hold in the queue.

    Raises:
        PermissionDenied, Refused: see `_hold`.
    """
    going = IDLE_STATES | HOLDING_STATES
    change = {
        "desired": Desired.SUSPEND,
        "stop_requested_at": timezone.now(),
        "stop_requested_by": by,
    }
    only_if = {"desired": Desired.RUN, "state__in": going - {WorkloadState.STOPPING}}
    return _hold(by, "suspend", workload, change, going, **only_if)


@transaction.atomic
def resume(*, by: User, workload: Workload) -> Workload:
    """Queues a suspended training anew, as the last in line.

    Raises:
        PermissionDenied, Refused: see `_hold`.
    """
    change = {
        "desired": Desired.RUN,
        "rank": 0,
        "queued_at": timezone.now(),
        "stop_requested_at": None,
        "stop_requested_by": None,
    }
    only_if = {"desired": Desired.SUSPEND, "state__in": IDLE_STATES}
    return _hold(by, "resume", workload, change, {WorkloadState.SUSPENDED}, **only_if)


@transaction.atomic
def prioritize(*, by: User, workload: Workload, priority: str) -> Workload:
    """Changes the priority of a training that has not ended; its place by age stays.

    Raises:
        PermissionDenied: see `tenants/policy.py`; only leads and admins give or take `high`.
        Refused: 409, it has ended, or runs on room that only low priority may borrow.
    """
    policy.require(by, "prioritize", workload.tenant)
    row: Workload = Workload.objects.select_for_update().get(pk=workload.pk)
    before = row.spec.get("priority", NORMAL)
    if before == priority:
        return row
    if HIGH in (before, priority):
        policy.require(by, "prefer", workload.tenant)
    if row.is_final or row.desired == Desired.DELETE:
        raise Refused(_("It has ended, and waits for nothing."), "wrong_state", 409)
    if before == LOW and row.state in HOLDING_STATES and may_borrow(row.tenant):
        text = _("It may run on room beyond the quota, so it stays low until it has ended.")
        raise Refused(text, "wrong_state", 409)
    row.spec = {**row.spec, "priority": priority}
    row.revision += 1
    row.save(update_fields=["spec", "revision"])
    detail = {"before": before, "after": priority}
    changes.record(by=by, verb="prioritize", workload=row, detail=detail)
    changes.tell(row)
    return row


@transaction.atomic
def reorder(*, by: User, workload: Workload, to_front: bool) -> Workload:
    """Moves what is queued before all, or behind all, that its own namespace has in the queue.

    Its age stays, and so does its namespace's place among the others.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
        Refused: 409, it is not in the queue.
    """
    policy.require(by, "prioritize", workload.tenant)
    Tenant.objects.select_for_update().get(pk=workload.tenant_id)  # one change at a time
    queued = Workload.objects.filter(tenant=workload.tenant_id, state=WorkloadState.QUEUED)
    row: Workload | None = queued.filter(pk=workload.pk).select_related("owner").first()
    if row is None:
        raise Refused(_("It is not in the queue."), "wrong_state", 409)
    others = queued.exclude(pk=row.pk).aggregate(first=Min("rank"), last=Max("rank"))
    # What is submitted later has 0, and takes its place between the two.
    row.rank = min(others["first"] or 0, 0) - 1 if to_front else max(others["last"] or 0, 0) + 1
    Workload.objects.filter(pk=row.pk).update(rank=row.rank, revision=F("revision") + 1)
    detail = {"to": "front" if to_front else "back"}
    changes.record(by=by, verb="reorder", workload=row, detail=detail)
    changes.tell(row)
    return row


def start_or_submit(
    *, by: User, tenant: Tenant, kind: WorkloadKind, spec: WorkloadSpec
) -> Workload:
    """The tenant's own that does the same already, asked to run; a new one where there is none.

    Raises:
        PermissionDenied, Refused: see `start` and `submit`.
    """
    known = kind.find_same(tenant, spec)
    if known is None:
        return submit(by=by, tenant=tenant, kind=kind, spec=spec)
    return start(by=by, workload=known)


@transaction.atomic
def delete(*, by: User, workload: Workload, revision: int | None = None) -> None:
    """Deletes it in any state: gone from view now, from cluster and store soon after; volumes stay.

    Args:
        revision: only if it is still this one; None: whatever has changed.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
        Refused: 412, it has another revision by now.
    """
    policy.require(by, "delete", workload.tenant)
    only_if = {} if revision is None else {"revision": revision}
    is_deleted = _intend(workload, {"desired": Desired.DELETE}, **only_if)
    if not is_deleted and only_if:
        text = "It has changed since you looked at it. Look again, then delete it."
        raise Refused(text, "changed_meanwhile", 412)
    if is_deleted:
        changes.record(by=by, verb="delete", workload=workload)
        changes.tell(workload)


def _tell_of(workloads: Collection[Workload]) -> None:
    """Browsers re-read them, the reconciler looks once."""
    live.wake_reconciler()
    for workload in workloads:
        changes.tell_browsers(workload)


@dataclass(frozen=True)
class PruneResult:
    """What a `prune` found: deleted by this call unless it was a dry run.

    Attributes:
        before: they ended before this time.
        held: what they hold, or held.
        remaining: how many match and are still there.
    """

    is_dry: bool
    before: datetime
    held: pruning.Holdings
    remaining: int


def prune(
    *,
    by: User,
    tenant: Tenant | None,
    older_than_s: int,
    states: Collection[str],
    is_dry: bool,
    before: datetime | None = None,
) -> PruneResult:
    """Deletes finished trainings as `delete` does, `pruning.MOST` at most; audited once.

    Args:
        tenant: whose; None: the person's own, of all of their namespaces.
        older_than_s: since they ended.
        is_dry: only counts all of them.
        before: of the result that was shown; what has come of age since then stays.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
    """
    limit = timezone.now() - timedelta(seconds=older_than_s)
    before = min(limit, before or limit)
    rows = pruning.finished(before, states)
    if tenant is not None:
        policy.require(by, "delete", tenant)
        rows = rows.filter(tenant=tenant)
    else:
        rows = rows.filter(policy.within_tenants(by, "delete"), tenant__owner=by)
    if is_dry:
        held = pruning.holdings(rows)
        return PruneResult(is_dry, before, held, held.count)
    asked = {"older_than": duration_text(older_than_s), "states": sorted(states)}
    deleted, held = pruning.delete(rows, by=by, detail=asked)
    transaction.on_commit(lambda: _tell_of(deleted))
    return PruneResult(is_dry, before, held, rows.count())


@transaction.atomic
def open_link(*, by: User, workload: Workload) -> OpenLink:
    """A link that leads this person's browser through its gate.

    Raises:
        Refused: not allowed, not running, or the installation cannot do it safely.
    """
    link = new_link(by, workload, KINDS[workload.kind])
    changes.record(by=by, verb="open", workload=workload)
    return link
