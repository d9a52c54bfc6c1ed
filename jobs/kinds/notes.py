"""The reconciler's own notes about a workload, and how they are kept as JSON.

They hold what neither the request nor the cluster can tell after a restart. Fields may be added: one
that is missing in a stored note takes its default, one that is not known any more is dropped, so
that what runs survives an upgrade. A field that is renamed loses what it held.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any

import msgspec


@dataclass(frozen=True)
class Notes:
    """Times are ours (aware UTC), never the cluster's.

    Attributes of all kinds:
        event_count: number of own events so far; makes their keys.
        children_of: uid of the root whose children have all been created.
        committed_at: when this attempt's root was set going.
        starting_since: since when the workload is `starting` this time.
        missing_since: since when the root, or the Service of a gate, is not in the cache although it
            was made.
        restart_reason: (code, text, next step) why it is `starting` once more; empty at the first
            start.
        teardown: "queue", "retry", "suspend", "stop" or "fail" while everything is being taken down, else
            empty.
        teardown_at: since when.
        teardown_reason: (code, text, next step) to show when it is down.
        pools: role -> the pool to which it was admitted; empty: there were no pools.
        swept: whether what no watch shows has been looked for and removed.

    Attributes of trainings:
        spent_s: seconds that earlier attempts ran, held against the deadline.
        retries_used: attempts begun because a replica failed.
        short_attempts: attempts in a row that ended before they had run for 10 minutes.
        free_attempts: those in a row of them that cost no retry, for the cluster had ended them.
        preemptions: how often it was stopped for another one.
        had_claim: whether others were stopped for this attempt.
        attempt_cause: why the attempt that waits in the queue begins, see `restarts.Cause`; empty: nobody
            noted it. While one is restarting, of the attempt that comes.
        stopping_at: since when it stops with grace.
        worker0_ended_at: when worker 0 was seen to have succeeded.
        verdict_at: when the cluster's verdict was first seen, while the replica that caused it was not
            known for sure.
        restarts: server replica ("ps-0") -> times of its restarts, see `crashes`.
        pods_ended_at: when the last replica was seen to have ended.
        rescues: replica key -> number of the try that is on its way (1 is the first).
        rescue_at: when the first rescue was due; bounds them all.
        rescued: replica keys whose rescue pod has done its work.
        lost: replica keys whose log stays on the log volume only.
        archive: "" while it is going on, "complete" or "partial" when it is over.
        purged: whether its part of the object store is gone.

    Attributes of what is served behind a gate:
        pod_restarts: restarts of the app within its pod that have been counted.
        crashes: times of the app's unwanted ends, see `crashes`.
        was_ready: it answered once.
        problem_since: since when the image, the set-up or the gate fails.
        running_since: since when the app runs without having answered.
        silent_since: since when it does not answer although it did.
    """

    event_count: int = 0
    children_of: str = ""
    committed_at: datetime | None = None
    starting_since: datetime | None = None
    missing_since: datetime | None = None
    restart_reason: tuple[str, ...] = ()
    teardown: str = ""
    teardown_at: datetime | None = None
    teardown_reason: tuple[str, ...] = ()
    swept: bool = False
    pools: Mapping[str, str] = field(default_factory=dict)

    spent_s: int = 0
    retries_used: int = 0
    short_attempts: int = 0
    free_attempts: int = 0
    preemptions: int = 0
    had_claim: bool = False
    attempt_cause: str = ""
    stopping_at: datetime | None = None
    worker0_ended_at: datetime | None = None
    verdict_at: datetime | None = None
    restarts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    pods_ended_at: datetime | None = None
    rescues: Mapping[str, int] = field(default_factory=dict)
    rescue_at: datetime | None = None
    rescued: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    archive: str = ""
    purged: bool = False

    pod_restarts: int = 0
    crashes: tuple[str, ...] = ()
    was_ready: bool = False
    problem_since: datetime | None = None
    running_since: datetime | None = None
    silent_since: datetime | None = None

    def for_new_attempt(self) -> "Notes":
        """What stays true when everything of an attempt is down and the next one may begin."""
        return Notes(
            event_count=self.event_count,
            pools=self.pools,
            spent_s=self.spent_s,
            retries_used=self.retries_used,
            short_attempts=self.short_attempts,
            free_attempts=self.free_attempts,
            preemptions=self.preemptions,
            attempt_cause=self.attempt_cause,
            rescued=self.rescued,
            lost=self.lost,
        )

    def for_new_generation(self) -> "Notes":
        """What stays true when a person starts it once more."""
        return Notes(event_count=self.event_count)


def holds_room(teardown: str) -> bool:
    """Whether what was admitted holds its room, by that note: not what goes for good, or to the queue."""
    return teardown in {"", "retry"}


def load(raw: Mapping[str, Any]) -> Notes:
    """The notes of a row; an empty mapping is a row that nobody has looked at yet.

    Raises:
        msgspec.ValidationError: the row was changed by hand.
    """
    return msgspec.convert(raw, Notes)


def dump(notes: Notes) -> dict[str, Any]:
    """JSON of the notes; what has its default value is left out."""
    plain = Notes()
    names = [item.name for item in fields(notes)]
    changed = {name: getattr(notes, name) for name in names}
    return {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in changed.items()
        if value != getattr(plain, name)
    }
