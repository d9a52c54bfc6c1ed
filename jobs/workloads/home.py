"""The first page with its cards: what a person runs, waits for and may use."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from django.db.models import Case, Count, When
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_safe

from jobs.kinds.registry import ARCHIVED, SERVED_TITLE, STAY_AT_HAND, WITH_GATE
from jobs.kinds.training.examples import EXAMPLES
from jobs.models import Workload, WorkloadQuerySet
from jobs.rules.states import FINAL_STATES, HOLDING_STATES, WorkloadState
from jobs.usage.measured import low_texts
from jobs.workloads.listing import ListRow, list_rows
from jobs.workloads.usage import usage_lines
from portal.web.layout import Layout
from portal.web.lists import revision_of
from portal.web.request import PageRequest, is_unchanged, signed_in
from tenants.models import Tenant, TenantObject
from tenants.usage import UsageLine

MAX_UNFINISHED = 50  # of them those that run come first, then those in the queue
MAX_RECENT = 6
MAX_STOPPED = 2  # offered to be started again
_RUNNING_FIRST = Case(
    When(state__in=HOLDING_STATES, then=0), When(state=WorkloadState.QUEUED, then=1), default=2
)
PARTS = frozenset({"quota", "namespace", "now", "closed", "banner"})


class HomePage:
    """What the first page shows. Each card reads its rows only when it is rendered."""

    served_title = SERVED_TITLE

    def __init__(self, user: Any) -> None:
        self.user = user
        self.examples = EXAMPLES

    @cached_property
    def tenant(self) -> Tenant | None:
        return Tenant.objects.current_tenant_of(self.user)

    @cached_property
    def had_tenant(self) -> bool:
        """Whether the person had a namespace that was purged."""
        return Tenant.objects.filter(owner=self.user, state=Tenant.State.GONE).exists()

    @cached_property
    def objects(self) -> list[TenantObject]:
        return list(self.tenant.objects_seen.all()) if self.tenant else []

    @property
    def objects_ready(self) -> int:
        return sum(row.state == TenantObject.State.READY for row in self.objects)

    @property
    def volumes(self) -> list[TenantObject]:
        return [row for row in self.objects if row.kind == "PersistentVolumeClaim"]

    @cached_property
    def lines(self) -> list[UsageLine]:
        return usage_lines(self.tenant) if self.tenant else []

    @property
    def _own(self) -> WorkloadQuerySet:
        own: WorkloadQuerySet = Workload.objects.visible_to(self.user).filter(tenant=self.tenant)
        return own

    def _rows(self, found: Iterable[Workload]) -> list[ListRow]:
        return list_rows(found, self.user)

    @property
    def _own_unfinished(self) -> WorkloadQuerySet:
        found: WorkloadQuerySet = self._own.filter(kind__in=ARCHIVED).unfinished()
        return found

    @cached_property
    def unfinished(self) -> list[ListRow]:
        """Own trainings that have not ended: those that run, those that wait, the rest; each oldest first as the queue goes."""
        own = self._own_unfinished.for_lists().order_by(_RUNNING_FIRST, "queued_at", "pk")
        return self._rows(own[:MAX_UNFINISHED])

    @property
    def running(self) -> list[ListRow]:
        return [row for row in self.unfinished if row.workload.state in HOLDING_STATES]

    @property
    def waiting(self) -> list[ListRow]:
        return [row for row in self.unfinished if row.workload.state == WorkloadState.QUEUED]

    @cached_property
    def _counts(self) -> Mapping[str, int]:
        """State -> how many of the own trainings that have not ended; one query where not all are shown."""
        return _counted(self.unfinished, self._own_unfinished)

    @property
    def running_count(self) -> int:
        return sum(self._counts.get(state, 0) for state in HOLDING_STATES)

    @property
    def waiting_count(self) -> int:
        return self._counts.get(WorkloadState.QUEUED, 0)

    @cached_property
    def recent(self) -> list[ListRow]:
        """Own trainings that ended, the latest first."""
        own = self._own.filter(kind__in=ARCHIVED, state__in=FINAL_STATES)
        return self._rows(own.for_lists().order_by("-finished_at", "pk")[:MAX_RECENT])

    @property
    def _own_served(self) -> WorkloadQuerySet:
        return self._own.filter(kind__in=WITH_GATE)

    @cached_property
    def _served_unfinished(self) -> list[ListRow]:
        own = self._own_served.unfinished().defer("plan", "notes", "steps")
        first = own.order_by(_RUNNING_FIRST, "-queued_at", "pk")[:MAX_UNFINISHED]
        rows = self._rows(first)
        return sorted(rows, key=lambda row: (-row.workload.queued_at.timestamp(), row.workload.pk))

    @cached_property
    def served(self) -> list[ListRow]:
        """Own notebooks and TensorBoards that run or wait, then notebooks that were stopped lately."""
        own = self._own_served.defer("plan", "notes", "steps").order_by("-queued_at", "pk")
        stopped = own.filter(kind__in=STAY_AT_HAND, state__in=FINAL_STATES)
        return [*self._served_unfinished, *self._rows(stopped[:MAX_STOPPED])]

    @cached_property
    def low_use(self) -> Mapping[Workload, str]:
        """What of the own that runs uses little of what it requested."""
        return low_texts(self._own)

    @cached_property
    def served_running(self) -> int:
        counts = _counted(self._served_unfinished, self._own_served.unfinished())
        return counts.get(WorkloadState.RUNNING, 0)

    @property
    def revision(self) -> str:
        """Changes when anything on the cards of what runs and of the quota changes."""
        rows = [*self.unfinished, *self.recent, *self.served]
        shown = [(str(row.workload.pk), row.workload.revision) for row in rows]
        tenant = self.tenant.revision if self.tenant else 0
        numbers = (self.running_count, self.waiting_count, self.served_running)
        return revision_of(tenant, shown, numbers)

    @property
    def has_trainings(self) -> bool:
        return bool(self.unfinished or self.recent)


def _counted(shown: Sequence[ListRow], found: WorkloadQuerySet) -> Mapping[str, int]:
    """State -> how many there are of what was found, of which the first `MAX_UNFINISHED` are shown."""
    if len(shown) < MAX_UNFINISHED:
        return Counter(str(row.workload.state) for row in shown)
    return dict(found.order_by().values_list("state").annotate(n=Count("pk")))


@require_safe
@signed_in
def home(request: PageRequest) -> HttpResponseBase:
    return render(request, "home.html", {"home": HomePage(request.user)})


@require_safe
@signed_in
def tenant_fragment(request: PageRequest, part: str) -> HttpResponseBase:
    """One card of the first page, or the banner, re-read after a change."""
    if part not in PARTS:
        raise Http404(part)
    page = HomePage(request.user)
    if part != "banner" and page.tenant is None:
        raise Http404("no namespace")
    shown = page.revision if part in {"now", "quota"} else ""
    if part == "banner":
        shown = Layout(request).banner_revision
    if shown and is_unchanged(request, shown):
        return HttpResponse(status=204)
    return render(request, f"_{part}.html", {"home": page})
