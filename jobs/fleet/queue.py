"""Who waits: trainings and services of all tenants that somebody may see, the longest first.

Each tenant's queue goes first come, first served, whatever waits in it; so an entry is counted within
the tenant. Six queries for one page, whatever the length of the queue.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.core.paginator import Page, Paginator

from jobs.models import Job, Service, ServiceState
from jobs.quota_usage import totals
from jobs.rules.states import Desired, JobState
from jobs.summary import shape_text
from tenants import policy
from tenants.models import Tenant, User

PAGE_SIZE = 50


@dataclass(frozen=True)
class QueueEntry:
    """One entry in the queue; `row` is what waits there.

    Attributes:
        position: within its tenant's queue, from 1.
        length: of that queue.
    """

    position: int
    length: int
    row: Job | Service

    @property
    def kind(self) -> str:
        """`job`, `notebook` or `tensorboard`."""
        return "job" if isinstance(self.row, Job) else self.row.kind

    @property
    def tenant(self) -> Tenant:
        return self.row.tenant

    @property
    def owner(self) -> User:
        return self.row.owner

    @property
    def queued_at(self) -> datetime:
        return self.row.queued_at if isinstance(self.row, Job) else self.row.requested_at

    @property
    def asked(self) -> dict[str, int]:
        """cpu in millicores, memory in bytes, gpu, pods."""
        if isinstance(self.row, Job):
            return totals(self.row.replicas)
        return {
            "cpu": self.row.cpu_millicores,
            "memory": self.row.memory_bytes,
            "gpu": self.row.gpu_count,
            "pods": 1,
        }

    @property
    def shape(self) -> str:
        """`2 workers, 1 parameter server`; nothing for a service, which is one pod."""
        return shape_text(self.row) if isinstance(self.row, Job) else ""


@dataclass(frozen=True)
class _Queued:
    """As little as the order of the queue needs."""

    queued_at: datetime
    id: UUID
    tenant_id: UUID
    is_job: bool


class QueueEntries(Sequence[QueueEntry]):
    """The whole queue as one may see it; only the entries that are asked for are read."""

    def __init__(self, user: Any) -> None:
        self._user = user

    @cached_property
    def _jobs(self) -> Any:
        return Job.objects.visible_to(self._user).filter(state=JobState.QUEUED, desired=Desired.RUN)

    @cached_property
    def _services(self) -> Any:
        return Service.objects.visible_to(self._user).filter(
            state=ServiceState.QUEUED, desired=Service.Desired.RUN
        )

    @cached_property
    def _queued(self) -> list[_Queued]:
        jobs = self._jobs.order_by().values_list("queued_at", "pk", "tenant_id")
        services = self._services.order_by().values_list("requested_at", "pk", "tenant_id")
        found = [_Queued(at, pk, tenant, is_job=True) for at, pk, tenant in jobs]
        found += [_Queued(at, pk, tenant, is_job=False) for at, pk, tenant in services]
        return sorted(found, key=lambda queued: (queued.queued_at, str(queued.id)))

    @cached_property
    def _positions(self) -> dict[UUID, int]:
        counted: Counter[UUID] = Counter()
        positions = {}
        for queued in self._queued:
            counted[queued.tenant_id] += 1
            positions[queued.id] = counted[queued.tenant_id]
        self._lengths = counted
        return positions

    def __len__(self) -> int:
        return len(self._queued)

    def __iter__(self) -> Iterator[QueueEntry]:
        return iter(self[:])

    def __getitem__(self, which: Any) -> Any:
        """A slice of entries (a single one, as a list of one would be, for an index)."""
        chosen = self._queued[which]
        if isinstance(chosen, _Queued):
            return self._read([chosen])[0]
        return self._read(chosen)

    def _read(self, chosen: list[_Queued]) -> list[QueueEntry]:
        related = ("owner", "tenant__team")
        jobs = [queued.id for queued in chosen if queued.is_job]
        services = [queued.id for queued in chosen if not queued.is_job]
        found: dict[UUID, Job | Service] = {}
        found |= {row.pk: row for row in Job.objects.filter(pk__in=jobs).select_related(*related)}
        for row in Service.objects.filter(pk__in=services).select_related(*related):
            found[row.pk] = row
        positions = self._positions
        # What has left the queue in between is left out.
        return [
            QueueEntry(positions[w.id], self._lengths[w.tenant_id], found[w.id])
            for w in chosen
            if w.id in found
        ]


class QueuePage:
    """One page of the queue."""

    def __init__(self, user: Any, page_number: str = "1") -> None:
        self._queue = QueueEntries(user)
        self._page_number = page_number
        self.is_shared = policy.may(user, "see")

    @cached_property
    def page(self) -> Page[QueueEntry]:
        return Paginator(self._queue, PAGE_SIZE).get_page(self._page_number)

    @cached_property
    def entries(self) -> list[QueueEntry]:
        return list(self.page.object_list)

    @property
    def count(self) -> int:
        return len(self._queue)

    @cached_property
    def asked(self) -> dict[str, int]:
        """What the entries of this page ask for together."""
        total: Counter[str] = Counter()
        for entry in self.entries:
            total.update(entry.asked)
        return dict(total)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything on the page changes."""
        shown = [(str(p.row.pk), p.row.revision, p.position, p.length) for p in self.entries]
        return "~" + hashlib.sha256(repr((shown, self.count)).encode()).hexdigest()[:16]
