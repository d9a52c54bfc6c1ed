"""Namespaces whose quota is by weight: what they have of the cluster, and giving it to them anew."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from django.db.models import Exists, F, QuerySet
from django.utils import timezone

from tenants.models import BUDGET_COLUMNS, QUOTA_COLUMNS, Tenant
from tenants.quota.split import WeightedNamespace, split_quotas

# Those of a quota that a cluster has a number of; pods and NodePorts are always fixed.
KINDS = tuple(BUDGET_COLUMNS)


@dataclass(frozen=True)
class Share:
    """How the quota of one namespace comes about.

    Attributes:
        weight: its own, of `weights` in its team.
        team_weight: the team's, of `team_weights`; its own where it has no team.
        of_team: kind -> what the team has by weight.
        whole: kind -> what is split by weight.
    """

    weight: int
    weights: int
    team_weight: int
    team_weights: int
    of_team: Mapping[str, int]
    whole: Mapping[str, int]


def read_namespaces() -> list[WeightedNamespace]:
    """All that takes part in the split, or that it leaves alone; nothing while nobody has a quota by
    weight. One query.

    One by weight that is suspended or deleted takes no part, and its quota stays as it is until it is
    open again. A fixed quota counts also then: it comes back with its namespace.
    """
    sharing = Tenant.objects.existing().filter(quota_by_weight=True, desired=Tenant.Desired.ACTIVE)
    return _read(Tenant.objects.existing().filter(Exists(sharing)))


def _read(there: QuerySet[Tenant]) -> list[WeightedNamespace]:
    shut = (
        Tenant.objects.existing()
        .filter(quota_by_weight=True)
        .exclude(desired=Tenant.Desired.ACTIVE)
    )
    rows = there.exclude(pk__in=shut.values("pk")).order_by()
    columns = ("pk", "weight", "team_id", "team__weight", "quota_by_weight")
    return [
        WeightedNamespace(
            pk,
            weight,
            dict(zip(KINDS, quota, strict=True)),
            team_id,
            team_weight or 1,
            is_fixed=not by_weight,
        )
        for pk, weight, team_id, team_weight, by_weight, *quota in rows.values_list(
            *columns, *(QUOTA_COLUMNS[kind] for kind in KINDS)
        )
    ]


def changed_parts(
    capacity: Mapping[str, int], namespaces: Sequence[WeightedNamespace]
) -> dict[UUID, dict[str, int]]:
    """Kind -> amount of those whose part is another now. Pure."""
    before = {one.tenant_id: one.quota for one in namespaces}
    parts = split_quotas(capacity, namespaces)
    return {pk: part for pk, part in parts.items() if part != before[pk]}


def give_parts(capacity: Mapping[str, int]) -> list[tuple[UUID, int]]:
    """Writes the parts that changed; ids and new revisions. Call it in a transaction."""
    changed = []
    for pk, part in changed_parts(capacity, read_namespaces()).items():
        row = Tenant.objects.filter(pk=pk, quota_by_weight=True)
        columns = {QUOTA_COLUMNS[kind]: amount for kind, amount in part.items()}
        if row.update(**columns, revision=F("revision") + 1, changed_at=timezone.now()):
            changed.append((pk, Tenant.objects.values_list("revision", flat=True).get(pk=pk)))
    return changed


ReadCapacity = Callable[[], Mapping[str, int] | None]
_read_capacity: ReadCapacity = lambda: None


def read_capacity_by(read: ReadCapacity) -> None:
    """Says how what the cluster has is read, outside of the reconciler; the reader says None when it is not known."""
    global _read_capacity
    _read_capacity = read


@dataclass(frozen=True)
class Preview:
    """What a change does to namespaces by weight.

    Attributes:
        part: kind -> what the namespace that is changed has itself then; None: it takes no part in
            the split, or a team is changed.
        lost: kinds of the namespace itself of which it would have none, or less than it uses, and has more now.
        others: how many other namespaces would lose so.
    """

    part: Mapping[str, int] | None
    lost: tuple[str, ...]
    others: int


def preview(
    tenant: Tenant,
    *,
    by_weight: bool | None = None,
    weight: int | None = None,
    quota: Mapping[str, int] | None = None,
    is_new: bool = False,
) -> Preview | None:
    """What would come of it; None: nobody is by weight then, or what the cluster has is not known. Three queries.

    Args:
        by_weight, weight, quota: of this namespace, where they become others.
        is_new: it is being made, so that now it takes nothing from anybody.
    """
    becomes = tenant.quota_by_weight if by_weight is None else by_weight
    is_open = tenant.desired == Tenant.Desired.ACTIVE
    now = _read(Tenant.objects.existing())
    then = []
    for one in now:
        if one.tenant_id != tenant.pk:
            then.append(one)
        elif is_open or not becomes:
            amounts = {kind: (quota or {}).get(kind, one.quota[kind]) for kind in KINDS}
            then.append(
                replace(one, quota=amounts, weight=weight or one.weight, is_fixed=not becomes)
            )
    if is_new:
        now = [one for one in now if one.tenant_id != tenant.pk]
    return _compare(now, then, tenant.pk)


def preview_team(team_id: UUID, weight: int) -> Preview | None:
    """What would come of another weight of a team; None as for `preview`. Three queries."""
    now = _read(Tenant.objects.existing())
    then = [replace(one, team_weight=weight) if one.team_id == team_id else one for one in now]
    return _compare(now, then)


def _compare(
    now: Sequence[WeightedNamespace],
    then: Sequence[WeightedNamespace],
    changed: UUID | None = None,
) -> Preview | None:
    """Whom it leaves without that all stands as it does `then`; `changed`: the namespace it is done to."""
    if all(one.is_fixed for one in (*now, *then)):
        return None
    whole = _read_capacity()
    if whole is None:
        return None
    before, after = split_quotas(whole, now), split_quotas(whole, then)
    fixed = {one.tenant_id: one.quota for one in now}
    used = dict(Tenant.objects.filter(pk__in=after).values_list("pk", "observed_used"))
    lost = {}
    for pk, part in after.items():
        had = before.get(pk, fixed[pk])
        holds = used.get(pk, {})
        lost[pk] = tuple(
            kind
            for kind, amount in part.items()
            if amount < had[kind] and (amount == 0 or amount < holds.get(kind, 0))
        )
    own = lost.pop(changed, ()) if changed else ()
    return Preview(after.get(changed) if changed else None, own, sum(map(bool, lost.values())))


def share_of(tenant: Tenant) -> Share | None:
    """Of a namespace that takes part in the split, as it was split last. One query, or none."""
    if not tenant.quota_by_weight:
        return None
    sharing = [one for one in read_namespaces() if not one.is_fixed]
    mine = next((one for one in sharing if one.tenant_id == tenant.pk), None)
    if mine is None:
        return None
    team = [one for one in sharing if one.group == mine.group]
    return Share(
        weight=mine.weight,
        weights=sum(one.weight for one in team),
        team_weight=mine.group[1],
        team_weights=sum(dict(one.group for one in sharing).values()),
        of_team=_total(team),
        whole=_total(sharing),
    )


def _total(namespaces: Sequence[WeightedNamespace]) -> dict[str, int]:
    return {kind: sum(one.quota[kind] for one in namespaces) for kind in KINDS}
