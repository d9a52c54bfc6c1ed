"""People, teams, tenants, and what the portal knows of a tenant's objects in the cluster."""

import hashlib
import secrets
import uuid
from datetime import timedelta
from functools import cached_property
from typing import Any, ClassVar

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.db.models import Q
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.catalog import borrowing
from portal.errors import Refused
from tenants import policy

TOKEN_LIFETIME = timedelta(days=90)
# Kind of resource -> column of the tenant, in the order of forms and answers.
QUOTA_COLUMNS = {
    "cpu": "quota_cpu_millicores",
    "memory": "quota_memory_bytes",
    "gpu": "quota_gpu_count",
    "pods": "quota_pods",
    "nodeports": "quota_nodeports",
}
# The same of a team's budget.
BUDGET_COLUMNS = {
    "cpu": "budget_cpu_millicores",
    "memory": "budget_memory_bytes",
    "gpu": "budget_gpu_count",
}

WEIGHT_MOST = 100  # of a team or namespace; the least is 1


def shown_name(username: str, first_name: str, last_name: str) -> str:
    """The full name of a person, or the user name where there is none."""
    return f"{first_name} {last_name}".strip() or username


class User(AbstractUser):
    """Somebody who signs in. `id` never changes and is never given to anybody else."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    role = models.CharField(
        max_length=16, choices=policy.AccountRole.choices, default=policy.NEW_ACCOUNT
    )
    team = models.ForeignKey(
        "Team", null=True, blank=True, on_delete=models.SET_NULL, related_name="members"
    )
    # By browser or token, to the minute.
    last_seen_at = models.DateTimeField(null=True, blank=True)

    # Of the token by which this person has signed in; without `admin` an admin acts as a researcher.
    # Empty: by a session. Never kept.
    token_scope = ""

    @cached_property
    def team_roles(self) -> frozenset[str]:
        """Roles in any team; asked once and kept as long as this object (a request)."""
        return policy.roles_in_teams(self)

    # For those who lie below `tenants/policy.py`:
    def may(self, verb: str) -> bool:
        """Whether this person may do this at all."""
        return policy.may(self, verb)

    def require(self, verb: str, tenant: "Tenant | None" = None) -> None:
        """
        Raises:
            NotAllowedError: this person may not do this.
        """
        policy.require(self, verb, tenant)

    @property
    def teams_led(self) -> list[str]:
        """Names of the teams that this person leads. One query, or none after `with_teams_led`."""
        return policy.teams_led(self)

    @property
    def state(self) -> str:
        """`active`, `invited` (has not come yet) or `disabled`."""
        if not self.is_active:
            return "disabled"
        has_come = self.last_login is not None or self.has_usable_password()
        return "active" if has_come else "invited"

    @property
    def shown_name(self) -> str:
        return shown_name(self.username, self.first_name, self.last_name)

    @property
    def tenant(self) -> "Tenant | None":
        """The person's home on the cluster, if there is one now. One query."""
        return Tenant.objects.current_tenant_of(self)


class TeamQuerySet(models.QuerySet["Team"]):
    """The only ways to look teams up on somebody's behalf."""

    def visible_to(self, user: Any) -> "TeamQuerySet":
        """The own team; those that the user leads; all of them for an admin."""
        if not (seen := policy.teams(user, "see")):
            return self
        return self.filter(Q(pk=user.team_id) | seen)

    def listed(self) -> "TeamQuerySet":
        """By name, with leads and `member_count`."""
        counted = self.annotate(member_count=models.Count("members", distinct=True))
        return counted.prefetch_related("leads").order_by("name")


class Team(models.Model):
    """A group of tenants with leads and a budget."""

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    name = models.CharField(max_length=63, unique=True)
    leads = models.ManyToManyField(User, related_name=policy.TEAMS_LED, blank=True)
    # The most that the quotas of its tenants may add up to; null: no limit.
    budget_cpu_millicores = models.BigIntegerField(null=True, blank=True)
    budget_memory_bytes = models.BigIntegerField(null=True, blank=True)
    budget_gpu_count = models.IntegerField(null=True, blank=True)
    # Against other teams, from 1 to WEIGHT_MOST.
    weight = models.SmallIntegerField(default=1, db_default=1)
    created_at = models.DateTimeField(default=timezone.now)

    objects: ClassVar[Any] = TeamQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    @property
    def budget(self) -> dict[str, int | None]:
        """cpu in millicores, memory in bytes, gpu; None: no limit."""
        return {kind: getattr(self, column) for kind, column in BUDGET_COLUMNS.items()}


