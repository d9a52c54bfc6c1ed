"""Writes rows of the audit trail; nothing else does."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple

from tenants.models import AuditEntry, User

# Who they are that have no account: the portal itself, and whoever has not signed in.
HOMEPORT = "homeport"
SOMEBODY = "somebody"
BACKUP = "backup"  # kind of what `manage.py backup` has made
DOCTOR = "doctor"  # of what an admin's `homeport doctor` found; jobs/rules/check_results.py


_source_address: ContextVar[str] = ContextVar("source_address", default="")


@contextmanager
def asked_from(address: str) -> Iterator[None]:
    """What is recorded meanwhile was asked for from this address."""
    token = _source_address.set(address)
    try:
        yield
    finally:
        _source_address.reset(token)


class AuditTarget(NamedTuple):
    """What an entry is about, where it is no row of ours."""

    kind: str
    name: str
    pk: str = ""


def newest_backup_at() -> datetime | None:
    """When the last backup was whole; None: there was none. One query."""
    newest = AuditEntry.objects.filter(kind=BACKUP).order_by("-at").values_list("at", flat=True)
    return newest.first()


def newest_detail(kind: str) -> dict[str, Any]:
    """What the last entry about this kind says besides; empty: there is none. One query."""
    newest = AuditEntry.objects.filter(kind=kind).order_by("-at").values_list("detail", flat=True)
    return newest.first() or {}


UNKNOWN_PERSON = AuditTarget("user", "?")


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """`before` and `after` of what is another now, for `detail`; empty when nothing is."""
    names = [name for name in after if after[name] != before[name]]
    parts = {"before": before, "after": after}
    return {key: {name: part[name] for name in names} for key, part in parts.items() if names}


def record(
    *,
    by: User | str | None,
    verb: str,
    target: Any,
    source_address: str | None = None,
    detail: dict[str, Any] | None = None,
    result: str = AuditEntry.Result.DONE,
) -> None:
    """One audit row; called inside the transaction of the change that it tells of.

    Args:
        by: who; `SOMEBODY`, or None for `HOMEPORT`, where nobody has signed in.
        target: a `AuditTarget`, or the row that was changed, as it is named from now on.
        source_address: None: that of the request which is answered, if any.
        detail: what else there is to know; `before` and `after` where something was changed.
    """
    if not isinstance(target, AuditTarget):
        target = AuditTarget(target._meta.model_name, str(target), str(target.pk or ""))
    AuditEntry.objects.create(
        actor=by if isinstance(by, User) else None,
        actor_name=by.username if isinstance(by, User) else by or HOMEPORT,
        verb=verb,
        kind=target.kind,
        object_id=target.pk,
        object_name=target.name[:200],
        source_address=(_source_address.get() if source_address is None else source_address)[:64],
        result=result,
        detail=detail or {},
    )
