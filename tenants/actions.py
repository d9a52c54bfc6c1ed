"""Everything that changes tenants on somebody's behalf: database rows only, never the cluster."""

from collections.abc import Collection
from datetime import datetime, timedelta

from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from portal import live
from portal.catalog import get_catalog
from portal.cluster.names import namespace_name
from portal.errors import Refused
from portal.web.refusals import if_there_is_room
from tenants import policy
from tenants.audit.record import record
from tenants.models import TOKEN_LIFETIME, ApiToken, Tenant, User

MAX_TOKENS = 100  # of one person; those that have ended are not counted


def tell(tenant: Tenant) -> None:
    """After the commit: the reconciler looks at the row as it is now, and browsers read it again."""
    pk, revision = tenant.pk, tenant.revision

    def send() -> None:
        live.wake_reconciler()
        live.changed("tenant", pk, revision, pk)

    transaction.on_commit(send)


@transaction.atomic
def ensure_tenant(*, user: User, by: User | None = None) -> Tenant:
    """The user's tenant; asked for now if there is none. The reconciler provisions it.

    Args:
        by: who asks, when that is not the user.
    """
    number = Tenant.objects.filter(owner=user).count() + 1
    while Tenant.objects.filter(namespace=namespace_name(user.username, user.pk, number)).exists():
        number += 1  # one that was adopted, of which earlier ones are not known
    # Two requests at once agree: a person has one living tenant, and names are unique.
    tenant, is_new = Tenant.objects.existing().get_or_create(
        owner=user,
        defaults={
            "team": user.team,
            "namespace": namespace_name(user.username, user.pk, number),
            **default_columns(),
        },
    )
    if is_new:
        record(by=by or user, verb="create", target=tenant)
        transaction.on_commit(live.wake_reconciler)
    return tenant


def default_columns() -> dict[str, int]:
    """What the catalogue gives everybody, by columns of `Tenant`."""
    quota = get_catalog().default_quota
    return {
        "quota_cpu_millicores": quota.cpu_millicores,
        "quota_memory_bytes": quota.memory_bytes,
        "quota_gpu_count": quota.gpu,
        "quota_pods": quota.pods,
        "quota_nodeports": quota.nodeports,
        "data_volume_bytes": int(quota.data_volume),
        "log_volume_bytes": int(quota.log_volume),
    }


def on_sign_in(*, user: User) -> None:
    """Somebody signs in: everybody but an admin is given a namespace, once.

    Whose namespace was purged is not given another one unasked.
    """
    if not policy.may(user, "administer") and not Tenant.objects.filter(owner=user).exists():
        ensure_tenant(user=user)


def full_scope(user: User) -> str:
    """The scope with which a token may do all that its person may do."""
    return ApiToken.Scope.ADMIN if policy.may(user, "administer") else ApiToken.Scope.SUBMIT


@transaction.atomic
def create_token(
    *, by: User, name: str, scope: str = "", lifetime: timedelta = TOKEN_LIFETIME
) -> tuple[ApiToken, str]:
    """A new API token of the user and its plain text, shown this once.

    Args:
        scope: of `ApiToken.Scope`; empty: all that the person may do.
        lifetime: at most `TOKEN_LIFETIME`.

    Raises:
        PermissionDenied: the scope `admin` for somebody who is no admin.
        Refused: there is no room for one more.
    """
    if ApiToken.objects.filter(user=by, expires_at__gt=timezone.now()).count() >= MAX_TOKENS:
        text = _("You have %(most)s API tokens. Revoke those that you no longer use.")
        raise Refused(text % {"most": MAX_TOKENS}, "too_many_tokens", 409)
    scope = scope or full_scope(by)
    if scope == ApiToken.Scope.ADMIN and not policy.may(by, "administer"):
        raise PermissionDenied(_("Only admins may have a token of the scope admin."))
    token, plain = ApiToken.issue(user=by, name=name, scope=scope, lifetime=lifetime)
    detail = {"scope": token.scope, "ends": token.expires_at.date().isoformat()}
    record(by=by, verb="create", target=token, detail=detail)
    return token, plain


@transaction.atomic
def revoke_token(*, by: User, token: ApiToken) -> None:
    """Makes a token useless at once."""
    record(by=by, verb="revoke", target=token)
    ApiToken.objects.filter(pk=token.pk).delete()


def token_of(header: str) -> str | None:
    """The plain token of an `Authorization: Token hp_...`; None when it is of another kind."""
    word, _space, plain = header.partition(" ")
    return plain.strip() if word.lower() == "token" else None


def find_token(plain: str) -> ApiToken | None:
    """The live token of this plain text, with its user; None when unknown, expired or disabled.

    The user acts within the token's scope.
    """
    return find_tokens([plain]).get(plain)


def find_tokens(plains: Collection[str]) -> dict[str, ApiToken]:
    """The live ones of these plain texts, each with a user of its own; see `find_token`."""
    now = timezone.now()
    asked = {ApiToken.digest_of(plain): plain for plain in plains}
    found = list(
        ApiToken.objects.select_related("user").filter(
            digest__in=asked, expires_at__gt=now, user__is_active=True
        )
    )
    # Once a minute is precise enough for "last used", and keeps reads from writing.
    used = [token for token in found if _was_used_before(token, now)]
    if used:
        with if_there_is_room():
            ApiToken.objects.filter(pk__in=[token.pk for token in used]).update(last_used_at=now)
            people = {token.user_id for token in used}
            User.objects.filter(pk__in=people).update(last_seen_at=now)
    for token in found:
        token.user.token_scope = token.scope
    return {asked[token.digest]: token for token in found}


def _was_used_before(token: ApiToken, now: datetime) -> bool:
    """Whether what is kept of its use is older than a minute."""
    return token.last_used_at is None or (now - token.last_used_at).total_seconds() > 60
