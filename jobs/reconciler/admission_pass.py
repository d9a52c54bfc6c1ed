"""Looks at the queue: who has room now is admitted, the others are told why they wait."""

import time
from datetime import datetime
from functools import partial

from asgiref.sync import sync_to_async

from jobs.reconciler import admit, claim
from jobs.reconciler.clock import SteadyClock
from jobs.reconciler.lease import Lease
from jobs.reconciler.rows import Saved
from jobs.rules import reasons
from jobs.rules.admission import Fit
from jobs.rules.queue import Verdict
from portal.cluster.view import ClusterView

_GAP_S = 0.5  # between two looks at a queue that nobody has added to
_AT_ONCE = 10  # admissions in one transaction: rendering takes its time, and others want to write


class AdmissionPass:
    """Remembers whether there is a queue, and when it was last looked at."""

    def __init__(self, view: ClusterView, lease: Lease, clock: SteadyClock) -> None:
        self._view = view
        self._lease = lease
        self._clock = clock
        self._is_empty = False
        self._is_wanted = True
        self._looked_at = float("-inf")  # monotonic
        self._not_before: datetime | None = None

    def note(self, *, added: bool) -> None:
        """Room or the queue changed; `added` when the queue itself may have grown."""
        if added:
            self._is_empty = False
            self._looked_at = float("-inf")
        self._is_wanted = True

    def next_due_s(self) -> float | None:
        """Seconds until it wants to be called; None: only after `note`."""
        if self._is_empty:
            return None
        waits = []
        if self._is_wanted:
            waits.append(self._looked_at + _GAP_S - time.monotonic())
        if self._not_before is not None:
            waits.append((self._not_before - self._clock.now()).total_seconds())
        return max(0.0, min(waits)) if waits else None

    async def run_once(self) -> list[Saved]:
        """Looks at the queue if that is due; returns the jobs whose rows changed."""
        due_s = self.next_due_s()
        if due_s is None or due_s > 0:
            return []
        self._looked_at = time.monotonic()
        queue = await sync_to_async(admit.read)()
        self._is_empty = not queue.queued
        if not queue.queued:
            self._is_wanted = False
            return []
        now = self._clock.now()
        times = [job.waiting.not_before for job in queue.queued]
        self._not_before = min((at for at in times if at is not None and at > now), default=None)
        claims = claim.news(self._verdicts(queue, now))
        admitted = [claimed for claimed in claims if claimed.fit.kind == "now"]
        late = admitted[_AT_ONCE:]
        claims = [claimed for claimed in claims if claimed not in late]
        written: list[Saved] = []
        if claims:
            written = await self._lease.commit(partial(claim.write, claims, now))
        self._is_wanted = bool(late)
        if late:
            self._looked_at = float("-inf")
        return written

    def _verdicts(self, queue: admit.Queue, now: datetime) -> list[tuple[admit.QueuedJob, Verdict]]:
        if not self._view.synced or self._view.problem:
            words = reasons.make("cluster_unreachable")
            waits = Fit("later", words.code, words.text)
            return [(job, Verdict(job.waiting.job_id, waits)) for job in queue.queued]
        return admit.verdicts(queue, admit.look(self._view, queue), now)
