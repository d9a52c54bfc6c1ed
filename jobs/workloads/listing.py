"""The list of a kind: which workloads are shown, in which tab, on which page; and what a row shows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from django.core.paginator import Page, Paginator
from django.db.models import Count, QuerySet
from django.http import Http404, QueryDict

from jobs.kinds.base import WorkloadKind
from jobs.kinds.registry import KINDS
from jobs.kinds.training.suspended import suspended_seconds
from jobs.models import Replica, Workload, WorkloadQuerySet
from jobs.rules.requests import indexes_of
from jobs.rules.states import FINAL_STATES, Desired, ReplicaState
from jobs.workloads.usage import totals
from portal.web.lists import Tab, revision_of
from portal.web.request import search_words
from tenants import policy
from tenants.models import Tenant, shown_name

MAX_LAMPS = 16
_LAMP_ORDER = (
    ReplicaState.FAILED,
    ReplicaState.RUNNING,
    ReplicaState.SUCCEEDED,
    ReplicaState.STARTING,
    ReplicaState.PENDING,
    ReplicaState.STOPPED,
)
# What a row shows of every kind.
_SHOWN = (
    "pk",
    "owner_id",
    "kind",
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


class ListedWorkload(SimpleNamespace):
    """The columns of a workload that a list shows: two models for each row would cost twice as much."""

    pk: UUID
    owner_id: UUID
    kind: str
    replicas: dict[str, dict[str, Any]]
    state: str
    attempt: int
    revision: int
    owner__username: str
    owner__first_name: str
    owner__last_name: str

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_STATES

    @property
    def owner_name(self) -> str:
        return shown_name(self.owner__username, self.owner__first_name, self.owner__last_name)


@dataclass(frozen=True)
class ListRow:
    """One workload in a list, for somebody who may see it."""

    workload: Workload | ListedWorkload
    is_own: bool
    counts: Mapping[str, int]  # replica state -> how many, of the current attempt
    suspended_s: int = 0

    @property
    def kind(self) -> WorkloadKind:
        return KINDS[self.workload.kind]

    @property
    def may_open(self) -> bool:
        """Whoever sees what is shared may open it; what is private is its owner's alone."""
        return self.is_own or self.kind.open_verb == "open_shared"

    @property
    def summary(self) -> str:
        return self.kind.pages.summary(self.workload)

    @property
    def asked(self) -> dict[str, int]:
        """By the resources of the quota."""
        return totals(self.workload.replicas)

    @cached_property
    def replica_count(self) -> int:
        return sum(len(indexes_of(asked)) for asked in self.workload.replicas.values())

    @property
    def lamps(self) -> tuple[str, ...]:
        """A state for each replica, or nothing where there are too many to look at."""
        if self.replica_count > MAX_LAMPS:
            return ()
        known = [state for state in _LAMP_ORDER for _index in range(self.counts.get(state, 0))]
        missing = self.replica_count - len(known)
        return (*map(str, known), *[str(ReplicaState.PENDING)] * missing)

    @property
    def running_count(self) -> int:
        return self.counts.get(ReplicaState.RUNNING, 0)


def list_rows(workloads: Iterable[Workload | ListedWorkload], user: Any) -> list[ListRow]:
    """Rows in the order given. Two queries for those that have roles, however many."""
    listed = list(workloads)
    counts: dict[object, dict[str, int]] = defaultdict(dict)
    with_roles = [row for row in listed if KINDS[row.kind].has_roles]
    ids = [row.pk for row in with_roles]
    for pk, attempt, state, n in _replica_counts().filter(workload__in=ids):
        counts[pk, attempt][state] = n
    held, own = suspended_seconds(with_roles), user.pk
    return [
        ListRow(row, row.owner_id == own, counts[row.pk, row.attempt], held.get(row.pk, 0))
        for row in listed
    ]


