"""What the team page shows: one team of those that the person leads, and each of its cards."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any
from uuid import UUID

from django.http import Http404, QueryDict
from django.utils.timezone import now

from jobs.models import Workload
from jobs.team.quotas import SORTS, TeamQuotas
from jobs.team.workloads import TeamWorkloads
from jobs.usage.chart import Chart, chart_of
from jobs.usage.hours import HoursTable, hours_table
from jobs.usage.measured import low_texts
from tenants import policy
from tenants.models import Team

WEEKS_SHOWN = 8


class TeamPage:
    """Each card reads its rows only when it is rendered."""

    def __init__(self, user: Any, query: QueryDict) -> None:
        """Finds the team that is asked for, else the first.

        Raises:
            PermissionDenied: the person leads no team.
            Http404: there is no such team, or the person does not lead it.
        """
        self.user = user
        self.teams = list(teams_of(user))
        if not self.teams:
            policy.require(user, "steer")
        self.team = _chosen(self.teams, query.get("team", ""))
        self._query = query
        self.sorts = SORTS

    @cached_property
    def quotas(self) -> TeamQuotas:
        assert self.team is not None
        sort = self._query.get("sort", "pressure")
        return TeamQuotas(self.team, sort=sort, page=self._query.get("people", "1"))

    @cached_property
    def workloads(self) -> TeamWorkloads:
        assert self.team is not None
        show = self._query.get("show", "")
        return TeamWorkloads(self.team, show=show, page=self._query.get("page", "1"))

    @cached_property
    def low_use(self) -> Mapping[Workload, str]:
        """What of the team's that runs uses little of what it requested."""
        return low_texts(Workload.objects.filter(tenant__team=self.team))

    @cached_property
    def hours(self) -> HoursTable:
        assert self.team is not None
        return hours_table(self.team, count=WEEKS_SHOWN, now=now())

    @cached_property
    def chart(self) -> Chart:
        return chart_of(self.hours)


def teams_of(user: Any) -> Any:
    """The teams that a person may steer: those that are led, all of them for an admin."""
    return Team.objects.filter(policy.teams(user, "steer")).order_by("name")


def _chosen(teams: list[Team], wanted: str) -> Team | None:
    if not wanted:
        return teams[0] if teams else None
    try:
        pk = UUID(wanted)
    except ValueError:
        raise Http404("no such team") from None
    team = next((team for team in teams if team.pk == pk), None)
    if team is None:
        raise Http404("no such team")
    return team
