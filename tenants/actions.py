"""Everything that changes tenants on somebody's behalf: database rows only, never the cluster."""

from datetime import timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from portal import live
from portal.catalog import get_catalog
from portal.cluster.names import namespace_name
from portal.web.refusals import if_there_is_room
from tenants import policy
from tenants.models import TOKEN_LIFETIME, ApiToken, AuditEntry, Tenant, User


def record(
    *,
    by: User | None,
    verb: str,
    target: Any,
    source_address: str = "",
    detail: dict[str, Any] | None = None,
    result: str = AuditEntry.Result.DONE,
) -> None:
    """One audit row; called inside the transaction of the change that it tells of.

    Args:
        by: who; None: Homeport itself.
        target: the row that was changed, as it is named from now on.
        detail: what else there is to know; `before` and `after` where something was changed.
    """
    AuditEntry.objects.create(
        actor=by,
        actor_name=by.username if by else "homeport",
        verb=verb,
        kind=target._meta.model_name,
        object_id=str(target.pk or ""),
        object_name=str(target)[:200],
        source_address=source_address[:64],
        result=result,
        detail=detail or {},
    )


@transaction.atomic
def ensure_tenant(*, user: User, by: User | None = None, source_address: str = "") -> Tenant:
    """The user's tenant; asked for now if there is none. The reconciler provisions it.

    Args:
        by: who asks, when that is not the user.
    """
    quota = get_catalog().default_quota
    number = Tenant.objects.filter(owner=user).count() + 1
    # Two requests at once agree: a person has one living tenant, and names are unique.
    tenant, is_new = Tenant.objects.existing().get_or_create(
        owner=user,
        defaults={
            "team": user.team,
            "namespace": namespace_name(user.username, user.pk, number),
            "quota_cpu_millicores": quota.cpu_millicores,
            "quota_memory_bytes": quota.memory_bytes,
            "quota_gpu_count": quota.gpu_count,
            "quota_pods": quota.pods,
            "quota_nodeports": quota.nodeports,
            "data_volume_bytes": quota.data_volume_bytes,
            "log_volume_bytes": quota.log_volume_bytes,
        },
    )
    if is_new:
        record(by=by or user, verb="create", target=tenant, source_address=source_address)
        transaction.on_commit(live.wake_reconciler)
    return tenant


def on_sign_in(*, user: User, source_address: str = "") -> None:
    """Somebody signs in: everybody but an admin is given a namespace, once.

    Whose namespace was purged is not given another one unasked.
    """
    if not policy.may(user, "administer") and not Tenant.objects.filter(owner=user).exists():
        ensure_tenant(user=user, source_address=source_address)


def full_scope(user: User) -> str:
    """The scope with which a token may do all that its person may do."""
    return ApiToken.Scope.ADMIN if policy.may(user, "administer") else ApiToken.Scope.SUBMIT


@transaction.atomic
def create_token(
    *,
    by: User,
    name: str,
    scope: str = "",
    lifetime: timedelta = TOKEN_LIFETIME,
    source_address: str = "",
) -> tuple[ApiToken, str]:
    """A new API token of the user and its plain text, shown this once.

    Args:
        scope: of `ApiToken.Scope`; empty: all that the person may do.
        lifetime: at most `TOKEN_LIFETIME`.

    Raises:
        PermissionDenied: the scope `admin` for somebody who is no admin.
    """
    scope = scope or full_scope(by)
    if scope == ApiToken.Scope.ADMIN and not policy.may(by, "administer"):
        raise PermissionDenied(_("Only admins may have a token of the scope admin."))
    token, plain = ApiToken.issue(user=by, name=name, scope=scope, lifetime=lifetime)
    detail = {"scope": token.scope, "ends": token.expires_at.date().isoformat()}
    record(by=by, verb="create", target=token, source_address=source_address, detail=detail)
    return token, plain


@transaction.atomic
def revoke_token(*, by: User, token: ApiToken, source_address: str = "") -> None:
    """Makes a token useless at once."""
    record(by=by, verb="revoke", target=token, source_address=source_address)
    token.delete()


def find_token(plain: str) -> ApiToken | None:
    """The live token of this plain text, with its user; None when unknown, expired or disabled.

    Without the scope `admin` the user is capped: an admin acts as a researcher.
    """
    now = timezone.now()
    token = (
        ApiToken.objects.select_related("user")
        .filter(digest=ApiToken.digest_of(plain), expires_at__gt=now, user__is_active=True)
        .first()
    )
    if token is None:
        return None
    # Once a minute is precise enough for "last used", and keeps reads from writing.
    if token.last_used_at is None or (now - token.last_used_at).total_seconds() > 60:
        with if_there_is_room():
            ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
            User.objects.filter(pk=token.user_id).update(last_seen_at=now)
    token.user.is_capped = token.scope != ApiToken.Scope.ADMIN
    return token
