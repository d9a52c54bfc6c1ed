"""Which of the cluster's events are about a workload's objects, and how they are kept with it."""

from collections.abc import Iterable
from datetime import datetime
from uuid import UUID

from jobs.engine.rows import EventRow
from jobs.kinds.state import WorkloadRow
from jobs.rules.reasons import clip
from portal.cluster.cache import ClusterCache
from portal.cluster.objects import KubeEvent

MESSAGE_MAX = 1000
_STARTING_PROBES = ("Startup probe", "Readiness probe")


class EventLog:
    """Finds what is new among a workload's events, so that nothing is written twice."""

    def __init__(self) -> None:
        # workload's id -> event uid -> how often it had happened when it was written
        self._written: dict[str, dict[str, int]] = {}

    def news(self, cache: ClusterCache, row: WorkloadRow) -> list[EventRow]:
        """Events about the objects of a row that are new or have happened again."""
        known, base = self._written.get(row.id, {}), base_name(row)
        found = [
            event
            for event in cache.events.in_namespace(row.namespace).values()
            if is_about(event, base) and known.get(event.metadata.uid) != event.total
        ]
        return [row_of(event, row.started_at) for event in sorted(found, key=_at)]

    def wrote(self, workload_id: UUID, rows: Iterable[EventRow]) -> None:
        """Call after the rows were committed."""
        if written := {row.uid: row.count for row in rows}:
            self._written.setdefault(str(workload_id), {}).update(written)

    def forget_gone(self, cache: ClusterCache) -> None:
        """Forgets the events that the cluster has forgotten, as it does after an hour: they do not come back."""
        there = {event.metadata.uid for event in cache.events.watch.items.values()}
        for workload_id, known in list(self._written.items()):
            kept = {uid: count for uid, count in known.items() if uid in there}
            if kept:
                self._written[workload_id] = kept
            else:
                del self._written[workload_id]

    def forget(self, workload_id: UUID) -> None:
        self._written.pop(str(workload_id), None)


def base_name(row: WorkloadRow) -> str:
    """NAME of the generation's first attempt, with which the names of all its objects begin."""
    is_first = row.attempt == max(1, row.observed_generation)
    return row.kube_name if is_first else row.kube_name.removesuffix(f"-{row.attempt}")


def is_about(event: KubeEvent, base: str) -> bool:
    """Whether the event's object is one of the workload's.

    Events outlive pods, so they are found by name: NAME holds 6 characters of the workload's uuid.
    """
    name = event.involved_object.name
    return name == base or name.startswith(f"{base}-")


def row_of(event: KubeEvent, answers_since: datetime | None = None) -> EventRow:
    """As it is kept; text from outside is clipped to one printable line.

    Args:
        answers_since: when all of the workload ran, or answered, for the first time; None: it has not yet.
    """
    about = event.involved_object
    return EventRow(
        uid=event.metadata.uid,
        at=event.at,
        source=event.component or "cluster",
        subject=f"{about.kind.lower()}/{about.name}",
        reason=clip(event.reason, 64),
        message=clip(event.message, MESSAGE_MAX),
        is_warning=event.type == "Warning" and not _is_start_up(event, answers_since),
        count=event.total,
    )


def _is_start_up(event: KubeEvent, answers_since: datetime | None) -> bool:
    """A probe that is refused while a program starts: that is how probes find out when it has."""
    is_probe = event.reason == "Unhealthy" and event.message.startswith(_STARTING_PROBES)
    return is_probe and (answers_since is None or event.at is None or event.at <= answers_since)


def _at(event: KubeEvent) -> tuple[float, str]:
    at: datetime | None = event.at
    return (at.timestamp() if at else 0.0, event.metadata.name)
