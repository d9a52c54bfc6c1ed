"""The verbs of a namespace's life: suspend, resume, delete, restore, purge; intent in rows only.

    active <-> suspended;   both -> deleted (7 days of grace) -> restored, or purged for ever

The reconciler makes the cluster follow (`tenants/reconcile`), and the jobs' part
of it ends what runs, because it reads the same intent. Nothing here deletes data: only a purge does,
and it asks for the namespace's name, after the days of grace or with a second name typed.

Every verb raises `PermissionDenied` for whoever is no admin, and `Refused` for a namespace that is gone or in
the wrong state, or for words that are not those that were asked for.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.errors import FieldError, Refused
from tenants import policy
from tenants.actions import ensure_tenant, tell
from tenants.audit.record import record
from tenants.models import Tenant, User
from tenants.quota.rules import change_quota, check_parts
from tenants.quota.weights import preview

GRACE = timedelta(days=7)
WHY_MAX = 500  # characters of a reason

Desired = Tenant.Desired


@transaction.atomic
def create(
    *,
    by: User,
    owner: str,
    quota: Mapping[str, int] | None = None,
    is_confirmed: bool = False,
) -> Tenant:
    """A namespace for somebody who has none: an admin for anybody, everybody else for themselves.

    Args:
        owner: user name.
        quota: kind -> amount, as `QuotaSerializer` gives it; what is absent is the default.
        is_confirmed: also where namespaces by weight would have nothing of a kind, or less than they
            use. Only an admin is asked: nobody else sets the quota that a namespace begins with.

    Raises:
        PermissionDenied: no admin, and it is for somebody else or has a quota of its own.
        Refused: it cannot be whose it is to be; 409, there is one already, or it is to be confirmed.
    """
    if not policy.may(by, "manage_tenants") and (owner != by.username or quota):
        raise PermissionDenied(_("Only an admin makes namespaces for others."))
    user = User.objects.filter(username=owner).first()
    if user is None:
        text = _("There is no person with the user name “%(name)s”.") % {"name": owner[:80]}
        raise Refused([FieldError("owner", "not_found", text)])
    if not user.is_active:
        text = _("The account of %(name)s is disabled.") % {"name": user.shown_name}
        raise Refused([FieldError("owner", "account_disabled", text)])
    there = Tenant.objects.current_tenant_of(user)
    if there is not None:
        words = {"name": user.shown_name, "namespace": there.namespace}
        text = _("%(name)s has a namespace already: %(namespace)s") % words
        raise Refused([FieldError("owner", "has_tenant", text)], status=409)
    tenant = ensure_tenant(user=user, by=by)
    if not is_confirmed and policy.may(by, "manage_tenants"):
        check_parts(preview(tenant, quota=quota, is_new=True))
    if quota:
        change_quota(by=by, tenant=tenant, quota=quota, is_confirmed=True)
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


def _locked(by: User, tenant: Tenant) -> Tenant:
    """The row as it is now, for us alone until the transaction ends."""
    policy.require(by, "manage_tenants", tenant)
    now: Tenant = Tenant.objects.select_for_update().get(pk=tenant.pk)
    if now.state == Tenant.State.GONE:
        text = _("This namespace was purged. Only its history is left.")
        raise Refused(text, "tenant_gone", 409)
    return now


def _wrong_state(text: str) -> Refused:
    return Refused(text, "wrong_state", 409)


def _carry_out(
    by: User, verb: str, tenant: Tenant, detail: dict[str, Any] | None = None, **wanted: Any
) -> Tenant:
    """Writes and records what is wanted from now on; the row as it is then."""
    nothing = {"desired_why": "", "purge_after": None, "purge_data": ""}
    now = timezone.now()
    columns = {**nothing, "desired_at": now, "changed_at": now, **wanted}
    Tenant.objects.filter(pk=tenant.pk).update(revision=F("revision") + 1, **columns)
    row: Tenant = Tenant.objects.get(pk=tenant.pk)
    record(by=by, verb=verb, target=row, detail=detail)
    tell(row)
    return row


@transaction.atomic
def suspend(*, by: User, tenant: Tenant, why: str = "") -> Tenant:
    """Nothing runs any more and nothing new starts; data, quota and objects are kept.

    Harmless for one that is suspended.
    """
    row = _locked(by, tenant)
    if row.desired == Desired.SUSPENDED:
        return row
    if row.desired != Desired.ACTIVE:
        raise _wrong_state(_("It is deleted, and nothing runs in it. Restore it first."))
    detail = {"why": why} if why else {}
    return _carry_out(by, "suspend", row, detail, desired=Desired.SUSPENDED, desired_why=why)


@transaction.atomic
def resume(*, by: User, tenant: Tenant) -> Tenant:
    """A suspended namespace is open again; trainings that were stopped are not started by it."""
    row = _locked(by, tenant)
    if row.desired == Desired.ACTIVE:
        return row
    if row.desired != Desired.SUSPENDED:
        raise _wrong_state(_("It is deleted. Restore it instead."))
    return _carry_out(by, "resume", row, desired=Desired.ACTIVE)


@transaction.atomic
def delete(*, by: User, tenant: Tenant, confirm: str, data: str, why: str = "") -> Tenant:
    """Closes a namespace for good, with days of grace in which everything can be restored.

    Nothing is removed: the namespace stays, with no quota and no workload, until an admin purges
    it. Asked again with another choice for the data, the days of grace begin anew.

    Args:
        confirm: the namespace's name, typed.
        data: what a purge does to volumes and to what the object store keeps, "keep" or "delete".
    """
    row = _locked(by, tenant)
    _check_typed(row, confirm)
    if data == "archive":
        text = _("Archiving the data is not available. Keep it, or delete it.")
        raise Refused([FieldError("data", "not_available_yet", text)])
    if not data:
        text = _("Choose what happens to the data: keep or delete.")
        raise Refused([FieldError("data", "required", text)])
    if data not in Tenant.Data.values:
        text = _("Choose: keep or delete.")
        raise Refused([FieldError("data", "invalid_choice", text)])
    if row.desired == Desired.PURGED:
        raise _wrong_state(_("It is being purged already."))
    if row.desired == Desired.DELETED and row.purge_data == data:
        return row
    wanted = {"desired": Desired.DELETED, "desired_why": why, "purge_data": data}
    detail = {"data": data} | ({"why": why} if why else {})
    return _carry_out(by, "delete", row, detail, **wanted, purge_after=timezone.now() + GRACE)


@transaction.atomic
def restore(*, by: User, tenant: Tenant) -> Tenant:
    """Takes a delete back while nothing is removed: the namespace is open again, with its data."""
    row = _locked(by, tenant)
    if row.desired == Desired.ACTIVE:
        return row
    if row.desired == Desired.PURGED:
        raise _wrong_state(_("Its purge has started. It can no longer be restored."))
    if row.desired != Desired.DELETED:
        raise _wrong_state(_("It is not deleted. Resume it instead."))
    return _carry_out(by, "restore", row, desired=Desired.ACTIVE)


@transaction.atomic
def purge(*, by: User, tenant: Tenant, confirm: str, confirm_early: str = "") -> Tenant:
    """Removes a deleted namespace from the cluster for ever, and its data if that was chosen.

    Args:
        confirm: the namespace's name, typed.
        confirm_early: the owner's user name, typed; needed while the days of grace last.
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
    kept = {name: getattr(row, name) for name in ("desired_why", "purge_after", "purge_data")}
    detail = {"data": row.purge_data, "early": is_early}
    return _carry_out(by, "purge", row, detail, desired=Desired.PURGED, **kept)


def _check_typed(tenant: Tenant, typed: str) -> None:
    if typed.strip() != tenant.namespace:
        text = _("Type the name of the namespace exactly: %(name)s") % {"name": tenant.namespace}
        raise Refused([FieldError("confirm", "wrong_confirmation", text)])


def _check_early(tenant: Tenant, typed: str) -> None:
    owner = tenant.owner.username
    if typed.strip() == owner:
        return
    text = _(
        "Its grace period lasts until %(until)s, and until then it can be restored. To purge "
        "it now, type its owner's user name too: %(owner)s"
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
