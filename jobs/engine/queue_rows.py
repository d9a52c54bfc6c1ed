"""The reconciler's reads for admission: the queue, and what holds room. Blocking: called in the database thread."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID

from django.db.models import F, Q
from django.db.models.fields.json import KT, KeyTransform

from jobs.engine import reservations
from jobs.engine.rows import Admitted, Queue, TenantQueue
from jobs.engine.store import IS_QUEUED, readable, reason_in
from jobs.kinds import notes
from jobs.kinds.registry import KINDS
from jobs.models import WITH_WORK, Replica, Workload
from jobs.rules import reasons
from jobs.rules.amounts import NO_LIMIT, RESOURCES, Amount, total_of
from jobs.rules.nodes import where_to_run
from jobs.rules.queue.guards import Guards
from jobs.rules.queue.look import Queued
from jobs.rules.queue.state import LOW, NORMAL, Size
from jobs.rules.requests import at_once, indexes_of
from jobs.rules.states import (
    FINAL_REPLICA_STATES,
    FINAL_STATES,
    HOLDING_STATES,
    ReplicaState,
    WorkloadState,
)
from jobs.scheduling.guards import images_of, read_guarded_images, read_suspicious_nodes
from jobs.scheduling.models import Scheduling
from jobs.usage.shares import HORIZON, Shares, shares_at
from portal.catalog import borrowing
from portal.pools import Pool
from tenants.borrowing import may_borrow
from tenants.models import BUDGET_COLUMNS, QUOTA_COLUMNS, Tenant

# What has ended holds room for so long at most, but for servers that a person keeps.
_LINGERS = timedelta(minutes=15)
_WHOSE = (
    *("namespace", "state", "desired", "quota_by_weight", "weight"),
    *QUOTA_COLUMNS.values(),
    *("team__id", "team__name", "team__weight"),
    *(f"team__{name}" for name in BUDGET_COLUMNS.values()),
)
_GOING = FINAL_STATES | {WorkloadState.STOPPING}


def read_queue(now: datetime, known: Sequence[Pool] = ()) -> Queue:
    """The queue, and what has been admitted; of an empty queue only while an admin holds nodes.

    Args:
        known: the pools of the catalog.
    """
    columns = ("kind", "name", "image", "replicas", "queued_at", "not_before", "stops_from", "rank")
    shown = ("reason_code", "reason_text", "reason_next_step")
    rows = _with_policy(Workload.objects.filter(IS_QUEUED).select_related("tenant__team"))
    whose = [f"tenant__{name}" for name in _WHOSE]
    found = list(rows.only(*columns, "tenant", *shown, *whose))
    holds = reservations.load_holds()
    if not found and not holds:
        return Queue((), (), ())
    chosen = Scheduling.load()
    tenants = {one.tenant_id: one.tenant for one in found}
    # What the others of their teams hold counts, too.
    if chosen.fair_share or borrowing() == "team":
        teams = {one.team_id for one in tenants.values()} - {None}
        mates = Tenant.objects.filter(team__in=teams).select_related("team").only(*_WHOSE)
        tenants |= {one.pk: one for one in mates}
    since = now - timedelta(seconds=chosen.aging_s)  # so old ones care what else was admitted
    is_old = any(one.queued_at <= since for one in found)
    return Queue(
        queued=tuple(readable(found, partial(_in_queue, known))),
        admitted=tuple(_read_admitted(now)),
        tenants=tuple(map(_tenant, tenants.values())),
        kept=reservations.load(),
        chosen=chosen,
        recent=_recent(since) if is_old else {},
        holds=holds,
        guards=_read_guards(found, now),
    )


def _read_guards(queued: Sequence[Workload], now: datetime) -> Guards:
    images = {image for one in queued for image in images_of(one).values()}
    return Guards(read_guarded_images(now, images), read_suspicious_nodes(now))


def _tenant(tenant: Tenant) -> TenantQueue:
    quota = budget = None
    if may_borrow(tenant):
        quota = Amount(**tenant.quota)
        if borrowing() == "team" and tenant.team is not None:
            limits = {kind: most for kind, most in tenant.team.budget.items() if most is not None}
            budget = Amount(**{**dict.fromkeys(RESOURCES, NO_LIMIT), **limits})
    return TenantQueue(
        str(tenant.pk),
        tenant.namespace,
        tenant.closed,
        tenant.state == Tenant.State.ACTIVE,
        tenant.quota_by_weight,
        "" if tenant.team is None else str(tenant.team_id),
        tenant.weight,
        tenant.weight if tenant.team is None else tenant.team.weight,
        quota,
        budget,
    )


def _with_policy(rows: Any) -> Any:
    return rows.annotate(
        topology=KT("spec__topology"),
        run_policy=KeyTransform("run_policy", "spec"),
        priority=KT("spec__priority"),
        pool=KeyTransform("pool", "spec"),
        placement=KT("spec__placement"),
        pools=KeyTransform("pools", "notes"),
    )


def _lasts_s(workload: Any) -> int | None:
    """Of a row of `_with_policy`."""
    lasts_s = KINDS[workload.kind].lasts_s
    return lasts_s(workload.run_policy or {}, workload.topology or "", workload.replicas)


def _in_queue(known: Sequence[Pool], workload: Any) -> Queued:
    requests = KINDS[workload.kind].requests(workload.replicas)
    team = workload.tenant.team.name if workload.tenant.team else None
    where, lacking = where_to_run(workload.pool, requests, known, team)
    return Queued(
        workload_id=str(workload.pk),
        tenant_id=str(workload.tenant_id),
        name=workload.name,
        queued_at=workload.queued_at,
        requests=requests,
        not_before=workload.not_before,
        shown=reason_in(workload),
        lasts_s=_lasts_s(workload),
        priority=workload.priority or NORMAL,
        stops_from=workload.stops_from,
        rank=workload.rank,
        pools=where,
        no_pool=reasons.make("no_pool", pool=lacking).text if lacking else "",
        placement=workload.placement or "any",
        images=tuple(sorted(set(images_of(workload).values()))),
    )


def _recent(since: datetime) -> dict[str, list[tuple[datetime, Amount]]]:
    """By tenant: what has been admitted since then."""
    found: dict[str, list[tuple[datetime, Amount]]] = defaultdict(list)
    rows = Workload.objects.filter(admitted_at__gte=since).order_by()
    for row in rows.only("kind", "replicas", "tenant", "admitted_at"):
        asked = total_of(KINDS[row.kind].requests(row.replicas))
        if row.admitted_at is not None:
            found[str(row.tenant_id)].append((row.admitted_at, asked))
    return found


def _read_admitted(now: datetime) -> Iterator[Admitted]:
    """Workloads that hold room, or are about to, and those that have just ended."""
    holding = Q(state__in=HOLDING_STATES)
    lingering = WITH_WORK & Q(state__in=FINAL_STATES, finished_at__gte=now - _LINGERS)
    columns = ("kind", "state", "replicas", "attempt", "tenant__namespace", "admitted_at")
    times = ("ends_by", "finished_at", "stop_requested_at", "preempted_at")
    rows = Workload.objects.filter(holding | lingering).select_related("tenant")
    rows = _with_policy(rows.only(*columns, *times).annotate(teardown=KT("notes__teardown")))
    found = list(rows)
    ended: dict[UUID, Counter[str]] = defaultdict(Counter)
    over = Replica.objects.filter(
        # Between two attempts all have ended, and all of them will want their room again.
        workload__in=[one.pk for one in found if one.state != WorkloadState.RESTARTING],
        attempt=F("workload__attempt"),
        # One that has failed is made again, or ends the attempt.
        state__in=FINAL_REPLICA_STATES - {ReplicaState.FAILED},
    )
    for pk, role in over.order_by().values_list("workload_id", "role"):
        ended[pk][role] += 1

    def held(workload: Any) -> Admitted:
        # What is stopping or has ended gets no more pods than it has, and these are counted themselves.
        is_going = workload.state in _GOING
        is_held = not is_going and notes.holds_room(workload.teardown or "")
        requests = KINDS[workload.kind].requests(workload.replicas) if is_held else ()
        chosen = workload.pools or {}
        requests = tuple(replace(one, pool=chosen.get(one.role, "")) for one in requests)
        # Of an array others take the room of those that have ended, until all have begun.
        counts = Counter(ended[workload.pk])
        for role, asked in workload.replicas.items():
            counts[role] = max(0, counts[role] - len(indexes_of(asked)) + at_once(asked))
        since = workload.finished_at or workload.stop_requested_at
        gone_by = since + _LINGERS if is_going and since is not None else None
        grace_s = KINDS[workload.kind].longest_grace_s(workload.topology or "", workload.replicas)
        if workload.preempted_at is not None:
            gone_by = workload.preempted_at + timedelta(seconds=grace_s)
        return Admitted(
            str(workload.pk),
            str(workload.tenant_id),
            workload.tenant.namespace,
            requests,
            +counts,
            workload.admitted_at,
            workload.room_ends_by,
            gone_by,
            workload.priority == LOW,
            grace_s,
        )

    return readable(found, held)


def read_shares(now: datetime, capacity: Size) -> Shares:
    """What namespaces and teams held of late; what is of low priority does not count."""
    recent = Q(finished_at__isnull=True) | Q(finished_at__gte=now - HORIZON)
    low = Workload.objects.filter(recent, spec__priority=LOW).values_list("pk", flat=True)
    return shares_at(now, capacity, set(low))
