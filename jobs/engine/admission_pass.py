"""Looks at the queue: who has room now is admitted, the others are told why they wait."""

import asyncio
import time
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import TypeVar

from asgiref.sync import sync_to_async

from jobs.engine import admit, claim, store
from jobs.engine.rows import Queue, QueuedJob, Saved
from jobs.leader.clock import SteadyClock
from jobs.leader.lease import Lease
from jobs.rules import reasons
from jobs.rules.admission import Fit
from jobs.rules.queue import Verdict
from portal.cluster.cache import ClusterCache

T = TypeVar("T")

_GAP_S = 0.5  # between two looks at a queue that nobody has added to
# A look costs what the queue, the nodes and all that runs are many. A costly one is followed by a
# rest of so many times its processor time: it takes a tenth of a core then, and not the whole.
_COSTLY_S = 0.1
_REST_TIMES = 10
_REST_MOST_S = 10.0
_AT_ONCE = 10  # admissions in one transaction: rendering takes its time, and others want to write


class AdmissionPass:
    """Remembers whether there is a queue, and when it was last looked at."""

    def __init__(self, view: ClusterCache, lease: Lease, clock: SteadyClock) -> None:
        self._view = view
        self._lease = lease
        self._clock = clock
        self._is_empty = False
        self._is_wanted = True
        self._looked_at: datetime | None = None
        self._took_s = 0.0
        self._is_urgent = True
        self._not_before: datetime | None = None

    def note(self, *, added: bool) -> None:
        """Room or the queue changed; `added` when the queue itself may have grown."""
        if added:
            self._is_empty = False
            self._is_urgent = True
        self._is_wanted = True

    def next_due_s(self) -> float | None:
        """Seconds until it wants to be called; None: only after `note`."""
        if self._is_empty:
            return None
        if self._is_wanted and self._looked_at is None:
            return 0.0
        waits = []
        now = self._clock.now()
        if self._is_wanted and self._looked_at is not None:
            waits.append(self._gap_s - (now - self._looked_at).total_seconds())
        if self._not_before is not None:
            waits.append((self._not_before - now).total_seconds())
        return max(0.0, min(waits)) if waits else None

    @property
    def _gap_s(self) -> float:
        is_costly = self._took_s > _COSTLY_S
        rest_s = min(self._took_s * _REST_TIMES, _REST_MOST_S) if is_costly else 0.0
        return rest_s if self._is_urgent else max(_GAP_S, rest_s)

    async def run_once(self) -> list[Saved]:
        """Looks at the queue if that is due; returns the jobs whose rows changed."""
        due_s = self.next_due_s()
        if due_s is None or due_s > 0:
            return []
        self._is_urgent = False
        queue, read_s = await sync_to_async(_measured)(store.read_queue)
        self._is_empty = not queue.queued
        if not queue.queued:
            self._is_wanted, self._took_s = False, 0.0
            return []
        now = self._clock.now()
        times = [job.waiting.not_before for job in queue.queued]
        self._not_before = min((at for at in times if at is not None and at > now), default=None)
        found, packed_s = await self._verdicts(queue, now)
        self._looked_at, self._took_s = self._clock.now(), read_s + packed_s
        claims = claim.news(found)
        written: list[Saved] = []
        if claims:
            written = await self._lease.commit(partial(claim.write, claims, now))
        self._is_wanted = len(found) < len(queue.queued)
        if self._is_wanted:  # the others are not kept waiting
            self._is_urgent, self._took_s = True, 0.0
        return written

    async def _verdicts(
        self, queue: Queue, now: datetime
    ) -> tuple[list[tuple[QueuedJob, Verdict]], float]:
        """The verdicts, and seconds of processor time."""
        if not self._view.synced or self._view.problem:
            words = reasons.make("cluster_unreachable")
            waits = Fit("later", words.code, words.text)
            return [(job, Verdict(job.waiting.job_id, waits)) for job in queue.queued], 0.0
        room, look_s = _measured(partial(admit.look, self._view, queue))
        # Packing a long queue takes its time, and the event loop has viewers to serve.
        pack = partial(admit.verdicts, queue, room, now, most=_AT_ONCE)
        found, pack_s = await asyncio.to_thread(_measured, pack)
        return found, look_s + pack_s


def _measured(work: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and the processor time that it took in seconds; other threads do not count."""
    began_s = time.thread_time()
    return work(), time.thread_time() - began_s