class TenantQuerySet(models.QuerySet["Tenant"]):
    """The only ways to look tenants up on somebody's behalf."""

    def existing(self) -> "TenantQuerySet":
        """Those that have something in the cluster, or will."""
        return self.exclude(state=Tenant.State.GONE)

    def current_tenant_of(self, user: Any) -> "Tenant | None":
        """The one tenant that a person has now; those that were purged do not count."""
        return self.existing().filter(owner_id=user.pk).first()

    def own_of(self, user: Any) -> "Tenant":
        """The same, where the user is to run or to keep something.

        Raises:
            Refused: 409, an admin without a namespace.
        """
        found = self.current_tenant_of(user)
        if found is None:
            raise Refused(_("You have no namespace. Create one on the overview."), "no_tenant", 409)
        return found

    def visible_to(self, user: Any) -> "TenantQuerySet":
        """Own tenant; those of teams that the user leads; all of them for an admin.

        What was purged is history, for admins only.
        """
        shown = self if policy.may(user, "see_history") else self.existing()
        return shown.filter(policy.tenants(user, "see"))

    def find(self, user: Any, pk: uuid.UUID) -> "Tenant":
        """One that the user may see, with its owner and team.

        Raises:
            Http404: there is none, or it is not theirs to see.
        """
        return get_object_or_404(self.visible_to(user).select_related("owner", "team"), pk=pk)


class Tenant(models.Model):
    """A researcher's home on the cluster: one namespace, its quota and volumes.

    `state` follows the cluster (only the reconciler writes it); `desired` is what people asked.
    A row is never deleted: what was purged stays as history (`gone`), and its namespace's name is
    never used again. A person has one living tenant at most.
    """

    class State(models.TextChoices):
        PROVISIONING = "provisioning"
        ACTIVE = "active"
        SUSPENDED = "suspended"
        DELETING = "deleting"
        GONE = "gone"

    class Desired(models.TextChoices):
        ACTIVE = "active"
        SUSPENDED = "suspended"
        DELETED = "deleted"  # kept for the grace period, without workload
        PURGED = "purged"  # removed from the cluster for ever

    class Data(models.TextChoices):
        """What a purge does to the volumes."""

        KEEP = "keep"
        DELETE = "delete"

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(User, on_delete=models.PROTECT, related_name="tenants")
    team = models.ForeignKey(
        Team, null=True, blank=True, on_delete=models.SET_NULL, related_name="tenants"
    )
    # u-<slug>-<8 hex of the owner's id>[-n]; never reused (portal/cluster/names.py).
    namespace = models.CharField(max_length=63, unique=True)
    desired = models.CharField(max_length=16, choices=Desired.choices, default=Desired.ACTIVE)
    state = models.CharField(max_length=16, choices=State.choices, default=State.PROVISIONING)
    reason_text = models.TextField(blank=True, default="")
    reason_next_step = models.TextField(blank=True, default="")

    # --- when and why `desired` was last changed, and what a purge will do ---
    desired_at = models.DateTimeField(default=timezone.now)
    desired_why = models.TextField(blank=True, default="")  # shown to the owner
    purge_after = models.DateTimeField(null=True)  # end of the grace period
    purge_data = models.CharField(max_length=8, choices=Data.choices, blank=True, default="")
    # The reconciler's notes of a purge: {"namespace_uid", "volumes": [{"name", "uid", "claim"}]}.
    purge_memo = models.JSONField(default=dict)
    gone_at = models.DateTimeField(null=True)

    quota_cpu_millicores = models.BigIntegerField()
    quota_memory_bytes = models.BigIntegerField()
    quota_gpu_count = models.IntegerField()
    quota_pods = models.IntegerField()
    quota_nodeports = models.IntegerField()
    # Against the other namespaces of the team; of one without a team, against teams.
    weight = models.SmallIntegerField(default=1, db_default=1)
    # Then the reconciler writes cpu, memory and gpu of the quota: its part of the cluster by weight, which
    # grows and shrinks with that. So what is more than the whole quota waits, and is not impossible.
    quota_by_weight = models.BooleanField(default=False, db_default=False)
    data_volume_bytes = models.BigIntegerField()
    log_volume_bytes = models.BigIntegerField()

    # As the ResourceQuota's status says: {"cpu": millicores, "memory": bytes, "gpu": n, "pods": n}.
    observed_hard = models.JSONField(default=dict)
    observed_used = models.JSONField(default=dict)

    revision = models.BigIntegerField(default=1)
    created_at = models.DateTimeField(default=timezone.now)
    changed_at = models.DateTimeField(auto_now=True)

    objects: ClassVar[Any] = TenantQuerySet.as_manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["owner"], condition=~Q(state="gone"), name="one_living_tenant_per_person"
            )
        ]

    def __str__(self) -> str:
        return self.namespace

    @property
    def closed(self) -> str:
        """Empty while things of the tenant may run, else "suspended" or "deleting".

        What people asked counts before what is: somebody who restores a tenant may submit at once.
        """
        if self.desired in {self.Desired.DELETED, self.Desired.PURGED}:
            return "deleting"
        if self.state == self.State.GONE:
            return "deleting"
        is_open = self.desired == self.Desired.ACTIVE and self.state not in {
            self.State.SUSPENDED,
            self.State.DELETING,
        }
        return "" if is_open else "suspended"

    @property
    def counted_hard(self) -> dict[str, int]:
        """The quota as the cluster counts it; empty before it has, and while the tenant is closed,
        when the cluster's is down and says nothing of what the tenant may hold once it is open.

        What work of low priority may borrow beyond it is not the quota's."""
        if self.closed:
            return {}
        if borrowing() == "none":
            return dict(self.observed_hard)
        asked = self.quota
        return {
            kind: min(amount, asked.get(kind, amount))
            for kind, amount in self.observed_hard.items()
        }

    @property
    def quota(self) -> dict[str, int]:
        """What is asked for: cpu in millicores, memory in bytes, gpu, pods and nodeports."""
        return {kind: getattr(self, column) for kind, column in QUOTA_COLUMNS.items()}


