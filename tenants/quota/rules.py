"""How much a tenant may hold, and what its team's budget leaves for it: reading and changing quotas.

An admin sets any quota. A lead moves quota between the tenants of the team, as long as the quotas
together stay within the team's budget. Two people who change quotas of one team at once take turns:
the team's row is locked first (SQLite: the transaction is IMMEDIATE), then the sum is read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q, Sum
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal import quantity
from portal.errors import FieldError, Refused
from tenants import policy
from tenants.actions import tell
from tenants.audit.record import differences, record
from tenants.models import BUDGET_COLUMNS, QUOTA_COLUMNS, Team, Tenant, User
from tenants.quota import weights

# Far above any real cluster, and the sum over 8,000 tenants still fits 64 bits. 2,768 is the number
# of NodePorts that Kubernetes has: https://kubernetes.io/docs/concepts/services-networking/service/
MOST = {"cpu": 10**9, "memory": 2**50, "gpu": 100_000, "pods": 100_000, "nodeports": 2768}
CONFIRM = "confirm_part"  # the code of what is done when it is said once more, confirmed
_SHOW = {"cpu": quantity.cpu_text, "memory": quantity.memory_text}


@dataclass(frozen=True)
class BudgetLine:
    """One kind of a team's budget; cpu in millicores, memory in bytes, gpu in pieces.

    Attributes:
        budget: the most that the quotas may add up to; None: no limit.
        total: what they add up to now.
    """

    kind: str
    budget: int | None
    total: int

    @property
    def free(self) -> int | None:
        """What can still be given; None without a limit."""
        return None if self.budget is None else max(0, self.budget - self.total)

    @property
    def over(self) -> int:
        """By how much the quotas exceed the budget, after an admin made it smaller."""
        return 0 if self.budget is None else max(0, self.total - self.budget)


def amount_text(kind: str, amount: int) -> str:
    """An amount as Kubernetes writes it, which `amount_field` reads again: 1500 millicores -> "1500m"."""
    return _SHOW[kind](amount) if kind in _SHOW else str(amount)


def budget_lines(team: Team) -> list[BudgetLine]:
    """The team's budget beside what the quotas of its tenants add up to. One query."""
    return lines_of_teams([team])[team.pk]


def lines_of_teams(teams: Sequence[Team]) -> dict[UUID, list[BudgetLine]]:
    """Id -> the budget of each. One query."""
    sums = quota_sums([team.pk for team in teams])
    return {
        team.pk: [
            BudgetLine(kind, budget, sums.get(team.pk, {}).get(kind, 0))
            for kind, budget in team.budget.items()
        ]
        for team in teams
    }


def quota_sums(team_ids: Iterable[UUID]) -> dict[UUID, dict[str, int]]:
    """Team -> kind -> what the fixed quotas of its tenants add up to. One query.

    A budget does not bound what is by weight. Tenants that are suspended or in their days of grace count: they may come back with what they
    had. Teams without tenants are absent.
    """
    rows = (
        Tenant.objects.filter(team_id__in=list(team_ids))
        .exclude(state=Tenant.State.GONE)
        .order_by()
        .values("team_id")
        .annotate(
            **{
                kind: Sum(QUOTA_COLUMNS[kind], filter=Q(quota_by_weight=False), default=0)
                for kind in BUDGET_COLUMNS
            }
        )
        .values_list("team_id", *BUDGET_COLUMNS)
    )
    return {team_id: dict(zip(BUDGET_COLUMNS, sums, strict=True)) for team_id, *sums in rows}


