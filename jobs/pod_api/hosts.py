"""Where the replicas of an attempt are, for runners whose programs meet by IP address, and which have ended, under
/internal/v1/.

A call waits until the reconciler has seen an address of each replica. It waits on the event loop and
holds no thread; for each attempt there is one look at the database a second, however many pods wait.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any
from uuid import UUID
from weakref import WeakValueDictionary

from channels.db import database_sync_to_async
from django.http import HttpRequest, StreamingHttpResponse
from django.urls import path

from jobs.kinds.spec import spec_of
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Replica, Workload
from jobs.pod_api.base import pod_view
from jobs.pod_api.runner import find_job, refuse_archived
from jobs.rules.states import FINAL_REPLICA_STATES
from jobs.rules.topologies import get_topology
from portal.errors import Refused
from portal.web.streaming import streamed

WAIT_S = 25.0  # less than a pod waits for an answer (NET_TIMEOUT_S)
LOOK_S = 1.0
# A quarter of the requests that are answered at once (portal/server/limits.py); who comes then is
# answered with what there is, and asks again.
MAX_WAITING = 500
_RETRY_S = 5

Addresses = dict[str, list[str]]  # role -> IP addresses by index; empty where none has been seen


class _Watch:
    """What all see together that wait for the same attempt."""

    def __init__(self, job: UUID, attempt: int, counts: Mapping[str, int]) -> None:
        self._job, self._attempt, self._counts = job, attempt, counts
        self._look: asyncio.Future[Addresses] | None = None
        self._at = 0.0
        self.waiting = 0  # requests

    async def look(self) -> Addresses:
        now = time.monotonic()
        if self._look is None or now - self._at >= LOOK_S:
            self._at, self._look = now, asyncio.ensure_future(database_sync_to_async(self._read)())
        # Who leaves while it waits must not take the look away from the others.
        return await asyncio.shield(self._look)

    def _read(self) -> Addresses:
        rows = Replica.objects.filter(workload=self._job, attempt=self._attempt).order_by()
        seen = {
            (role, index): ip for role, index, ip in rows.values_list("role", "index", "address")
        }
        return {
            role: [seen.get((role, index), "") for index in range(count)]
            for role, count in self._counts.items()
        }


_watches: WeakValueDictionary[tuple[UUID, int], _Watch] = WeakValueDictionary()
_places = asyncio.Semaphore(MAX_WAITING)  # nobody ever waits for one


@pod_view(find_job, "job_id", "GET")
def hosts(request: HttpRequest, job: Workload) -> dict[str, Any] | StreamingHttpResponse:
    """IP addresses of all replicas that others talk to: as soon as all are known, or after `WAIT_S`.

    With `ended=1`, at once, the indexes of those that have run and ended, by role: nobody finds their names.
    """
    if request.GET.get("attempt") != str(job.attempt):
        raise Refused("the training is not in this attempt", "not_found", 404)
    refuse_archived(job)
    if request.GET.get("ended") == "1":
        return {"ended": _ended(job)}
    spec = spec_of(job, TrainingSpec)
    roles = get_topology(spec.topology).meeting(spec.replicas)
    counts = {role.name: spec.replicas[role.name].count for role in roles}
    key = (job.pk, job.attempt)
    watch = _watches.setdefault(key, _Watch(*key, counts))
    if watch.waiting >= job.pod_count:
        text = "as many wait for these addresses as the training has pods"
        raise Refused(text, "too_many_requests", 429, retry_after_s=_RETRY_S)
    return streamed(
        request,
        _answer(watch),
        content_type="application/json",
        file_name=None,
        is_download=False,
    )


def _ended(job: Workload) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    rows = job.replica_rows.filter(attempt=job.attempt, state__in=FINAL_REPLICA_STATES)
    begun = rows.exclude(started_at=None).order_by("role", "index")
    for role, index in begun.values_list("role", "index"):
        found.setdefault(role, []).append(index)
    return found


async def _answer(watch: _Watch) -> AsyncIterator[bytes]:
    until = time.monotonic() + WAIT_S
    watch.waiting += 1
    try:
        found = await watch.look()
        if not _places.locked():
            async with _places:
                while not all(map(all, found.values())) and time.monotonic() < until:
                    await asyncio.sleep(LOOK_S)
                    found = await watch.look()
    finally:
        watch.waiting -= 1
    yield json.dumps(found).encode()


internal_urls = [path("jobs/<uuid:job_id>/hosts/", hosts)]