class TenantObject(models.Model):
    """One object that a tenant is made of, and its state as last seen in the cluster."""

    class State(models.TextChoices):
        MISSING = "missing"
        WAITING = "waiting"
        READY = "ready"
        REFUSED = "refused"

    tenant = models.ForeignKey(Tenant, on_delete=models.CASCADE, related_name="objects_seen")
    position = models.SmallIntegerField()  # order of creation, order on the page
    kind = models.CharField(max_length=40)
    name = models.CharField(max_length=253)  # that of anything which holds up a removal, too
    state = models.CharField(max_length=16, choices=State.choices, default=State.MISSING)
    detail = models.TextField(blank=True, default="")
    repaired_count = models.IntegerField(default=0)
    since = models.DateTimeField(default=timezone.now)

    class Meta:
        constraints = [
            models.UniqueConstraint("tenant", "kind", "name", name="one_row_per_tenant_object")
        ]
        ordering = ["position"]

    def __str__(self) -> str:
        return f"{self.kind}/{self.name}"


class ApiToken(models.Model):
    """A token for REST and the command line; only its SHA-256 is kept."""

    class Scope(models.TextChoices):
        """What may be done with it; each may do what the one before it may."""

        READ = "read"  # look, nothing else
        SUBMIT = "submit"  # what a researcher or lead may do
        ADMIN = "admin"  # what an admin may do

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80, default="token")
    scope = models.CharField(max_length=16, choices=Scope.choices, default=Scope.SUBMIT)
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.name

    @staticmethod
    def digest_of(plain: str) -> str:
        return hashlib.sha256(plain.encode()).hexdigest()

    @classmethod
    def issue(
        cls,
        *,
        user: User,
        name: str,
        scope: str = Scope.SUBMIT,
        lifetime: timedelta = TOKEN_LIFETIME,
    ) -> tuple["ApiToken", str]:
        """A new token and its plain text, which is nowhere kept and cannot be shown again."""
        plain = "hp_" + secrets.token_urlsafe(32)
        token = cls.objects.create(
            user=user,
            name=name,
            scope=scope,
            digest=cls.digest_of(plain),
            expires_at=timezone.now() + min(lifetime, TOKEN_LIFETIME),
        )
        return token, plain


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    """Rows to read; what is written stays as it is."""

    def update(self, **kwargs: Any) -> int:
        raise TypeError("the audit trail is only ever added to")

    def delete(self) -> tuple[int, dict[str, int]]:
        raise TypeError("the audit trail is only ever added to")


class AuditEntry(models.Model):
    """Who changed what, from where, with which result. Rows are only ever added."""

    class Result(models.TextChoices):
        DONE = "done"
        REFUSED = "refused"

    at = models.DateTimeField(default=timezone.now, db_index=True)
    actor = models.ForeignKey(User, null=True, on_delete=models.SET_NULL)
    actor_name = models.CharField(max_length=150)
    verb = models.CharField(max_length=40)
    kind = models.CharField(max_length=40)
    object_id = models.CharField(max_length=64, blank=True)
    object_name = models.CharField(max_length=200, blank=True)
    source_address = models.CharField(max_length=64, blank=True)
    result = models.CharField(max_length=16, choices=Result.choices, default=Result.DONE)
    detail = models.JSONField(default=dict)

    objects: ClassVar[Any] = AuditQuerySet.as_manager()

    class Meta:
        ordering = ["-at", "-pk"]
        indexes = [models.Index(fields=["kind", "object_id"], name="audit_of_object")]

    def __str__(self) -> str:
        return f"{self.actor_name} {self.verb} {self.kind} {self.object_name}"

    def save(self, **kwargs: Any) -> None:
        if self.pk is not None:
            raise TypeError("the audit trail is only ever added to")
        super().save(**kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise TypeError("the audit trail is only ever added to")
