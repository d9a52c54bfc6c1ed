"""Records how long pods hold GPUs: from the view to rows of `UsageInterval`.

A part of the reconciler's tick. It remembers which rows are open, and nothing else: after a restart
the open rows are read again, pods that are there go on, and those that are gone are closed at the
last moment at which somebody knew them to be there. One transaction per tick at most, and only when
a pod began or ended.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import DatabaseError
from django.db.models import F

from jobs.leader.clock import SteadyClock
from jobs.leader.lease import Lease
from jobs.models import ReconcilerLease, ReplicaArchive, Workload
from jobs.usage.intervals import PodInterval, has_ended, interval_of
from jobs.usage.models import UsageInterval
from portal.cluster.cache import ClusterCache
from portal.cluster.objects import KubePod


@dataclass(frozen=True)
class IntervalChanges:
    """What is to be written.

    Attributes:
        begun: pods without a row; some have ended already.
        ended: rows to close.
        lost: pods that went while nobody looked, with the last moment they were known to be there.
    """

    begun: tuple[PodInterval, ...] = ()
    ended: tuple[PodInterval, ...] = ()
    lost: tuple[tuple[str, datetime], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.begun or self.ended or self.lost)


class UsageRecorder:
    """Knows the open rows, and until when the view was surely true."""

    def __init__(self, view: ClusterCache, lease: Lease, clock: SteadyClock) -> None:
        self._view = view
        self._lease = lease
        self._clock = clock
        self._has_begun = False
        self._open: dict[str, datetime] = {}  # pod uid -> start
        self._done: set[str] = set()  # pods that are still there and need no more rows
        self._owners: set[str] = set()
        self._deleted_pods: dict[str, KubePod] = {}
        # At first that is what the reconciler before us wrote into its lease.
        self._sure_at: datetime | None = None
        self._is_sure = False

    def note(self, owners: Iterable[str]) -> None:
        """Something of these workloads changed."""
        self._owners.update(owners)

    def note_deleted_pod(self, pod: KubePod) -> None:
        """A pod went; this is its last state."""
        self._deleted_pods[pod.metadata.uid] = pod

    async def begin(self) -> None:
        """Reads what the reconciler before this one left. Call before anything writes the lease."""
        if not self._has_begun:
            self._open, self._sure_at = await sync_to_async(_read)()
            self._has_begun = True

    async def run_once(self, *, everything: bool = False) -> None:
        """Writes what pods that changed have begun or ended; looks at all of them on demand."""
        await self.begin()
        if not self._view.synced:
            return  # before the first list, absence means nothing
        now = self._clock.now()
        is_current = not self._view.problem
        everything = everything or not self._is_sure
        if everything or self._owners or self._deleted_pods:
            is_sure = self._is_sure and is_current
            gone_at = now if is_sure or self._sure_at is None else min(self._sure_at, now)
            await self._commit(self._changes(now, gone_at, everything=everything))
        self._is_sure = is_current
        if is_current:
            self._sure_at = now

    async def _commit(self, changes: IntervalChanges) -> None:
        owners, deleted_pods = self._owners, self._deleted_pods
        self._owners, self._deleted_pods = set(), {}
        try:
            unknown = await self._lease.commit(partial(write, changes)) if changes else set()
        except DatabaseError:
            # Looked at again in the next tick, with what has come meanwhile.
            self._owners |= owners
            self._deleted_pods = {**deleted_pods, **self._deleted_pods}
            raise
        self._follow(changes, unknown)
        self._done.difference_update(deleted_pods)

    def _changes(self, now: datetime, gone_at: datetime, *, everything: bool) -> IntervalChanges:
        intervals = [
            interval_of(pod, now) for pod in self._chosen(everything) if self._may_have_changed(pod)
        ]
        intervals += [interval_of(pod, now, gone_at=gone_at) for pod in self._deleted_pods.values()]
        fresh = [
            interval
            for interval in intervals
            if interval is not None and interval.pod_uid not in self._done
        ]
        lost = []
        if everything:
            there = {pod.metadata.uid for pod in self._view.pods.watch.items.values()}
            missing = self._open.keys() - there - self._deleted_pods.keys()
            lost = [(uid, max(gone_at, self._open[uid])) for uid in sorted(missing)]
            self._done &= there
        return IntervalChanges(
            begun=tuple(interval for interval in fresh if interval.pod_uid not in self._open),
            ended=tuple(s for s in fresh if s.pod_uid in self._open and s.ended_at is not None),
            lost=tuple(lost),
        )

    def _may_have_changed(self, pod: KubePod) -> bool:
        """Not of a pod that goes on as its open row says, which nearly all of them do."""
        uid = pod.metadata.uid
        return uid not in self._done and (uid not in self._open or has_ended(pod))

    def _chosen(self, everything: bool) -> Iterable[KubePod]:
        if everything:
            return [pod for pod in self._view.pods.watch.items.values() if pod.metadata.owner]
        return [pod for owner in self._owners for pod in self._view.pods.of_owner(owner)]

    def _follow(self, changes: IntervalChanges, unknown: set[str]) -> None:
        for interval in (*changes.begun, *changes.ended):
            if interval.ended_at is None and interval.pod_uid not in unknown:
                self._open[interval.pod_uid] = interval.started_at
            else:
                self._open.pop(interval.pod_uid, None)
                self._done.add(interval.pod_uid)
        for uid, _ in changes.lost:
            self._open.pop(uid, None)


def _read() -> tuple[dict[str, datetime], datetime | None]:
    """Open rows, and when the cluster was last known. Blocking."""
    rows = UsageInterval.objects.filter(ended_at__isnull=True)
    sure_at = ReconcilerLease.objects.filter(pk=1).values_list("cluster_ok_at", flat=True).first()
    return dict(rows.values_list("pod_uid", "started_at")), sure_at


def write(changes: IntervalChanges) -> set[str]:
    """Writes the rows; blocking, inside `Lease.commit`.

    Returns:
        uids of pods whose workload has no row here: nothing is known of them.
    """
    made, unknown = _rows(changes.begun)
    # After a restart, pods that have ended and were written before are met again.
    UsageInterval.objects.bulk_create(made, ignore_conflicts=True, batch_size=100)
    ends = {
        interval.pod_uid: interval.ended_at
        for interval in changes.ended
        if interval.ended_at is not None
    }
    for uid, ended_at in {**ends, **_lost(changes.lost)}.items():
        UsageInterval.objects.filter(pod_uid=uid, ended_at__isnull=True).update(ended_at=ended_at)
    return unknown


def _lost(lost: Iterable[tuple[str, datetime]]) -> dict[str, datetime]:
    """The best that is known: a replica tells when it has uploaded everything, as its last act."""
    ends = dict(lost)
    told = ReplicaArchive.objects.filter(pod_uid__in=list(ends), completed_at__isnull=False)
    for archive in told.only("pod_uid", "completed_at"):
        if archive.completed_at is not None:
            ends[archive.pod_uid] = max(ends[archive.pod_uid], archive.completed_at)
    return ends


def _templates(owners: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Owner label -> what all rows of this workload have in common."""
    ids = [found for found in map(_uuid, owners) if found is not None]
    named = {"team_id": F("tenant__team"), "object_id": F("pk"), "object_name": F("name")}
    found = Workload.objects.filter(pk__in=ids).order_by()
    rows: Any = found.values("tenant_id", "owner_id", "kind", **named)
    return {str(row["object_id"]): row for row in rows}


def _uuid(text: str) -> UUID | None:
    try:
        return UUID(text)
    except ValueError:
        return None


def _rows(begun: Iterable[PodInterval]) -> tuple[list[UsageInterval], set[str]]:
    intervals = list(begun)
    templates = _templates({interval.owner for interval in intervals})
    made, unknown = [], set()
    for interval in intervals:
        template = templates.get(interval.owner)
        if template is None:
            unknown.add(interval.pod_uid)
            continue
        made.append(
            UsageInterval(
                **template,
                pod_uid=interval.pod_uid,
                node=interval.node,
                gpu_count=interval.held.gpu_count,
                cpu_millicores=interval.held.cpu_millicores,
                memory_bytes=interval.held.memory_bytes,
                started_at=interval.started_at,
                ended_at=interval.ended_at,
            )
        )
    return made, unknown
