"""More time for a training that runs, given by a lead unless somebody was promised its room."""

from datetime import datetime, timedelta

from django.db import transaction
from django.utils.translation import gettext as _

from jobs import changes
from jobs.models import ReconcilerLease, Replica, Workload
from jobs.places import NodeReservation
from jobs.rules.states import HOLDING_STATES, Desired, WorkloadState
from jobs.scheduling.models import NodeHold
from portal.catalog import max_duration_s
from portal.errors import FieldError, Refused
from portal.quantity import duration_text
from tenants import policy
from tenants.models import User


def require(*, by: User, workload: Workload) -> None:
    """
    Raises:
        PermissionDenied: see `tenants/policy.py`.
    """
    policy.require(by, "extend", workload.tenant)


@transaction.atomic
def extend(*, by: User, workload: Workload, deadline_s: int) -> Workload:
    """Gives a training that holds room more time; asked for twice, it is given once.

    Args:
        deadline_s: its whole time limit from now on.

    Raises:
        PermissionDenied: see `tenants/policy.py`.
        Refused: 400, that is less than it has, or more than the catalog allows; 409, it has no deadline, does not
            run, or nodes that it holds are promised to somebody, or held by an admin, from a time on that it
            would outstay.
    """
    require(by=by, workload=workload)
    # Before the row, as the reconciler does: what it promises is there to be read, or not promised yet.
    ReconcilerLease.objects.select_for_update().first()
    row: Workload = Workload.objects.select_for_update().get(pk=workload.pk)
    policy_of = row.spec.get("run_policy") or {}
    before = policy_of.get("deadline_s")
    if before is None or row.state not in HOLDING_STATES or row.desired != Desired.RUN:
        raise Refused(
            _("Only what runs until a deadline can be given more time."), "wrong_state", 409
        )
    if deadline_s < before:
        text = _("Its deadline is longer than that already, and is not shortened.")
        raise Refused([FieldError("deadline_s", "out_of_range", text)])
    if deadline_s == before:
        return row
    most_s = max_duration_s("training")
    if most_s is not None and deadline_s > most_s:
        text = _("At most %(most)s, which the admin has set for all trainings.")
        text %= {"most": duration_text(most_s)}
        raise Refused([FieldError("deadline_s", "out_of_range", text)])
    if row.room_ends_by is not None:
        ends_by = row.room_ends_by + timedelta(seconds=deadline_s - before)
        replicas = Replica.objects.filter(workload=row, attempt=row.attempt)
        nodes = set(replicas.values_list("node", flat=True))
        _check_promises(by, row, nodes, row.room_ends_by, ends_by)
        is_placed = bool(nodes) and "" not in nodes
        _check_holds(nodes if is_placed else None, row.room_ends_by, ends_by)
        row.ends_by = ends_by
    row.spec = {**row.spec, "run_policy": {**policy_of, "deadline_s": deadline_s}}
    row.revision += 1
    row.save(update_fields=["spec", "ends_by", "revision"])
    detail = {"before": before, "after": deadline_s}
    changes.record(by=by, verb="extend", workload=row, detail=detail)
    changes.tell(row)
    return row


def _check_promises(
    by: User, row: Workload, held: set[str], before: datetime, after: datetime
) -> None:
    """Nothing that waits for this one's room, or for its part of their quota, may be made to wait longer."""
    is_placed = held and "" not in held  # else nobody knows here where its room is
    promised = NodeReservation.objects.exclude(workload=row.pk).filter(
        starts_at__gte=before,
        starts_at__lt=after,
        workload__state=WorkloadState.QUEUED,
        workload__desired=Desired.RUN,
    )
    for one in promised.select_related("workload__tenant", "workload__owner").order_by("starts_at"):
        waits = one.workload
        is_kin = waits.tenant_id == row.tenant_id
        if is_placed and not is_kin and held.isdisjoint(name for name, _ in one.room):
            continue
        may_see = policy.may(by, "see", waits.tenant)
        whose = waits.owner.shown_name if may_see else _("another person")
        text = _(
            "Its room is promised from %(at)s on to a training of %(who)s, which would wait longer."
        )
        at = f"{one.starts_at:%H:%M UTC on %d %B}"
        text %= {"at": at, "who": whose}
        raise Refused(text, "promised", 409)


def _check_holds(nodes: set[str] | None, before: datetime, after: datetime) -> None:
    """What would have left a node before an admin holds it stays no longer than that.

    Args:
        nodes: where it is; None: a part of it may still come to any.
    """
    holds = NodeHold.objects.filter(from_at__gte=before, from_at__lt=after)
    if nodes is not None:
        holds = holds.filter(node__in=nodes)
    hold = holds.first()
    if hold is not None:
        text = _("It would outlast a hold of its node: %(why)s.")
        if nodes is None:
            text = _("A part of it has no node yet and might outlast a hold: %(why)s.")
        text %= {"why": hold.why}
        raise Refused(text, "held", 409)