# What is the same for everybody about a query is said once: it is a third of what asking costs.
@cache
def _replica_counts() -> QuerySet[Replica, tuple[UUID, int, str, int]]:
    # Of all attempts: to leave out the earlier ones would take a join, which costs more than they do.
    columns = Replica.objects.order_by().values_list("workload_id", "attempt", "state")
    return columns.annotate(n=Count("id"))


@cache
def _shown(kind: WorkloadKind) -> Any:
    """All of a kind, the latest first, as columns of a list."""
    rows = Workload.objects.filter(kind=kind.key).order_by("-queued_at", "pk")
    return rows.values(*_SHOWN, *kind.pages.summary_columns)


@cache
def _counted(kind: WorkloadKind) -> Any:
    """How many of a kind are in each state."""
    rows = Workload.objects.filter(kind=kind.key).order_by()
    return rows.values_list("state").annotate(n=Count("pk"))


def own_running(user: Any, kind: WorkloadKind) -> WorkloadQuerySet:
    """The person's own that run, start or wait, and have not been asked to stop."""
    own = Workload.objects.visible_to(user).filter(kind=kind.key, owner=user, desired=Desired.RUN)
    running: WorkloadQuerySet = own.unfinished()
    return running


def find_tenant(user: Any, text: str) -> Tenant | None:
    """The namespace of this id, if the person may see it."""
    try:
        pk = UUID(text)
    except ValueError:
        return None
    tenant: Tenant | None = Tenant.objects.visible_to(user).filter(pk=pk).first()
    return tenant


def named_tenant(user: Any, text: str) -> Tenant | None:
    """The namespace of this id; None where none is given.

    Raises:
        Http404: there is none that the person may see.
    """
    found = find_tenant(user, text)
    if text and found is None:
        raise Http404
    return found


class WorkloadListing:
    """One page of the workloads of a kind that somebody may see, the latest first."""

    def __init__(self, user: Any, kind: WorkloadKind, query: QueryDict) -> None:
        self.user = user
        self.kind = kind
        self.state = query.get("state", "") if query.get("state") in kind.pages.tabs else ""
        self.words = search_words(query)
        self._page_number = query.get("page", "1")
        self.tenant = (
            find_tenant(user, query.get("tenant", "")) if kind.pages.by_namespace else None
        )
        self.is_shared = policy.may(user, "see")

    def _found(self, rows: Any) -> Any:
        """Those of a query's workloads that the person may see and looks for, in any state."""
        found = rows.visible_to(self.user)
        if self.tenant is not None:
            found = found.filter(tenant=self.tenant)
        return found.filter(name__icontains=self.words) if self.words else found

    @cached_property
    def tabs(self) -> list[Tab]:
        """How many each tab would show. One query."""
        by_state = dict(self._found(_counted(self.kind)))
        return [
            Tab(key, title, sum(by_state.get(s, 0) for s in states), key == self.state)
            for key, (title, states) in self.kind.pages.tabs.items()
        ]

    @cached_property
    def page(self) -> Page[dict[str, Any]]:
        pages = self.kind.pages
        _title, states = pages.tabs[self.state]
        found = self._found(_shown(self.kind))
        shown = found.filter(state__in=states) if self.state else found
        paginator = Paginator(shown, pages.per_page)
        paginator.count = next(tab.count for tab in self.tabs if tab.is_here)  # known already
        return paginator.get_page(self._page_number)

    @cached_property
    def rows(self) -> list[ListRow]:
        return list_rows((ListedWorkload(**row) for row in self.page.object_list), self.user)

    @property
    def is_narrowed(self) -> bool:
        return bool(self.words or self.state or self.tenant)

    @cached_property
    def stoppable_count(self) -> int:
        """How many of the own ones can be stopped at once."""
        return own_running(self.user, self.kind).count()

    @property
    def may_prune(self) -> bool:
        """Whether the person may delete what is finished here."""
        may = self.tenant is None or policy.may(self.user, "delete", self.tenant)
        return self.kind.is_archived and may

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything on the page changes."""
        shown = [(str(row.workload.pk), row.workload.revision) for row in self.rows]
        numbers = [tab.count for tab in self.tabs]
        return revision_of(shown, numbers)
