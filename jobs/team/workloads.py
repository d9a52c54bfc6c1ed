"""What the people of a team run and wait for: trainings, notebooks and TensorBoards in one list."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.core.paginator import Page, Paginator
from django.db.models import F, Q
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext_lazy as _

from jobs.kinds.training.suspended import suspended_seconds
from jobs.models import Replica, Workload
from jobs.rules.states import FINAL_REPLICA_STATES, Desired, WorkloadState
from jobs.workloads.usage import totals
from portal.web.lists import Tab, revision_of
from tenants import policy
from tenants.models import Team, User

PAGE_SIZE = 50
MAX_PLACES = 4
_TABS: dict[str, Any] = {"": _("All"), "running": _("Running"), "waiting": _("Queued")}


@dataclass(frozen=True)
class Place:
    """A node, and which of its GPUs: "0,1", or empty when the node does not tell."""

    node: str
    gpus: str


@dataclass(frozen=True)
class TeamWorkload:
    """One training, notebook or TensorBoard that runs or waits."""

    row: Workload
    places: tuple[Place, ...]
    suspended_s: int = 0  # since it began to run

    @property
    def is_waiting(self) -> bool:
        return bool(self.row.state == WorkloadState.QUEUED)

    @property
    def is_stop_asked(self) -> bool:
        return bool(self.row.desired != Desired.RUN)

    @property
    def asked(self) -> dict[str, int]:
        """By the resources of the quota."""
        return totals(self.row.replicas)

    @property
    def since(self) -> datetime:
        """When it began to run; before, when it was given room; before, when it was asked for."""
        row = self.row
        if self.is_waiting:
            return row.queued_at
        since: datetime = row.started_at or row.admitted_at or row.queued_at
        return since

    @property
    def shown_places(self) -> tuple[Place, ...]:
        return self.places[:MAX_PLACES]

    @property
    def more_places(self) -> int:
        return max(0, len(self.places) - MAX_PLACES)


@dataclass(frozen=True)
class _Key:
    """Enough of a row to sort and to count it."""

    pk: UUID
    is_waiting: bool
    asked_at: datetime
    revision: int

    @property
    def order(self) -> tuple[bool, float, str]:
        """What runs comes first, the latest at the top; what waits as the queue goes."""
        at = self.asked_at.timestamp()
        return self.is_waiting, at if self.is_waiting else -at, str(self.pk)


class TeamWorkloads:
    """One page of what a team runs and waits for."""

    def __init__(self, team: Team, *, show: str = "", page: str = "1") -> None:
        self.team = team
        self.show = show if show in _TABS else ""
        self._page_number = page

    @cached_property
    def _keys(self) -> list[_Key]:
        """All of it, bounded by the quotas. One query."""
        rows = Workload.objects.filter(tenant__team=self.team).unfinished()
        left_out = Q(desired=Desired.DELETE) | Q(state=WorkloadState.SUSPENDED)
        rows = rows.exclude(left_out).order_by()
        fields = ("pk", "state", "queued_at", "revision")
        found = [
            _Key(pk, state == WorkloadState.QUEUED, at, revision)
            for pk, state, at, revision in rows.values_list(*fields)
        ]
        return sorted(found, key=lambda key: key.order)

    @cached_property
    def tabs(self) -> list[Tab]:
        waiting = sum(key.is_waiting for key in self._keys)
        counts = {
            "": len(self._keys),
            "running": len(self._keys) - waiting,
            "waiting": waiting,
        }
        return [Tab(name, title, counts[name], name == self.show) for name, title in _TABS.items()]

    @cached_property
    def page(self) -> Page[_Key]:
        wanted = [
            key for key in self._keys if not self.show or key.is_waiting == (self.show == "waiting")
        ]
        return Paginator(wanted, PAGE_SIZE).get_page(self._page_number)

    @cached_property
    def rows(self) -> list[TeamWorkload]:
        """In the order of the page. Three queries."""
        shown = list(self.page.object_list)
        ids = [key.pk for key in shown]
        rows = list(Workload.objects.filter(pk__in=ids).select_related("owner").for_lists())
        places = _places(key.pk for key in shown if not key.is_waiting)
        held = suspended_seconds(row for row in rows if row.state != WorkloadState.QUEUED)
        found = {
            row.pk: TeamWorkload(row, places.get(row.pk, ()), held.get(row.pk, 0)) for row in rows
        }
        return [found[pk] for pk in ids if pk in found]

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything in the list changes."""
        shown = [(str(key.pk), key.revision) for key in self.page.object_list]
        numbers = [tab.count for tab in self.tabs]
        return revision_of(shown, numbers)


def _places(ids: Iterable[UUID]) -> dict[UUID, tuple[Place, ...]]:
    """Where the replicas of each workload are now: one entry for each node."""
    rows = (
        Replica.objects.filter(workload__in=list(ids), attempt=F("workload__attempt"))
        .exclude(state__in=FINAL_REPLICA_STATES)
        .exclude(node="")
        .order_by("node", "role", "index")
        .values_list("workload_id", "node", "gpus")
    )
    found: dict[UUID, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for pk, node, gpus in rows:
        found[pk][node] += [gpu for gpu in gpus.split(",") if gpu]
    return {
        pk: tuple(Place(node, _numbers(gpus)) for node, gpus in nodes.items())
        for pk, nodes in found.items()
    }


def _numbers(gpus: Sequence[str]) -> str:
    """`["1", "0"]` -> `"0,1"`; numbers by their size."""
    return ",".join(sorted(set(gpus), key=lambda gpu: (len(gpu), gpu)))


def find_workload(user: User, pk: UUID) -> Workload:
    """A training, notebook or TensorBoard that the person may stop.

    Raises:
        Http404: there is none, or the person may not see it.
        PermissionDenied: the person may not stop it.
    """
    visible = Workload.objects.visible_to(user).select_related("tenant", "owner")
    found: Workload = get_object_or_404(visible, pk=pk)
    policy.require(user, "stop", found.tenant)
    return found
