"""Admins hold nodes: from a time on nothing is to run there. What that does to others, said before it is done.

All of it is read of rows: what runs where as last seen, and what is promised to whom.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from jobs.kinds.registry import KINDS
from jobs.models import Node, ReconcilerLease, Replica, Workload
from jobs.places import NodeClaim, NodeReservation
from jobs.rules.queue.state import LOW
from jobs.rules.states import FINAL_REPLICA_STATES, HOLDING_STATES, Desired, WorkloadState
from jobs.scheduling.models import NodeHold
from portal import live
from portal.catalog import known_pools
from portal.errors import FieldError, Refused
from portal.pools import DEFAULT, pool_of
from tenants import policy
from tenants.audit.record import AuditTarget, record
from tenants.models import User


@dataclass(frozen=True)
class MovedPromise:
    """Room that was kept on a node, which is to be held.

    Attributes:
        workload: whose it is.
        starts_at: it was promised to start by then; None: without a time.
    """

    workload: Workload
    starts_at: datetime | None


@dataclass(frozen=True)
class HoldEffects:
    """What holds of some nodes do.

    Attributes:
        stays: what runs there beyond the time; Homeport never stops it.
        stops: the same of low priority, which is stopped with its grace and queued again.
        moves: whose promises end.
        kept: holds from before that begin no later, and stay as they are.
        replaced: holds from before that end, as nodes have one each.
    """

    stays: Sequence[Workload] = ()
    stops: Sequence[Workload] = ()
    moves: Sequence[MovedPromise] = ()
    kept: Sequence[NodeHold] = ()
    replaced: Sequence[NodeHold] = ()


def effects_of(
    nodes: Collection[str], from_at: datetime, reason: str = "", *, of_pool: bool
) -> HoldEffects:
    """What it does to hold these nodes from then on, as far as rows tell. At most five queries."""
    kept, replaced = _from_before(nodes, from_at, reason, of_pool=of_pool)
    holds = dict.fromkeys(set(nodes) - {row.node for row in kept}, from_at)
    found = {row.pk: row for rows in lasting_on(holds).values() for row in rows}
    lasting = sorted(found.values(), key=lambda row: (row.name, row.pk))
    low = [row for row in lasting if is_low(row)]
    stays = [row for row in lasting if not is_low(row)]
    return HoldEffects(stays, low, sorted(_moved(holds), key=_by_time), kept, replaced)


def _from_before(
    nodes: Collection[str], from_at: datetime, reason: str, *, of_pool: bool
) -> tuple[list[NodeHold], list[NodeHold]]:
    """Holds that stay, and those that end: who holds a pool leaves alone what is held earlier in it."""
    kept, replaced = [], []
    for row in NodeHold.objects.filter(pk__in=list(nodes)):
        is_same = (row.from_at, row.reason) == (from_at, reason)
        if is_same or (of_pool and row.from_at <= from_at):
            kept.append(row)
        else:
            replaced.append(row)
    return kept, replaced


def is_low(row: Workload) -> bool:
    """Whether it is stopped for a hold."""
    return bool(row.spec.get("priority") == LOW)


def lasting_on(holds: Mapping[str, datetime]) -> dict[str, list[Workload]]:
    """By node: what may still run there when it begins to be held. Two queries."""
    placed = Replica.objects.filter(
        node__in=list(holds),
        attempt=F("workload__attempt"),
        workload__state__in=HOLDING_STATES - {WorkloadState.STOPPING},
    ).exclude(state__in=FINAL_REPLICA_STATES)
    on: dict[UUID, set[str]] = defaultdict(set)
    for pk, node in placed.values_list("workload_id", "node").order_by():
        on[pk].add(node)
    rows = Workload.objects.filter(pk__in=on).select_related("owner", "tenant").defer("plan")
    found: dict[str, list[Workload]] = defaultdict(list)
    for row in rows.order_by("name", "pk"):
        for node in on[row.pk]:
            if row.room_ends_by is None or row.room_ends_by > holds[node]:
                found[node].append(row)
    return found


def _moved(holds: Mapping[str, datetime]) -> Iterator[MovedPromise]:
    """Who has room kept on these nodes and would outstay a hold, or might: nobody knows when it starts or ends."""
    for table in (NodeReservation, NodeClaim):
        rows = table.objects.filter(
            workload__state=WorkloadState.QUEUED, workload__desired=Desired.RUN
        )
        for row in rows.select_related("workload__owner", "workload__tenant"):
            starts_at = row.starts_at if isinstance(row, NodeReservation) else None
            by = starts_at if isinstance(row, NodeReservation) else row.until
            ends_by = _ends_by(row.workload, by)
            times = [holds[name] for name, _size in row.room if name in holds]
            if times and (ends_by is None or ends_by > min(times)):
                yield MovedPromise(row.workload, starts_at)


def _ends_by(waits: Workload, starts_at: datetime | None) -> datetime | None:
    """When it has left its room if it starts by then; None: nobody knows."""
    policy_of = waits.spec.get("run_policy") or {}
    lasts_s = KINDS[waits.kind].lasts_s(policy_of, waits.spec.get("topology") or "", waits.replicas)
    if starts_at is None or lasts_s is None:
        return None
    return starts_at + timedelta(seconds=lasts_s)


def _by_time(moved: MovedPromise) -> tuple[bool, datetime, str]:
    return moved.starts_at is None, moved.starts_at or timezone.now(), moved.workload.name


def nodes_of(*, node: str = "", pool: str = "") -> list[str]:
    """Names of the node, or of those that the pool has now.

    Raises:
        Refused: 400, the cluster has no such node, or the pool has none.
    """
    if node:
        if not Node.objects.filter(pk=node).exists():
            text = _("The cluster has no node %(name)s.") % {"name": node[:80]}
            raise Refused([FieldError("node", "unknown_node", text)])
        return [node]
    pools = known_pools()
    if pool not in {DEFAULT, *(one.name for one in pools)}:
        text = _("There is no pool %(name)s.") % {"name": pool[:80]}
        raise Refused([FieldError("pool", "unknown_pool", text)])
    rows = Node.objects.order_by("name").values_list("name", "labels")
    found = [name for name, labels in rows if pool_of(labels, pools).name == pool]
    if not found:
        text = _("The pool %(name)s has no nodes now.") % {"name": pool}
        raise Refused([FieldError("pool", "unknown_pool", text)])
    return found


@transaction.atomic
def hold(
    *,
    by: User,
    nodes: Collection[str],
    from_at: datetime,
    reason: str,
    confirmed: Collection[UUID] | None,
    of_pool: bool = False,
) -> list[NodeHold]:
    """Holds nodes from a time on, also those that are held already; one audit row for each that changes.

    Args:
        confirmed: workloads whose promises may end by it; None: those of all.
        of_pool: they are a pool's: those that are held earlier stay so.

    Raises:
        PermissionDenied: not an admin.
        Refused: 409, it ends the promise of another one.
    """
    policy.require(by, "administer")
    # As the reconciler's commits do: what they promise or start is there to be read, or they see the hold.
    ReconcilerLease.objects.select_for_update().first()
    kept, replaced = _from_before(nodes, from_at, reason, of_pool=of_pool)
    holds = dict.fromkeys(set(nodes) - {row.node for row in kept}, from_at)
    moved = list(_moved(holds))
    if confirmed is not None and any(one.workload.pk not in confirmed for one in moved):
        raise Refused(promises_text(moved), "promised", 409)
    before = {one.node: one.why for one in replaced}
    made = []
    for name in sorted(holds):
        row = NodeHold(node=name, from_at=from_at, reason=reason, held_by=by.username)
        row.save()
        detail = {"from": f"{from_at:%Y-%m-%d %H:%M UTC}", "reason": reason}
        if name in before:
            detail["before"] = before[name]
        record(by=by, verb="hold", target=AuditTarget("node", name, name), detail=detail)
        made.append(row)
    _tell()
    return [*made, *kept]


@transaction.atomic
def release(
    *, by: User, nodes: Collection[str], of_pool: bool = False
) -> tuple[list[str], list[NodeHold]]:
    """Work may start on these nodes again; names of those that were held, and holds that stay.

    Args:
        of_pool: they are a pool's: only the hold that most of them have ends, of as many the later one;
            others are made for single nodes.

    Raises:
        PermissionDenied: not an admin.
    """
    policy.require(by, "administer")
    held = list(NodeHold.objects.select_for_update().filter(pk__in=list(nodes)))
    alike = Counter((row.from_at, row.reason) for row in held)
    most = max(alike, key=lambda one: (alike[one], one)) if alike else None
    rows = [row for row in held if not of_pool or (row.from_at, row.reason) == most]
    for row in rows:
        record(by=by, verb="release", target=AuditTarget("node", row.node, row.node))
    NodeHold.objects.filter(pk__in=[row.pk for row in rows]).delete()
    if rows:
        _tell()
    return [row.node for row in rows], [row for row in held if row not in rows]


def _tell() -> None:
    transaction.on_commit(live.wake_reconciler)
    transaction.on_commit(lambda: live.tell_pages("nodes", int(time.time() * 1000)))


def promises_text(moved: Sequence[MovedPromise]) -> str:
    """Whose promises end, in one sentence."""
    told = []
    for one in moved:
        words = {"name": one.workload.name, "who": one.workload.owner.shown_name}
        if one.starts_at is None:
            told.append(_("“%(name)s” of %(who)s") % words)
        else:
            words["at"] = f"{one.starts_at:%H:%M UTC on %d %B}"
            told.append(_("“%(name)s” of %(who)s, which starts by %(at)s") % words)
    text = _("Room is kept there for %(whom)s; it would have to wait for other nodes.")
    return text % {"whom": "; ".join(told)}
