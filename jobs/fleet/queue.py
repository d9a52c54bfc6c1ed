"""Who waits: workloads of all tenants that somebody may see, the longest first.

They stand in the order in which the last look at all of it asks them, what was queued since behind, by age;
an entry is counted within its tenant. Seven queries for one page at most, whatever the length of the queue.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.core.paginator import Page, Paginator
from django.db.models.fields.json import KT

from jobs.kinds.next_steps import NextSteps
from jobs.kinds.registry import KINDS
from jobs.models import Workload
from jobs.rules.queue.explain import order_text
from jobs.rules.queue.state import NORMAL, QueueRules
from jobs.scheduling.models import Scheduling
from jobs.workloads.queue_place import ShownPlace, read_places
from jobs.workloads.usage import totals
from portal.web.lists import revision_of
from tenants import policy

PAGE_SIZE = 50


@dataclass(frozen=True)
class QueueEntry:
    """One entry in the queue; `row` is what waits there.

    Attributes:
        position: within its tenant's queue, from 1.
        length: of that queue.
        next_step: what to do, in the words of who reads it; empty: nothing.
        place: as of the last look at all of it; None: it came after that.
    """

    position: int
    length: int
    row: Workload
    next_step: str
    place: ShownPlace | None

    @property
    def priority(self) -> str:
        """One of `PRIORITIES`."""
        return getattr(self.row, "priority", None) or NORMAL

    @property
    def asked(self) -> dict[str, int]:
        """cpu in millicores, memory in bytes, gpu, pods."""
        return totals(self.row.replicas)

    @property
    def shape(self) -> str:
        """`2 workers, 1 parameter server`; nothing for what is always one pod."""
        kind = KINDS[self.row.kind]
        return kind.pages.summary(self.row) if kind.has_roles else ""


@dataclass(frozen=True)
class _Queued:
    """As little as the order of the queue needs."""

    position_all: int | None
    queued_at: datetime
    id: UUID
    tenant_id: UUID

    @property
    def turn(self) -> tuple[bool, int, datetime, str]:
        """By which it is sorted."""
        is_new = self.position_all is None
        return is_new, self.position_all or 0, self.queued_at, str(self.id)


class QueueEntries(Sequence[QueueEntry]):
    """The whole queue as one may see it; only the entries that are asked for are read."""

    def __init__(self, user: Any) -> None:
        self._user = user

    @cached_property
    def _queued(self) -> list[_Queued]:
        rows = Workload.objects.visible_to(self._user).queued().order_by()
        columns = ("place__position_all", "queued_at", "pk", "tenant_id")
        found = [_Queued(*values) for values in rows.values_list(*columns)]
        return sorted(found, key=lambda queued: queued.turn)

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
        ids = [queued.id for queued in chosen]
        rows = (
            Workload.objects.filter(pk__in=ids).for_lists().annotate(priority=KT("spec__priority"))
        )
        found = {row.pk: row for row in rows.select_related("owner", "tenant__team")}
        positions, kept = self._positions, read_places(self._user, ids)
        steps = NextSteps(self._user)
        # What has left the queue in between is left out.
        return [
            QueueEntry(
                positions[w.id], self._lengths[w.tenant_id], row, steps.of(row), kept.get(w.id)
            )
            for w in chosen
            if (row := found.get(w.id)) is not None
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
    def order(self) -> str:
        """By which rules it stands so."""
        chosen = Scheduling.load()
        return order_text(QueueRules(fair_share=chosen.fair_share, aging_s=chosen.aging_s))

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
        shown = [
            (str(p.row.pk), p.row.revision, p.position, p.length, p.place and astuple(p.place))
            for p in self.entries
        ]
        return revision_of(shown, self.count, self.order)