@transaction.atomic
def change_quota(  # noqa: PLR0913 (the fields of REST)
    *,
    by: User,
    tenant: Tenant,
    quota: Mapping[str, int] = MappingProxyType({}),
    weight: int | None = None,
    quota_by_weight: bool | None = None,
    is_confirmed: bool = False,
    is_dry: bool = False,
) -> Tenant:
    """Sets some or all of a tenant's quota. Less than what is used is allowed: nothing is ended,
    and nothing new starts before enough of it is free again. The reconciler tells the cluster.

    Args:
        quota: kind -> amount, as `QuotaSerializer` gives it.
        weight: from 1 to `WEIGHT_MOST`; None: as it is.
        quota_by_weight: then the reconciler sets cpu, memory and gpu; None: as it is. One that is fixed
            again keeps what it has at that moment.
        is_confirmed: also where namespaces by weight would have nothing of a kind, or less than they use.
        is_dry: nothing is changed.

    Returns:
        The tenant as it is now; in a dry run as it would be, with its part by weight as far as it is known.

    Raises:
        PermissionDenied: neither an admin nor a lead of the tenant's team; of weights: no admin.
        Refused: the tenant is gone, or a lead wants more than the team's budget leaves, or an amount
            is by weight; 409, it is to be confirmed.
    """
    tenant = Tenant.objects.select_for_update().get(pk=tenant.pk)
    # Locked also for admins, so that a lead's sum does not miss a change that is under way.
    teams = Team.objects.select_for_update()
    team = teams.get(pk=tenant.team_id) if tenant.team_id else None
    policy.require(by, "change_quota", tenant)
    if tenant.state == Tenant.State.GONE:
        raise Refused(_("This namespace was purged."), "tenant_gone")
    before, told = tenant.quota, _told(tenant)
    news = {kind: amount for kind, amount in quota.items() if amount != before[kind]}
    wanted = {"weight": weight, "quota_by_weight": quota_by_weight}
    chosen = {
        name: value
        for name, value in wanted.items()
        if value is not None and value != getattr(tenant, name)
    }
    if chosen:
        policy.require(by, "administer")
    if not news and not chosen:
        return tenant
    if chosen.get("quota_by_weight", tenant.quota_by_weight):
        _check_by_hand(news)
    if team is not None and not policy.may(by, "exceed_budget"):
        _check_budget(team, before, news)
    columns = {QUOTA_COLUMNS[kind]: amount for kind, amount in news.items()}
    found = weights.preview(tenant, by_weight=quota_by_weight, weight=weight, quota=news)
    if is_dry:
        part = found.part if found is not None and found.part is not None else {}
        columns |= {QUOTA_COLUMNS[kind]: amount for kind, amount in part.items()}
        for name, value in {**columns, **chosen}.items():
            setattr(tenant, name, value)
        return tenant
    if not is_confirmed:
        check_parts(found)
    Tenant.objects.filter(pk=tenant.pk).update(revision=F("revision") + 1, **columns, **chosen)
    tenant.refresh_from_db()
    record(by=by, verb="quota", target=tenant, detail=differences(told, _told(tenant)))
    tell(tenant)
    return tenant


def _told(tenant: Tenant) -> dict[str, Any]:
    """What can be changed, in words for the audit trail."""
    amounts = {kind: amount_text(kind, amount) for kind, amount in tenant.quota.items()}
    way = "by weight" if tenant.quota_by_weight else "fixed"
    return {**amounts, "weight": tenant.weight, "quota": way}


def _check_by_hand(news: Mapping[str, int]) -> None:
    """Refuses amounts that are the reconciler's to set."""
    text = _("This is set by weight. Change the weight, or choose a fixed quota.")
    errors = [
        FieldError(f"quota.{kind}", "by_weight", text) for kind in news if kind in BUDGET_COLUMNS
    ]
    if errors:
        raise Refused(errors)


def part_text(part: Mapping[str, int]) -> str:
    """A part by weight, in words."""
    words = {kind: amount_text(kind, part[kind]) for kind in ("cpu", "memory", "gpu")}
    return _("CPU %(cpu)s, memory %(memory)s, GPUs %(gpu)s") % words


def check_parts(found: weights.Preview | None, *, of_team: bool = False) -> None:
    """Refuses what leaves a namespace by weight without, until it is confirmed.

    Args:
        found: what would come of it; None: nothing that is known of.
        of_team: a team is changed, and no single namespace.

    Raises:
        Refused: 409, it is to be confirmed.
    """
    if found is None:
        return
    said = []
    if found.lost and found.part is not None:
        text = _(
            "By weight this namespace would have %(part)s: nothing, or less than it uses. Fixed quotas "
            "come first, and only what the nodes have beside them is split."
        )
        said.append(text % {"part": part_text(found.part)})
    if found.others and of_team:
        text = ngettext(
            "%(num)s namespace by weight would have nothing, or less than it uses.",
            "%(num)s namespaces by weight would have nothing, or less than they use.",
            found.others,
        )
        said.append(text % {"num": found.others})
    elif found.others:
        text = ngettext(
            "%(num)s other namespace by weight would have nothing, or less than it uses.",
            "%(num)s other namespaces by weight would have nothing, or less than they use.",
            found.others,
        )
        said.append(text % {"num": found.others})
    if said:
        step = (
            _("Choose another weight, or confirm it.")
            if of_team
            else _("Reduce fixed quotas first, or confirm it.")
        )
        raise Refused(" ".join(said), CONFIRM, 409, next_step=step)


def _check_budget(team: Team, before: Mapping[str, int], news: Mapping[str, int]) -> None:
    """Refuses what would take the team beyond its budget; taking away is always allowed."""
    errors = []
    for line in budget_lines(team):
        wanted = news.get(line.kind, 0)
        others = line.total - before[line.kind]
        if line.budget is None or wanted <= before[line.kind] or others + wanted <= line.budget:
            continue
        words = {
            "team": team.name,
            "budget": amount_text(line.kind, line.budget),
            "others": amount_text(line.kind, others),
            "most": amount_text(line.kind, max(0, line.budget - others)),
        }
        text = _(
            "The budget of %(team)s is %(budget)s, and other quotas take %(others)s, so at most "
            "%(most)s is available here. Reduce another quota first, or ask an admin."
        )
        errors.append(FieldError(f"quota.{line.kind}", "over_budget", text % words))
    if errors:
        raise Refused(errors)
