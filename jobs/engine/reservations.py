"""The rows of room that is kept for what waits. Blocking: called in the database thread."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from jobs.engine.rows import Kept
from jobs.models import Replica, Workload
from jobs.places import NodeClaim, NodeReservation
from jobs.rules.queue.guards import Guards
from jobs.rules.queue.holds import held_before
from jobs.rules.queue.state import Reservation, RoomClaim, Size
from jobs.rules.queue.times import seconds_of, time_of
from jobs.rules.states import WorkloadState
from jobs.scheduling.guards import read_suspicious_nodes
from jobs.scheduling.models import NodeHold


def load() -> Kept:
    """All that there is, also of what has left the queue meanwhile."""
    return Kept(
        tuple(
            Reservation(str(row.workload_id), _room(row.room), seconds_of(row.starts_at))
            for row in NodeReservation.objects.order_by("pk")
        ),
        tuple(
            RoomClaim(str(row.workload_id), _room(row.room), seconds_of(row.until))
            for row in NodeClaim.objects.order_by("pk")
        ),
    )


def _room(stored: Sequence[Any]) -> tuple[tuple[str, Size], ...]:
    return tuple((name, (size[0], size[1], size[2], size[3], size[4])) for name, size in stored)


def save(kept: Kept) -> None:
    """These hold from now on, and no others. Call inside `Lease.commit`."""
    _replace(
        [
            NodeReservation(
                workload_id=UUID(one.workload_id),
                room=one.room,
                starts_at=time_of(one.starts_at_s),
            )
            for one in kept.reservations
        ],
        NodeReservation,
        "starts_at",
    )
    _replace(
        [
            NodeClaim(
                workload_id=UUID(one.workload_id),
                room=one.room,
                until=datetime.fromtimestamp(one.until_s, UTC),
            )
            for one in kept.claims
        ],
        NodeClaim,
        "until",
    )


def _replace(rows: Sequence[Any], table: Any, time: str) -> None:
    table.objects.exclude(workload__in=[row.workload_id for row in rows]).delete()
    if rows:
        table.objects.bulk_create(
            rows,
            update_conflicts=True,
            unique_fields=["workload"],
            update_fields=["room", time],
        )


def load_holds() -> dict[str, int]:
    """Names of the nodes that admins hold -> from when on, in seconds."""
    return {name: seconds_of(at) for name, at in NodeHold.objects.values_list("node", "from_at")}


class ClosedNodes:
    """Held and suspicious nodes, read when first asked for: once for all that one transaction renders."""

    def __init__(self, now: datetime) -> None:
        self._now = now

    @cached_property
    def holds(self) -> dict[str, int]:
        """See `load_holds`."""
        return load_holds()

    @cached_property
    def suspicious(self) -> frozenset[str]:
        """Names of nodes on which trainings die."""
        return frozenset(Guards(nodes=read_suspicious_nodes(self._now)).avoided)


def avoided_nodes(workload_id: UUID, closed: ClosedNodes) -> tuple[str, ...]:
    """Names of nodes that are kept for others than this one, or held, where it may not end before that.

    Not those kept that its latest pods were on: between two attempts it keeps its room. But nothing
    starts on a held node, or on one where trainings die.
    """
    ends_by = Workload.objects.only("ends_by", "admitted_at").get(pk=workload_id).room_ends_by
    names: set[str] = set()
    for table in (NodeReservation, NodeClaim):
        rows = table.objects.exclude(workload=workload_id)
        for row in rows.filter(workload__state=WorkloadState.QUEUED):
            starts_at = row.starts_at if isinstance(row, NodeReservation) else None
            if ends_by is None or starts_at is None or ends_by > starts_at:
                names |= {name for name, _ in row.room}
    if names:
        placed = Replica.objects.filter(workload=workload_id).exclude(node="")
        latest = placed.order_by("-attempt").values_list("attempt", flat=True)[:1]
        names -= set(placed.filter(attempt__in=list(latest)).values_list("node", flat=True))
    names |= held_before(closed.holds, seconds_of(ends_by)) | closed.suspicious
    return tuple(sorted(names))
