"""What people are told of a place in the queue: when it starts and because of what, for pages and for REST."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Subquery
from django.utils.timezone import now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from jobs.kinds.registry import KINDS
from jobs.models import Workload
from jobs.places import ESTIMATED_EVERY_S, QueuePlace
from jobs.rules.states import WorkloadState
from portal.web.format import duration_text
from tenants import policy

_TOO_OLD = "too_old"  # of pages and REST, never of a row
# By what a time, or that it is unknown, follows from: `rules.queue.estimate`.
_BASES = {
    "now": gettext_lazy("with the next look at the queue"),
    "deadline": gettext_lazy("when %(what)s ends (deadline)"),
    "usual": gettext_lazy("when %(what)s ends, if it takes as long as usual"),
    "stopping": gettext_lazy("when %(what)s has stopped"),
    "backoff": gettext_lazy("when its wait after the last attempt is over"),
    "turn": gettext_lazy("when it is its turn"),
    "unlimited": gettext_lazy("%(what)s has no deadline"),
    "overdue": gettext_lazy("%(what)s has run for longer than usual, and has no deadline"),
    "hold": gettext_lazy("an admin holds nodes that it would need"),
    "obstacle": gettext_lazy("it may not start yet"),
    "new": gettext_lazy("its place is new, and that is being worked out"),
    "far": gettext_lazy("too much has to end before it; only the next ends are worked out"),
    "nothing": gettext_lazy("no end that is known would make room for it"),
    _TOO_OLD: gettext_lazy("the last look at the queue is too long ago"),
}
# So long a time that has passed stands at most, as times are worked out anew before: with what that takes in a long
# queue. Without the cluster, or a reconciler, nobody does.
_STANDS = timedelta(seconds=ESTIMATED_EVERY_S * 1.5)


@dataclass(frozen=True)
class ShownPlace:
    """A place as a person may see it.

    Attributes:
        position: within its namespace, from 1; `position_all` in the whole queue.
        starts_at: about then; None: it cannot be told.
        basis_code: what that follows from, or why it cannot be told; `basis` is the same in words.
        rules: those that applied, in order.
    """

    position: int
    position_all: int
    starts_at: datetime | None
    basis_code: str
    basis: str
    rules: list[str]

    @property
    def when(self) -> str:
        """The basis as a sentence with the time."""
        if self.starts_at is None:
            return _("When it starts cannot be estimated: %(basis)s.") % {"basis": self.basis}
        wait_s = (self.starts_at - now()).total_seconds()
        if wait_s < 60:
            return _("Starts any moment now, %(basis)s.") % {"basis": self.basis}
        told = {"wait": duration_text(round(wait_s / 60) * 60), "basis": self.basis}
        if self.basis_code == "usual":
            return _("May start in about %(wait)s, %(basis)s.") % told
        if self.basis_code == "backoff":
            return _("Is tried again in about %(wait)s, %(basis)s.") % told
        return _("Starts in about %(wait)s, %(basis)s.") % told


def read_places(user: Any, workloads: Iterable[UUID]) -> dict[UUID, ShownPlace]:
    """Of those that have one. One query."""
    cause = Workload.objects.filter(pk=OuterRef("cause"))
    seen = cause.filter(policy.within_tenants(user, "see"))
    rows = QueuePlace.objects.filter(workload__in=list(workloads)).annotate(
        cause_kind=Subquery(cause.values("kind")[:1]),
        cause_state=Subquery(cause.values("state")[:1]),
        cause_name=Subquery(seen.values("name")[:1]),
    )
    # A later version may know other bases.
    return {row.pk: _shown(row) for row in rows if row.basis in _BASES}


def _shown(row: Any) -> ShownPlace:
    place = ShownPlace(
        row.position,
        row.position_all,
        row.starts_at,
        row.basis,
        basis_text(
            row.basis,
            _what(row.cause_kind, row.cause_name),
            is_ahead=row.cause_state == WorkloadState.QUEUED,
        ),
        row.rules,
    )
    if place.starts_at is not None and now() - place.starts_at > _STANDS:
        old = basis_text(_TOO_OLD, "")
        return replace(place, starts_at=None, basis_code=_TOO_OLD, basis=old)
    return place


def place_of(user: Any, workload: Workload) -> ShownPlace | None:
    """Its place; None: it does not wait in the queue, or came after the last look at all of it.

    One query for what waits, else none.
    """
    if not workload.is_waiting:
        return None
    return read_places(user, [workload.pk]).get(workload.pk)


def place_json(place: ShownPlace | None) -> dict[str, Any]:
    """As REST shows it, but for the position within the namespace."""
    return {
        "position_all": place.position_all if place else None,
        "start_estimate": {"at": place.starts_at, "basis": place.basis} if place else None,
        "rules": place.rules if place else [],
    }


def basis_text(basis: str, what: str, *, is_ahead: bool = False) -> str:
    """In words; `what` is the workload that it is about, which may itself still be queued, ahead of this one."""
    if is_ahead:
        what = _("%(what)s, which is queued ahead of it and has yet to start,") % {"what": what}
    return _BASES[basis] % {"what": what}


def _what(kind: str | None, name: str | None) -> str:
    """`resnet-7`, `notebook nlp`, or whose it is when the person may not see it."""
    if kind is None or kind not in KINDS:
        return _("what runs there")
    noun = KINDS[kind].noun
    if name is None:
        return _("another person's %(noun)s") % {"noun": noun}
    return f"{noun} {name}" if KINDS[kind].has_gate else name
