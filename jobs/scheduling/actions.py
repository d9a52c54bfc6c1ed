"""What admins decide about the queue."""

from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from jobs.models import Node
from jobs.scheduling.models import Scheduling
from portal import live
from tenants import policy
from tenants.audit.record import differences, record
from tenants.models import User

FIELDS = ("fair_share", "aging_s")


def shown(chosen: Scheduling) -> dict[str, Any]:
    """The switches, as the audit trail tells them."""
    return {name: getattr(chosen, name) for name in FIELDS}


@transaction.atomic
def change(*, by: User, changes: Mapping[str, Any]) -> Scheduling:
    """Changes any of `FIELDS`; one audit row. The next look at the queue follows it.

    Raises:
        PermissionDenied: not an admin.
    """
    policy.require(by, "administer")
    chosen, _ = Scheduling.objects.select_for_update().get_or_create(pk=1)
    before = shown(chosen)
    for name, value in changes.items():
        setattr(chosen, name, value)
    chosen.save()
    if detail := differences(before, shown(chosen)):
        record(by=by, verb="change", target=chosen, detail=detail)
        transaction.on_commit(live.wake_reconciler)
    return chosen


@transaction.atomic
def use_again(*, by: User, node: Node) -> None:
    """New work may start on a node although trainings died there; one audit row. The next look follows it.

    Raises:
        PermissionDenied: not an admin.
    """
    policy.require(by, "administer")
    node.used_again_at = timezone.now()
    node.save(update_fields=["used_again_at"])
    record(by=by, verb="use-again", target=node)
    transaction.on_commit(live.wake_reconciler)
