"""Everything that changes tenants on somebody's behalf: database rows only, never the cluster."""

from typing import Any

from django.db import transaction
from django.utils import timezone

from portal import live
from portal.catalog import get_catalog
from portal.cluster.names import namespace_name
from tenants.models import ApiToken, AuditEntry, Tenant, User


def record(
    *,
    by: User | None,
    verb: str,
    target: Any,
    source_address: str = "",
    detail: dict[str, Any] | None = None,
) -> None:
    """One audit row; called inside the transaction of the change that it tells of."""
    AuditEntry.objects.create(
        actor=by,
        actor_name=by.username if by else "homeport",
        verb=verb,
        kind=type(target).__name__.lower(),
        object_id=str(target.pk),
        object_name=str(target)[:200],
        source_address=source_address[:64],
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
    tenant, is_new = Tenant.objects.living().get_or_create(
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


def welcome(*, user: User, source_address: str = "") -> None:
    """Somebody signs in: everybody but an admin is given a namespace, once.

    Whose namespace was purged is not given another one unasked.
    """
    if not user.is_admin and not Tenant.objects.filter(owner=user).exists():
        ensure_tenant(user=user, source_address=source_address)


@transaction.atomic
def create_token(*, by: User, name: str, source_address: str = "") -> tuple[ApiToken, str]:
    """A new API token of the user and its plain text, shown this once."""
    token, plain = ApiToken.issue(user=by, name=name)
    record(by=by, verb="create", target=token, source_address=source_address)
    return token, plain


@transaction.atomic
def revoke_token(*, by: User, token: ApiToken, source_address: str = "") -> None:
    """Makes a token useless at once."""
    record(by=by, verb="revoke", target=token, source_address=source_address)
    token.delete()


def find_token(plain: str) -> ApiToken | None:
    """The live token of this plain text, with its user; None when unknown, expired or disabled."""
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
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
    return token
