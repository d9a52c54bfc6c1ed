"""Everything that changes secrets on somebody's behalf: rows only, never the cluster."""

import re
import string
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs import limits
from jobs.kinds.training.variables import variable_problem
from jobs.models import UserSecret, Workload
from jobs.secrets.sealing import seal
from portal import live, room
from portal.characters import first_outside
from portal.errors import FieldError, Refused
from tenants import policy
from tenants.audit.record import record
from tenants.models import Tenant, User

MAX_SECRETS = 32  # of one person
_NAME_CHARS = frozenset(f"{string.ascii_lowercase}{string.digits}-")
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?")


@dataclass(frozen=True)
class NamedUse:
    """An unfinished workload that names a secret; `use` is env, files or git."""

    id: UUID
    kind: str
    name: str
    use: str


def own(tenant: Tenant | None) -> QuerySet[UserSecret]:
    """The secrets of a namespace; none of nobody's."""
    return UserSecret.objects.filter(tenant=tenant, is_deleted=False).order_by("name")


def of_others(user: User) -> QuerySet[UserSecret]:
    """Whose names somebody may see besides the own ones, by their owners."""
    seen = UserSecret.objects.filter(policy.within_tenants(user, "see"), is_deleted=False)
    others = seen.exclude(tenant__owner=user).select_related("tenant__owner")
    return others.order_by("tenant__owner__username", "name")


def uses(tenant: Tenant | None) -> Mapping[str, list[NamedUse]]:
    """Name of a secret -> what names it and has not ended, the oldest first. One query."""
    found: dict[str, list[NamedUse]] = defaultdict(list)
    rows = Workload.objects.filter(tenant=tenant).unfinished().order_by("created_at")
    columns = ("pk", "kind", "name", "spec__secrets", "spec__source__secret")
    for pk, kind, name, named, git in rows.values_list(*columns):
        for secret, use in [*(named or {}).items(), *([(git, "git")] if git else [])]:
            found[secret].append(NamedUse(pk, kind, name, use))
    return found


def _name_problem(name: str) -> str:
    if outside := first_outside(name, _NAME_CHARS):
        text = _("Use letters from a to z, digits and dashes only; %(outside)s is none of these.")
        return text % {"outside": outside}
    return _(
        "Use 1 to 40 letters from a to z, digits and dashes, with no dash at the beginning or the end."
    )


def put(
    *, by: User, tenant: Tenant, name: str, kind: str, keys: list[str], values: Mapping[str, str]
) -> UserSecret:
    """Keeps new values under a name, in place of those that there were: attempts keep what they began with.

    Args:
        keys: what of it is shown.
        values: as the cluster is to have them.

    Raises:
        Refused: see there.
        NoRoomError: too little of the disk is free.
    """
    policy.require(by, "keep_secrets", tenant)
    limits.check_pace(by)
    room.check()
    if not NAME.fullmatch(name):
        raise Refused([FieldError("name", "invalid_name", _name_problem(name))])
    with transaction.atomic():
        # With it `delete` and submits wait, too.
        now = Tenant.objects.select_for_update().get(pk=tenant.pk)
        if now.closed == "deleting":
            raise Refused(_("Your namespace is being deleted."), "tenant_deleted", 409)
        row = UserSecret.objects.select_for_update().filter(tenant=tenant, name=name).first()
        is_new = row is None or row.is_deleted
        if is_new:
            _check_count(tenant)
        elif row is not None:
            _check_change(row, kind, keys)
        row = row or UserSecret(tenant=tenant, name=name, revision=0)
        if not row.sealed:  # of one that is still on its way nobody has anything yet
            row.revision += 1
        row.revisions = sorted({*row.revisions, row.revision})
        row.kind, row.keys, row.sealed = kind, keys, seal(values)
        row.is_deleted, row.has_work, row.changed_at = False, True, timezone.now()
        row.save()
        detail = {"kind": kind, "keys": keys}
        record(by=by, verb="create" if is_new else "change", target=row, detail=detail)
        transaction.on_commit(live.wake_reconciler)
    return row


def _check_count(tenant: Tenant) -> None:
    if own(tenant).count() >= MAX_SECRETS:
        text = _("You have %(most)s secrets. Delete those that you no longer use.")
        raise Refused(text % {"most": MAX_SECRETS}, "too_many_secrets", 409)


def _check_change(row: UserSecret, kind: str, keys: Collection[str]) -> None:
    """What is used already must stay usable."""
    if kind != row.kind:
        text = _("This secret is of the kind %(kind)s, which stays; delete it to create another.")
        raise Refused([FieldError("kind", "contradiction", text % {"kind": row.kind})])
    if any(one.use == "env" for one in uses(row.tenant)[row.name]):
        wrong = [(key, problem) for key in keys if (problem := variable_problem(key))]
        if wrong:
            raise Refused([FieldError(f"data.{key}", *problem) for key, problem in wrong])


@transaction.atomic
def delete(*, by: User, secret: UserSecret) -> None:
    """Removes a secret; what has ended has no need of it.

    Raises:
        Refused: 409, what has not ended names it.
    """
    policy.require(by, "keep_secrets", secret.tenant)
    Tenant.objects.select_for_update().only("pk").get(pk=secret.tenant_id)
    if found := uses(secret.tenant)[secret.name]:
        raise Refused(in_use_text(found), "in_use", 409)
    changes: dict[str, Any] = {"is_deleted": True, "sealed": "", "keys": [], "has_work": True}
    now = UserSecret.objects.filter(pk=secret.pk, is_deleted=False)
    if now.update(**changes, changed_at=timezone.now()):
        record(by=by, verb="delete", target=secret)
        transaction.on_commit(live.wake_reconciler)


def in_use_text(found: Collection[NamedUse]) -> str:
    """Why a secret cannot be deleted."""
    text = ngettext(
        "%(count)s workload that has not ended uses this secret: %(names)s. Stop it or wait for its end.",
        "%(count)s workloads that have not ended use this secret: %(names)s. Stop them or wait for "
        "their end.",
        len(found),
    )
    names = ", ".join(one.name for one in list(found)[:3])
    return text % {"count": len(found), "names": names}
