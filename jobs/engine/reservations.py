"""The rows of room that is kept for what waits. Blocking: called in the database thread."""

from collections.abc import Sequence
from uuid import UUID

from jobs.models import NodeReservation, Replica, Workload
from jobs.rules.queue.look import seconds_of, time_of
from jobs.rules.queue.state import Reservation
from jobs.rules.states import WorkloadState


def load() -> tuple[Reservation, ...]:
    """All that there are, also of what has left the queue meanwhile."""
    return tuple(map(_reservation, NodeReservation.objects.order_by("pk")))


def _reservation(row: NodeReservation) -> Reservation:
    room = tuple((name, (size[0], size[1], size[2], size[3], size[4])) for name, size in row.room)
    return Reservation(str(row.workload_id), room, seconds_of(row.starts_at))


def save(kept: Sequence[Reservation]) -> None:
    """These hold from now on, and no others. Call inside `Lease.commit`."""
    NodeReservation.objects.exclude(workload__in=[one.workload_id for one in kept]).delete()
    NodeReservation.objects.bulk_create(
        [
            NodeReservation(
                workload_id=UUID(one.workload_id),
                room=one.room,
                starts_at=time_of(one.starts_at_s),
            )
            for one in kept
        ],
        update_conflicts=True,
        unique_fields=["workload"],
        update_fields=["room", "starts_at"],
    )


def avoided_nodes(workload_id: UUID) -> tuple[str, ...]:
    """Names of nodes that are kept for others than this one, which may not end before they need them.

    Not those that its latest pods were on: between two attempts it keeps its room.
    """
    ends_by = Workload.objects.values_list("ends_by", flat=True).get(pk=workload_id)
    rows = NodeReservation.objects.exclude(workload=workload_id)
    names: set[str] = set()
    for row in rows.filter(workload__state=WorkloadState.QUEUED):
        if ends_by is None or row.starts_at is None or ends_by > row.starts_at:
            names |= {name for name, _ in row.room}
    if names:
        placed = Replica.objects.filter(workload=workload_id).exclude(node="")
        latest = placed.order_by("-attempt").values_list("attempt", flat=True)[:1]
        names -= set(placed.filter(attempt__in=list(latest)).values_list("node", flat=True))
    return tuple(sorted(names))
