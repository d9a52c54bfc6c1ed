"""Places in the queue, when each starts, and by which rules: worked out once a minute at most, and kept for pages.

The figures are those of admission's last look; the way on from it is `rules.queue.estimate`, in a thread.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import DatabaseError

from jobs.engine.admission import AdmissionPass
from jobs.leader.clock import SteadyClock
from jobs.leader.lease import Lease, LeaseLostError
from jobs.models import Workload
from jobs.places import QueuePlace
from jobs.rules.queue.estimate import estimate, line_of, rounded_s, series_of, usual_s
from jobs.rules.queue.explain import explain
from jobs.rules.queue.look import Looked
from jobs.rules.queue.state import UNKNOWN, QueueState
from jobs.rules.queue.times import time_of
from jobs.rules.states import WorkloadState
from portal import live

log = logging.getLogger(__name__)

_GAP_S = 60.0  # between two estimates
_CPU_S = 1.0  # of one
_ANEW_S = 600.0  # after so long what was expected may be over, although nothing has changed
_LOOK_S = 1.0
_KNOWN_RUNS = timedelta(days=90)  # so far back a run tells how long the next one takes
_MOST_RUNS = 2000


@dataclass(frozen=True)
class KeptPlace:
    """As `QueuePlace` keeps it."""

    position: int
    position_all: int
    starts_at: datetime | None
    basis: str
    cause: UUID | None
    rules: tuple[str, ...]


class EstimatesPass:
    """Follows admission's looks."""

    def __init__(self, admission: AdmissionPass, lease: Lease, clock: SteadyClock) -> None:
        self._admission = admission
        self._lease = lease
        self._clock = clock
        self._looked: Looked | None = None
        self._began_at = float("-inf")
        self._kept: Mapping[UUID, KeptPlace] | None = None  # None: what an earlier leader kept

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                is_done = await self.run_once()
            except LeaseLostError:
                raise
            except DatabaseError as error:
                log.warning("places in the queue cannot be kept: %s", error)
                is_done = False
            except Exception:  # the named fence: a figure on a page must not stop the reconciler
                log.exception("places in the queue cannot be worked out")
                is_done = True
            await asyncio.sleep(_GAP_S if is_done else _LOOK_S)

    async def run_once(self) -> bool:
        """Whether there was something to work out."""
        looked = self._admission.looked
        is_seen = looked is self._looked and time.monotonic() - self._began_at < _ANEW_S
        if looked is not None and (is_seen or looked.state is None):
            return False
        places: Mapping[UUID, KeptPlace] = {}
        self._began_at = time.monotonic()
        if looked is not None and looked.state is not None:
            now = self._clock.now()
            usual = await sync_to_async(usual_durations)(looked.state, now)
            now_s = int(now.timestamp())
            places = await asyncio.to_thread(places_of, looked, usual, now_s)
        if places != self._kept:
            await self._lease.commit(partial(save, places, self._kept))
            await live.tell_everybody("queue", live.revision_now())
        self._looked, self._kept = looked, places
        return looked is not None


def places_of(looked: Looked, usual: Mapping[str, int], now_s: int) -> dict[UUID, KeptPlace]:
    """Of all that still wait after this look. Takes a second of processor time at most."""
    if looked.state is None or looked.decided is None:
        return {}
    until_s = time.thread_time() + _CPU_S
    state = replace(looked.state, now_s=max(now_s, looked.state.now_s))
    found = estimate(state, looked.rules, usual, lambda: time.thread_time() < until_s)
    queued = [one.queued for one in looked.decisions]
    names = {(one.tenant_id, one.workload_id): one.name for one in queued}
    sentences = explain(looked.state, looked.decided, looked.rules, names)
    places: dict[UUID, KeptPlace] = {}
    counted = Counter[str]()
    namespaces = {one.workload_id: one.namespace for one in state.queued}
    for name in line_of(looked.state, looked.rules):
        if name not in sentences:  # it starts
            continue
        namespace, told = namespaces[name], found[name]
        counted[namespace] += 1
        is_known = told.at_s != UNKNOWN
        places[UUID(name)] = KeptPlace(
            counted[namespace],
            len(places) + 1,
            time_of(rounded_s(told.at_s, state.now_s)) if is_known else None,
            told.basis,
            UUID(told.workload_id) if told.workload_id else None,
            sentences[name],
        )
    return places


# --- rows; blocking ---
def usual_durations(state: QueueState, now: datetime) -> dict[str, int]:
    """By workload without a deadline: for how many seconds its owner's earlier ones of its series held their room."""
    endless = [one.workload_id for one in state.running if one.ends_by_s == UNKNOWN]
    endless += [one.workload_id for one in state.queued if one.lasts_s == UNKNOWN]
    rows = Workload.objects.filter(pk__in=endless).order_by()
    asked = {
        str(pk): (owner, kind, series_of(name))
        for pk, owner, kind, name in rows.values_list("pk", "owner_id", "kind", "name")
    }
    runs = Workload.objects.filter(
        owner__in={owner for owner, _, _ in asked.values()},
        state=WorkloadState.SUCCEEDED,
        finished_at__gte=now - _KNOWN_RUNS,
        admitted_at__isnull=False,
    )
    columns = ("owner_id", "kind", "name", "admitted_at", "finished_at")
    lasted: dict[object, list[int]] = defaultdict(list)
    if asked:
        latest = runs.order_by("-finished_at").values_list(*columns)[:_MOST_RUNS]
        for owner, kind, name, admitted_at, finished_at in latest:
            seconds = (finished_at - admitted_at).total_seconds()
            lasted[owner, kind, series_of(name)].append(int(seconds))
    found = ((name, usual_s(lasted[series])) for name, series in asked.items())
    return {name: seconds for name, seconds in found if seconds is not None}


def save(places: Mapping[UUID, KeptPlace], before: Mapping[UUID, KeptPlace] | None) -> None:
    """These hold from now on, and no others. Call inside `Lease.commit`."""
    known = before or {}
    gone: Iterable[UUID] = known.keys() - places.keys()
    rows = QueuePlace.objects.all()
    if before is None:
        rows.exclude(workload__in=places).delete()
    elif gone:
        rows.filter(workload__in=gone).delete()
    # What was deleted meanwhile would have a place for ever.
    changed = [name for name, place in places.items() if known.get(name) != place]
    there = set(Workload.objects.filter(pk__in=changed).values_list("pk", flat=True))
    QueuePlace.objects.bulk_create(
        [QueuePlace(workload_id=name, **asdict(places[name])) for name in changed if name in there],
        update_conflicts=True,
        unique_fields=["workload"],
        update_fields=QueuePlace.WRITTEN,
        batch_size=500,
    )
