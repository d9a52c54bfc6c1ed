"""What somebody's change of a workload leaves behind: a row of the audit trail, and news of it."""

from typing import Any

from django.db import transaction

from jobs.kinds.registry import KINDS
from jobs.models import Workload
from portal import live
from tenants.audit import record as trail
from tenants.models import User


def record(
    *,
    by: User,
    verb: str,
    workload: Workload,
    detail: dict[str, Any] | None = None,
) -> None:
    """One audit row; called inside the transaction of the change that it tells of."""
    kind = KINDS[workload.kind].record_kind
    # Where the trail calls several kinds the same, it is told which of them it was.
    which = {"kind": workload.kind} if workload.kind != kind else {}
    trail.record(
        by=by,
        verb=verb,
        target=trail.AuditTarget(kind, workload.name, str(workload.pk)),
        detail={**which, **(detail or {})},
    )


def tell(workload: Workload) -> None:
    """After the commit: browsers re-read the workload, the reconciler looks at it."""

    def send() -> None:
        live.wake_reconciler()
        tell_browsers(workload)

    transaction.on_commit(send)


def tell_browsers(workload: Workload) -> None:
    """That it has a new revision."""
    kind = KINDS[workload.kind]
    live.changed(
        kind.record_kind, workload.pk, workload.revision, workload.tenant_id, workload.kind
    )
