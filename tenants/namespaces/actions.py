"""The verbs of a namespace's life: suspend, resume, delete, restore, purge; intent in rows only.

    active <-> suspended;   both -> deleted (7 days of grace) -> restored, or purged for ever

The reconciler makes the cluster follow (`tenants/reconcile`), and the jobs' part
of it ends what runs, because it reads the same intent. Nothing here deletes data: only a purge does,
and it asks for the namespace's name, after the days of grace or with a second name typed.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from portal import live
from portal.errors import FieldError, Refused
from tenants import policy
from tenants.actions import ensure_tenant, record
from tenants.models import Tenant, User
from tenants.quota.rules import change_quota

GRACE = timedelta(days=7)
WHY_MAX = 500  # characters of a reason

Desired = Tenant.Desired


@transaction.atomic
def create(
    *, by: User, owner: str, quota: Mapping[str, int] | None = None, source_address: str = ""
) -> Tenant:
    """A namespace for somebody who has none: an admin for anybody, everybody else for themselves.

    Args:
        owner: user name.
        quota: kind -> amount, as `QuotaSerializer` gives it; what is absent is the default.

    Raises:
        PermissionDenied, Refused: see there, and `tenants.quota.rules.change_quota`.
    """
    if not policy.may(by, "manage_tenants") and (owner != by.username or quota):
        raise PermissionDenied(_("Only an admin makes namespaces for others."))
    user = User.objects.filter(username=owner).first()
    if user is None:
        text = _("There is nobody with the user name “%(name)s”.") % {"name": owner[:80]}
        raise Refused([FieldError("owner", "not_found", text)])
    if not user.is_active:
        text = _("The account of %(name)s is disabled.") % {"name": user.shown_name}
        raise Refused([FieldError("owner", "account_disabled", text)])
    there = Tenant.objects.current_tenant_of(user)
    if there is not None:
        words = {"name": user.shown_name, "namespace": there.namespace}
        text = _("%(name)s has a namespace already: %(namespace)s") % words
        raise Refused([FieldError("owner", "has_tenant", text)], status=409)
    tenant = ensure_tenant(user=user, by=by, source_address=source_address)
    if quota:
        change_quota(by=by, tenant=tenant, quota=quota, source_address=source_address)
        tenant.refresh_from_db()
    return tenant


def verbs_for(tenant: Tenant) -> tuple[str, ...]:
    """What can be done with a namespace as it is wanted now, the likeliest first."""
    by_desire: dict[str, tuple[str, ...]] = {
        Desired.ACTIVE: ("suspend", "delete"),
        Desired.SUSPENDED: ("resume", "delete"),
        Desired.DELETED: ("restore", "purge"),
    }
    return by_desire.get(tenant.desired, ()) if tenant.state != Tenant.State.GONE else ()


def check_may_manage(by: User, tenant: Tenant) -> None:
    """Before the words of a verb are read, of which somebody else is to hear nothing.

    Raises:
        PermissionDenied: not an admin.
    """
    policy.require(by, "manage_tenants", tenant)


def _locked(by: User, tenant: Tenant) -> Tenant:
    """The row as it is now, for us alone until the transaction ends.

    Raises:
        PermissionDenied: not an admin.
        Refused: it is gone, or about to be.
    """
    check_may_manage(by, tenant)
    now: Tenant = Tenant.objects.select_for_update().get(pk=tenant.pk)
    if now.state == Tenant.State.GONE:
        text = _("This namespace was purged. What is left of it is its history.")
        raise Refused(text, "tenant_gone", 409)
    return now


def _wrong_state(text: str) -> Refused:
    return Refused(text, "wrong_state", 409)


def _intend(tenant: Tenant, desired: str, **more: Any) -> None:
    """Writes what is wanted from now on, and tells the reconciler and browsers after the commit."""
    fields = {
        "desired": desired,
        "desired_at": timezone.now(),
        "desired_why": "",
        "purge_after": None,
        "purge_data": "",
        **more,
    }
    Tenant.objects.filter(pk=tenant.pk).update(
        revision=F("revision") + 1, changed_at=timezone.now(), **fields
    )
    tenant.refresh_from_db()
    pk, revision = tenant.pk, tenant.revision

    def tell() -> None:
        live.wake_reconciler()
        live.changed("tenant", pk, revision, pk)

    transaction.on_commit(tell)


@transaction.atomic
def suspend(*, by: User, tenant: Tenant, why: str = "", source_address: str = "") -> Tenant:
    """Nothing runs any more and nothing new starts; data, quota and objects are kept.

    Harmless for one that is suspended.

    Raises:
        PermissionDenied, Refused: see there; also for one that is being deleted.
    """
    row = _locked(by, tenant)
    if row.desired == Desired.SUSPENDED:
        return row
    if row.desired != Desired.ACTIVE:
        raise _wrong_state(_("It is being deleted, and nothing runs in it. Restore it first."))
    _intend(row, Desired.SUSPENDED, desired_why=why)
    detail = {"why": why} if why else {}
    record(by=by, verb="suspend", target=row, source_address=source_address, detail=detail)
    return row


@transaction.atomic
def resume(*, by: User, tenant: Tenant, source_address: str = "") -> Tenant:
    """A suspended namespace is open again; trainings that were stopped are not started by it.

    Raises:
        PermissionDenied, Refused: see there; also for one that is being deleted.
    """
    row = _locked(by, tenant)
    if row.desired == Desired.ACTIVE:
        return row
    if row.desired != Desired.SUSPENDED:
        raise _wrong_state(_("It is being deleted. Restore it instead."))
    _intend(row, Desired.ACTIVE)
    record(by=by, verb="resume", target=row, source_address=source_address)
    return row


@transaction.atomic
def delete(
    *, by: User, tenant: Tenant, confirm: str, data: str, why: str = "", source_address: str = ""
) -> Tenant:
    """Closes a namespace for good, with days of grace in which everything can be restored.

    Nothing is removed: the namespace stays, with no quota and no workload, until an admin purges
    it. Asked again with another choice for the data, the days of grace begin anew.

    Args:
        confirm: the namespace's name, typed.
        data: what a purge does to the volumes, "keep" or "delete".

    Raises:
        PermissionDenied, Refused: see there.
    """
    row = _locked(by, tenant)
    _check_typed(row, confirm)
    if data == "archive":
        text = _("Archiving the data is not built yet. Keep it, or delete it.")
        raise Refused([FieldError("data", "not_available_yet", text)])
    if not data:
        text = _("Say what becomes of the data: keep or delete.")
        raise Refused([FieldError("data", "required", text)])
    if data not in Tenant.Data.values:
        text = _("Choose: keep or delete.")
        raise Refused([FieldError("data", "invalid_choice", text)])
    if row.desired == Desired.PURGED:
        raise _wrong_state(_("It is being purged already."))
    if row.desired == Desired.DELETED and row.purge_data == data:
        return row
    _intend(
        row,
        Desired.DELETED,
        desired_why=why,
        purge_after=timezone.now() + GRACE,
        purge_data=data,
    )
    detail = {"data": data} | ({"why": why} if why else {})
    record(by=by, verb="delete", target=row, source_address=source_address, detail=detail)
    return row


@transaction.atomic
def restore(*, by: User, tenant: Tenant, source_address: str = "") -> Tenant:
    """Takes a delete back while nothing is removed: the namespace is open again, with its data.

    Raises:
        PermissionDenied, Refused: see there; also when a purge has begun.
    """
    row = _locked(by, tenant)
    if row.desired == Desired.ACTIVE:
        return row
    if row.desired == Desired.PURGED:
        raise _wrong_state(_("Its purge has begun. It is too late to restore it."))
    if row.desired != Desired.DELETED:
        raise _wrong_state(_("It is not being deleted. Resume it instead."))
    _intend(row, Desired.ACTIVE)
    record(by=by, verb="restore", target=row, source_address=source_address)
    return row


@transaction.atomic
def purge(
    *, by: User, tenant: Tenant, confirm: str, confirm_early: str = "", source_address: str = ""
) -> Tenant:
    """Removes a deleted namespace from the cluster for ever, and its data if that was chosen.

    Args:
        confirm: the namespace's name, typed.
        confirm_early: the owner's user name, typed; needed while the days of grace last.

    Raises:
        PermissionDenied, Refused: see there; also for one that was not deleted before.
    """
    row = _locked(by, tenant)
    if row.desired == Desired.PURGED:
        return row
    if row.desired != Desired.DELETED:
        raise _wrong_state(_("Only a deleted namespace can be purged. Delete it first."))
    _check_typed(row, confirm)
    is_early = row.purge_after is not None and timezone.now() < row.purge_after
    if is_early:
        _check_early(row, confirm_early)
    _intend(
        row,
        Desired.PURGED,
        desired_why=row.desired_why,
        purge_after=row.purge_after,
        purge_data=row.purge_data,
    )
    detail = {"data": row.purge_data, "early": is_early}
    record(by=by, verb="purge", target=row, source_address=source_address, detail=detail)
    return row


def _check_typed(tenant: Tenant, typed: str) -> None:
    if typed.strip() != tenant.namespace:
        text = _("Type the name of the namespace exactly: %(name)s") % {"name": tenant.namespace}
        raise Refused([FieldError("confirm", "wrong_confirmation", text)])


def _check_early(tenant: Tenant, typed: str) -> None:
    owner = tenant.owner.username
    if typed.strip() == owner:
        return
    text = _(
        "Its days of grace last until %(until)s, and until then it can be restored. To purge it now "
        "all the same, type its owner's user name too: %(owner)s"
    )
    assert tenant.purge_after is not None
    words = {"until": f"{tenant.purge_after:%d %b %Y, %H:%M} UTC", "owner": owner}
    code = "wrong_confirmation" if typed else "grace_not_over"
    error = FieldError("confirm_early", code, text % words)
    raise Refused([error], status=400 if typed else 409)


# What pages and REST can ask for, by the word in the address; `serializers.py` knows their words.
VERBS: dict[str, Callable[..., Tenant]] = {
    "suspend": suspend,
    "resume": resume,
    "delete": delete,
    "restore": restore,
    "purge": purge,
}
