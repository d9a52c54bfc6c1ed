"""The list of trainings: which are shown, in which tab, on which page."""

from functools import cached_property
from typing import Any
from uuid import UUID

from django.core.paginator import Page, Paginator
from django.db.models import Count
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from jobs.kinds.training.kind import TRAINING
from jobs.models import Workload, WorkloadQuerySet
from jobs.rules.states import HOLDING_STATES, WorkloadState
from jobs.summary import JobRow, job_rows
from portal.web.lists import Tab, revision_of
from portal.web.request import search_words
from tenants import policy
from tenants.models import Tenant

PAGE_SIZE = 25
# What a row shows: reading all of a training costs twice as much.
_SHOWN = (
    "name",
    "replicas",
    "state",
    "reason_text",
    "attempt",
    "queued_at",
    "started_at",
    "finished_at",
    "revision",
    *(f"owner__{name}" for name in ("username", "first_name", "last_name")),
)
# key in the address -> title, states
_TABS: dict[str, tuple[Any, frozenset[WorkloadState]]] = {
    "": (_("All"), frozenset(WorkloadState)),
    "queued": (_("Queued"), frozenset({WorkloadState.QUEUED})),
    "running": (_("Running"), HOLDING_STATES),
    "succeeded": (_("Succeeded"), frozenset({WorkloadState.SUCCEEDED})),
    "failed": (_("Failed"), frozenset({WorkloadState.FAILED})),
    "stopped": (_("Stopped"), frozenset({WorkloadState.STOPPED})),
}


def _tenant(user: Any, text: str) -> Tenant | None:
    """The namespace to which the list is narrowed, if the person may see it."""
    try:
        pk = UUID(text)
    except ValueError:
        return None
    tenant: Tenant | None = Tenant.objects.visible_to(user).filter(pk=pk).first()
    return tenant


class JobListing:
    """One page of the trainings that somebody may see, newest first."""

    def __init__(self, user: Any, query: QueryDict) -> None:
        self.state = query.get("state", "") if query.get("state") in _TABS else ""
        self.words = search_words(query)
        self._page_number = query.get("page", "1")
        trainings: WorkloadQuerySet = Workload.objects.filter(kind=TRAINING.key)
        self._visible = trainings.visible_to(user)
        self.tenant = _tenant(user, query.get("tenant", ""))
        if self.tenant is not None:
            self._visible = self._visible.filter(tenant=self.tenant)
        self.is_shared = policy.may(user, "see")

    @cached_property
    def _found(self) -> WorkloadQuerySet:
        if not self.words:
            return self._visible
        return self._visible.filter(name__icontains=self.words)

    @cached_property
    def tabs(self) -> list[Tab]:
        """How many trainings each tab would show. One query."""
        counted = self._found.order_by().values("state").annotate(n=Count("pk", distinct=True))
        by_state = {row["state"]: row["n"] for row in counted}
        return [
            Tab(key, title, sum(by_state.get(s, 0) for s in states), key == self.state)
            for key, (title, states) in _TABS.items()
        ]

    @cached_property
    def page(self) -> Page[Workload]:
        chosen = self._found.filter(state__in=_TABS[self.state][1]) if self.state else self._found
        jobs = chosen.only(*_SHOWN).select_related("owner").order_by("-queued_at", "pk")
        pages = Paginator(jobs, PAGE_SIZE)
        pages.count = next(tab.count for tab in self.tabs if tab.is_here)  # known already
        return pages.get_page(self._page_number)

    @cached_property
    def rows(self) -> list[JobRow]:
        return job_rows(self.page.object_list)

    @property
    def is_narrowed(self) -> bool:
        return bool(self.words or self.state or self.tenant)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything on the page changes."""
        shown = [(str(row.job.pk), row.job.revision) for row in self.rows]
        numbers = [tab.count for tab in self.tabs]
        return revision_of(shown, numbers)
