"""What the people of a team run and wait for: trainings, notebooks and TensorBoards in one list."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.core.paginator import Page, Paginator
from django.db.models import F
from django.http import Http404
from django.utils.translation import gettext_lazy as _

from jobs.models import Job, Replica, Service, ServiceState
from jobs.quota_usage import totals
from jobs.rules.states import FINAL_REPLICA_STATES, Desired, JobState
from portal.web.lists import Tab
from tenants import policy
from tenants.models import Team, User

PAGE_SIZE = 50
MAX_PLACES = 4
_TABS: dict[str, Any] = {"": _("All"), "running": _("Running"), "waiting": _("Waiting")}
# Large columns that no list shows.
_HEAVY = ("plan", "memo", "env", "command", "source")


@dataclass(frozen=True)
class Place:
    """A node, and which of its GPUs: "0,1", or empty when the node does not tell."""

    node: str
    gpus: str


@dataclass(frozen=True)
class TeamWorkload:
    """One training, notebook or TensorBoard that runs or waits."""

    kind: str  # job, notebook or tensorboard
    row: Any  # Job or Service
    places: tuple[Place, ...]

    @property
    def route(self) -> str:
        """Name of its page's address."""
        return self.kind

    @property
    def is_waiting(self) -> bool:
        return self.row.state in (JobState.QUEUED, ServiceState.QUEUED)

    @property
    def is_stop_asked(self) -> bool:
        return bool(self.row.desired != Desired.RUN)

    @property
    def asked(self) -> dict[str, int]:
        """By the kinds of the quota."""
        if isinstance(self.row, Job):
            return totals(self.row.replicas)
        row = self.row
        return {"cpu": row.cpu_millicores, "memory": row.memory_bytes, "gpu": row.gpu_count}

    @property
    def since(self) -> datetime:
        """When it began to run; before, when it was given room; before, when it was asked for."""
        row = self.row
        if isinstance(row, Job):
            asked_at, ran_at = row.queued_at, row.started_at
        else:
            asked_at, ran_at = row.requested_at, row.ready_at
        if self.is_waiting:
            return asked_at
        since: datetime = ran_at or row.admitted_at or asked_at
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

    is_job: bool
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
        """All of it, bounded by the quotas. Two queries."""
        jobs = Job.objects.filter(tenant__team=self.team).unfinished()
        jobs = jobs.exclude(desired=Desired.DELETE).order_by()
        services = Service.objects.filter(tenant__team=self.team).unfinished()
        services = services.exclude(desired=Service.Desired.DELETE).order_by()
        found = [
            _Key(True, pk, state == JobState.QUEUED, at, revision)
            for pk, state, at, revision in jobs.values_list("pk", "state", "queued_at", "revision")
        ]
        fields = ("pk", "state", "requested_at", "revision")
        found += [
            _Key(False, pk, state == ServiceState.QUEUED, at, revision)
            for pk, state, at, revision in services.values_list(*fields)
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
        jobs = Job.objects.filter(pk__in=ids).select_related("owner").defer(*_HEAVY)
        services = Service.objects.filter(pk__in=ids).select_related("owner").defer("plan", "memo")
        places = _places(key.pk for key in shown if key.is_job and not key.is_waiting)
        found = {job.pk: TeamWorkload("job", job, places.get(job.pk, ())) for job in jobs}
        found |= {row.pk: TeamWorkload(row.kind, row, _place_of(row)) for row in services}
        return [found[pk] for pk in ids if pk in found]

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything in the list changes."""
        shown = [(str(key.pk), key.revision) for key in self.page.object_list]
        numbers = [tab.count for tab in self.tabs]
        return "~" + hashlib.sha256(repr((shown, numbers)).encode()).hexdigest()[:16]


def _place_of(service: Service) -> tuple[Place, ...]:
    if not service.node or service.state == ServiceState.QUEUED:
        return ()
    return (Place(service.node, service.gpus),)


def _places(job_ids: Iterable[UUID]) -> dict[UUID, tuple[Place, ...]]:
    """Where the replicas of each job are now: one entry for each node."""
    rows = (
        Replica.objects.filter(job__in=list(job_ids), attempt=F("job__attempt"))
        .exclude(state__in=FINAL_REPLICA_STATES)
        .exclude(node="")
        .order_by("node", "role", "index")
        .values_list("job_id", "node", "gpus")
    )
    found: dict[UUID, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for job_id, node, gpus in rows:
        found[job_id][node] += [gpu for gpu in gpus.split(",") if gpu]
    return {
        job_id: tuple(Place(node, _numbers(gpus)) for node, gpus in nodes.items())
        for job_id, nodes in found.items()
    }


def _numbers(gpus: Sequence[str]) -> str:
    """`["1", "0"]` -> `"0,1"`; numbers by their size."""
    return ",".join(sorted(set(gpus), key=lambda gpu: (len(gpu), gpu)))


def find_workload(user: User, pk: UUID) -> Job | Service:
    """A training, notebook or TensorBoard that the person may stop.

    Raises:
        Http404: there is none, or the person may not see it.
        PermissionDenied: the person may not stop it.
    """
    for model in (Job, Service):
        visible = model.objects.visible_to(user)
        found: Job | Service | None = (
            visible.select_related("tenant", "owner").filter(pk=pk).first()
        )
        if found is not None:
            policy.require(user, "stop", found.tenant)
            return found
    raise Http404("nothing here")
