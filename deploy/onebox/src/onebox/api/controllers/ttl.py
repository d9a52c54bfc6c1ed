"""Removes what has had its time: finished Jobs after `ttlSecondsAfterFinished`, old Events.

https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/ ; Events live for an
hour after they were last seen, as with upstream's `--event-ttl`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from onebox.api.controllers.job_status import is_finished
from onebox.api.controllers.objects import (
    Key,
    created_at,
    find_time,
    is_deleting,
    key_of,
    name_of,
    namespace_of,
    spec_of,
    status_of,
    uid_of,
)
from onebox.api.controllers.runtime import Controller
from onebox.api.resources import Obj

if TYPE_CHECKING:
    from onebox.api.registry import Api

EVENT_LIFETIME_S = 3600.0
SWEEP_AT_LEAST_EVERY_S = 60.0  # older by less than this is not worth a sweep of its own
SWEEP: Key = ("sweep",)


def job_expires_at(job: Obj) -> datetime | None:
    """When a Job is to be removed; None if it is not finished or has no time to live."""
    ttl_s = spec_of(job).get("ttlSecondsAfterFinished")
    if ttl_s is None or not is_finished(job):
        return None
    ends = [
        moment
        for condition in status_of(job).get("conditions") or ()
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
        if (moment := find_time(condition.get("lastTransitionTime")))
    ]
    return max(ends) + timedelta(seconds=ttl_s) if ends else None


class JobTtl(Controller):
    """Deletes finished Jobs, their pods first (propagation Foreground, as upstream)."""

    name = "ttl-after-finished-controller"
    kinds = ("jobs",)

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """A finished Job with a time to live wakes itself."""
        return (key_of(obj),) if event != "DELETED" and job_expires_at(obj) else ()

    def sync(self, key: Key) -> float | None:
        """Delete one Job, or come back when its time is over."""
        job = self.api.find("jobs", key[0], key[1])
        if job is None or is_deleting(job):
            return None
        expires_at = job_expires_at(job)
        if expires_at is None:
            return None
        left_s = (expires_at - self.api.clock()).total_seconds()
        if left_s > 0:
            return left_s
        self.api.delete("jobs", key[0], key[1], propagation="Foreground", uid=uid_of(job))
        return None


def last_seen(event: Obj) -> datetime:
    """When an Event last happened."""
    series = event.get("series") or {}
    for value in (series.get("lastObservedTime"), event.get("lastTimestamp")):
        if value:
            return find_time(value) or created_at(event)
    return find_time(event.get("eventTime")) or created_at(event)


class EventTtl(Controller):
    """Deletes Events an hour after they were last seen. One key: a sweep over all."""

    name = "event-ttl"
    kinds = ("events",)

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self._armed = False

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """The first Event arms the sweep; while one is due, others change nothing."""
        if self._armed or event == "DELETED":
            return ()
        self._armed = True
        return (SWEEP,)

    def sync(self, key: Key) -> float | None:
        """Delete what is too old, and come back for the next oldest."""
        self._armed = True
        now = self.api.clock()
        ages = [((now - last_seen(e)).total_seconds(), e) for e in self.api.list("events")]
        kept = [age_s for age_s, _ in ages if age_s < EVENT_LIFETIME_S]
        for age_s, event in ages:
            if age_s >= EVENT_LIFETIME_S:
                self.api.delete("events", namespace_of(event), name_of(event))
        if kept:
            return max(SWEEP_AT_LEAST_EVERY_S, EVENT_LIFETIME_S - max(kept))
        self._armed = False
        return None
