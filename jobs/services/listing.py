"""The lists of notebooks and of TensorBoards: which are shown, in which tab, on which page."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.core.paginator import Page, Paginator
from django.db.models import Count
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from jobs.kinds.interactive.spec import STATES
from jobs.kinds.registry import KINDS
from jobs.models import Workload, WorkloadQuerySet
from jobs.rules.states import FINAL_STATES, WorkloadState
from jobs.workloads.usage import totals
from portal.catalog import get_catalog
from portal.web.lists import Tab, revision_of
from portal.web.request import search_words
from tenants import policy

PAGE_SIZE = 50
_TABS: dict[str, tuple[Any, frozenset[WorkloadState]]] = {
    "": (_("All"), frozenset(STATES)),
    "running": (_("Running"), frozenset(STATES) - FINAL_STATES),
    "stopped": (_("Stopped"), frozenset({WorkloadState.STOPPED})),
    "failed": (_("Failed"), frozenset({WorkloadState.FAILED})),
}
SHOWN_FOLDERS = 3


@dataclass(frozen=True)
class ServiceRow:
    """One notebook or TensorBoard in a list, for somebody who may see it."""

    service: Workload
    is_own: bool
    image_title: str

    @property
    def may_open(self) -> bool:
        """Whoever sees a TensorBoard may open it; a notebook is its owner's alone."""
        return self.is_own or KINDS[self.service.kind].open_verb == "open_shared"

    @property
    def asked(self) -> dict[str, int]:
        """By the resources of the quota."""
        return totals(self.service.replicas)

    @property
    def titles(self) -> list[str]:
        """What a TensorBoard shows, the first few; empty: all of the log volume."""
        return [str(row["title"]) for row in self._log_dirs[:SHOWN_FOLDERS]]

    @property
    def more_titles(self) -> int:
        return max(0, len(self._log_dirs) - SHOWN_FOLDERS)

    @property
    def _log_dirs(self) -> list[dict[str, str]]:
        found: list[dict[str, str]] = self.service.spec.get("log_dirs", [])
        return found


def image_titles() -> dict[str, str]:
    """What the catalog calls the images that it offers, by reference."""
    catalog = get_catalog()
    offered = (*catalog.images.offered, *catalog.notebooks.images.offered)
    return {image.reference: image.title for image in offered}


def service_rows(services: Iterable[Workload], user: Any) -> list[ServiceRow]:
    """Rows in the order given. No query."""
    titles = image_titles()
    return [
        ServiceRow(service, service.owner_id == user.pk, titles.get(service.image, service.image))
        for service in services
    ]


class ServiceListing:
    """One page of the notebooks, or TensorBoards, that somebody may see, latest start first."""

    def __init__(self, user: Any, kind: str, query: QueryDict) -> None:
        self.kind = kind
        self.state = query.get("state", "") if query.get("state") in _TABS else ""
        self.words = search_words(query)
        self.user = user
        self._page_number = query.get("page", "1")
        self._visible: WorkloadQuerySet = Workload.objects.visible_to(user).filter(kind=kind)
        self.is_shared = policy.may(user, "see")

    @cached_property
    def _found(self) -> WorkloadQuerySet:
        if not self.words:
            return self._visible
        return self._visible.filter(name__icontains=self.words)

    @cached_property
    def tabs(self) -> list[Tab]:
        """How many each tab would show. One query."""
        counted = self._found.order_by().values("state").annotate(n=Count("pk", distinct=True))
        by_state = {row["state"]: row["n"] for row in counted}
        return [
            Tab(key, title, sum(by_state.get(s, 0) for s in states), key == self.state)
            for key, (title, states) in _TABS.items()
        ]

    @cached_property
    def page(self) -> Page[Workload]:
        chosen = self._found.filter(state__in=_TABS[self.state][1])
        services = (
            chosen.select_related("owner")
            .defer("plan", "notes", "steps")
            .order_by("-queued_at", "pk")
        )
        return Paginator(services, PAGE_SIZE).get_page(self._page_number)

    @cached_property
    def rows(self) -> list[ServiceRow]:
        return service_rows(self.page.object_list, self.user)

    @property
    def is_narrowed(self) -> bool:
        return bool(self.words or self.state)

    @cached_property
    def stoppable_count(self) -> int:
        """How many of the own ones can be stopped at once."""
        return own_running(self.user, self.kind).count()

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything on the page changes."""
        shown = [(str(row.service.pk), row.service.revision) for row in self.rows]
        numbers = [tab.count for tab in self.tabs]
        return revision_of(shown, numbers)


def own_running(user: Any, kind: str) -> WorkloadQuerySet:
    """The person's own that run, start or wait, and have not been asked to stop."""
    own = Workload.objects.visible_to(user).filter(kind=kind, owner=user, desired="run")
    running: WorkloadQuerySet = own.unfinished()
    return running
