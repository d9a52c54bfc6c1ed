"""Places in the queue, by which rules, and when each starts: of admission's last look, kept for pages.

The order and the rules follow each look. When each starts is `rules.queue.estimate`'s, in a thread; in a
long queue it costs much, so a costly one is followed by a rest, and what got another place meanwhile has
no time until the next one.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from itertools import takewhile
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import DatabaseError

from jobs.engine.admission import AdmissionPass, measured
from jobs.leader.clock import SteadyClock
from jobs.leader.lease import Lease, LeaseLostError
from jobs.models import Workload
from jobs.places import ESTIMATED_EVERY_S, QueuePlace
from jobs.rules.queue.estimate import Estimate, estimate, line_of, rounded_s, series_of, usual_s
from jobs.rules.queue.explain import explain
from jobs.rules.queue.look import Looked
from jobs.rules.queue.state import UNKNOWN, QueueState
from jobs.rules.queue.times import time_of
from jobs.rules.states import WorkloadState
from portal import live

log = logging.getLogger(__name__)

_LOOK_S = 0.5
_AFTER_ERROR_S = 60.0
_CPU_S = 1.0  # of one estimate
# What follows each look takes a small part of a core however long the queue is: so many times what it
# took passes before the next one. The order has to follow within 2 s, and costs far less than times.
_ORDER_REST_TIMES = 10
_TIMES_REST_TIMES = 60
_KNOWN_RUNS = timedelta(days=90)  # so far back a run tells how long the next one takes
_MOST_RUNS = 2000


_NEW = Estimate(UNKNOWN, "new")


@dataclass(frozen=True)
class KeptPlace:
    """As `QueuePlace` keeps it."""

    position: int
    position_all: int
    starts_at: datetime | None
    basis: str
    cause: UUID | None
    rules: tuple[str, ...]


@dataclass(frozen=True)
class Estimated:
    """When each starts, as of one look; `line` is the order of that look."""

    line: Sequence[str] = ()
    times: Mapping[str, Estimate] = field(default_factory=dict)

    def still_true(self, line: Sequence[str]) -> Mapping[str, Estimate]:
        """Of those before which nobody came or changed places; that some have left delays nobody."""
        there = set(line)
        before = [name for name in self.line if name in there]
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, line, strict=False))
        return {name: self.times[name] for name, _ in same if name in self.times}


class EstimatesPass:
    """Follows admission's looks."""

    def __init__(self, admission: AdmissionPass, lease: Lease, clock: SteadyClock) -> None:
        self._admission = admission
        self._lease = lease
        self._clock = clock
        self._looked: Looked | None = None  # whose order is kept
        self._estimated_of: Looked | None = None
        self._estimated_at = float("-inf")
        self._estimated = Estimated()
        self._order_from = float("-inf")  # monotonic: a rest ends then
        self._times_from = float("-inf")
        self._kept: Mapping[UUID, KeptPlace] | None = None  # None: what an earlier leader kept

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            try:
                await self.run_once()
            except LeaseLostError:
                raise
            except DatabaseError as error:
                log.warning("places in the queue cannot be kept: %s", error)
            except Exception:  # the named fence: a figure on a page must not stop the reconciler
                log.exception("places in the queue cannot be worked out")
                await asyncio.sleep(_AFTER_ERROR_S)
            await asyncio.sleep(_LOOK_S)

    async def run_once(self) -> bool:
        """Whether there was something to work out."""
        looked, began_at = self._admission.looked, time.monotonic()
        if not self._admission.has_looked:  # what an earlier leader kept is the best that is known
            return False
        if looked is None:
            await self._keep({})
            self._looked = self._estimated_of = None
            return False
        if looked.state is None:  # the cluster cannot be reached, and what was known is kept
            return False
        is_old = (
            looked is not self._estimated_of or began_at - self._estimated_at > ESTIMATED_EVERY_S
        )
        wants_times = is_old and began_at >= self._times_from
        wants_order = looked is not self._looked and began_at >= self._order_from
        if not (wants_times or wants_order):
            return False
        if wants_times:
            now_s, state = int(self._clock.now().timestamp()), looked.state
            usual, read_s = await sync_to_async(measured)(
                partial(usual_durations, state, self._clock.now())
            )
            found = partial(estimated, looked, usual, now_s)
            self._estimated, took_s = await asyncio.to_thread(measured, found)
            self._estimated_of, self._estimated_at = looked, began_at
            self._times_from = time.monotonic() + (read_s + took_s) * _TIMES_REST_TIMES
        places, took_s = await asyncio.to_thread(
            measured, partial(places_of, looked, self._estimated)
        )
        took_s += await self._keep(places)
        self._order_from = time.monotonic() + took_s * _ORDER_REST_TIMES
        self._looked = looked
        return True

    async def _keep(self, places: Mapping[UUID, KeptPlace]) -> float:
        """Seconds of processor time."""
        if places == self._kept:
            return 0.0
        write = partial(measured, partial(save, places, self._kept))
        _, took_s = await self._lease.commit(write)
        self._kept = places
        await live.tell_everybody("queue", live.revision_now())
        return took_s


def estimated(looked: Looked, usual: Mapping[str, int], now_s: int) -> Estimated:
    """Of all that wait. Takes a second of processor time at most."""
    assert looked.state is not None
    until_s = time.thread_time() + _CPU_S
    state = replace(looked.state, now_s=max(now_s, looked.state.now_s))
    found = estimate(state, looked.rules, usual, lambda: time.thread_time() < until_s)
    for name, start in found.items():
        if start.at_s != UNKNOWN:
            found[name] = replace(start, at_s=rounded_s(start.at_s, state.now_s))
    return Estimated(line_of(looked.state, looked.rules), found)


def places_of(looked: Looked, known: Estimated) -> dict[UUID, KeptPlace]:
    """Of all that still wait after this look; `known` may be of an earlier one."""
    if looked.state is None or looked.decided is None:
        return {}
    queued = [one.queued for one in looked.decisions]
    names = {(one.tenant_id, one.workload_id): one.name for one in queued}
    sentences = explain(looked.state, looked.decided, looked.rules, names)
    places: dict[UUID, KeptPlace] = {}
    counted = Counter[str]()
    namespaces = {one.workload_id: one.namespace for one in looked.state.queued}
    line = line_of(looked.state, looked.rules)
    times = known.still_true(line)
    for name in line:
        if name not in sentences:  # it starts
            continue
        namespace, start = namespaces[name], times.get(name, _NEW)
        counted[namespace] += 1
        places[UUID(name)] = KeptPlace(
            counted[namespace],
            len(places) + 1,
            time_of(start.at_s) if start.at_s != UNKNOWN else None,
            start.basis,
            UUID(start.workload_id) if start.workload_id else None,
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
