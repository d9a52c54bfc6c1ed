"""Whether a request would fit now, later or never, from what the database knows.

An estimate for people: the reconciler alone admits, and it counts anew.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django.conf import settings
from django.db.models.fields.json import KT
from django.utils import timezone

from jobs.kinds.base import WorkloadKind
from jobs.kinds.next_steps import NextSteps
from jobs.kinds.registry import KINDS
from jobs.kinds.spec import WorkloadSpec, columns_of
from jobs.models import Node, Workload
from jobs.rules import reasons
from jobs.rules.admission import Fit, pools_of_roles
from jobs.rules.admission import fit as fit_amounts
from jobs.rules.amounts import (
    NO_LIMIT,
    RESOURCES,
    Amount,
    NodeCapacity,
    ReplicaRequest,
    total_of,
)
from jobs.rules.nodes import capacity_of, is_selected, where_to_run
from jobs.rules.queue.guards import IMAGE_FAILS, Guards
from jobs.rules.queue.holds import answer_beside, closed, held_before
from jobs.rules.queue.state import HIGH, LOW, NORMAL, UNKNOWN
from jobs.rules.queue.times import seconds_of
from jobs.rules.states import HOLDING_STATES
from jobs.scheduling.guards import read_guarded_images, read_image_problems, read_suspicious_nodes
from jobs.scheduling.models import NodeHold
from portal.catalog import get_catalog
from portal.pools import DEFAULT
from tenants.borrowing import may_borrow
from tenants.models import Tenant, User

# The reasons of what waits for its quota, and of what waits behind that.
_IN_LINE = ("quota", "queue")


def amount(counted: dict[str, int]) -> Amount:
    """An Amount of a JSON column with cpu, memory, gpu, pods and (of a quota) nodeports."""
    return Amount(**{resource: counted.get(resource, 0) for resource in RESOURCES})


def quota_left(tenant: Tenant) -> tuple[Amount | None, Amount | None]:
    """The whole quota and what of it nobody holds; None while the cluster has not counted it."""
    counted = tenant.counted_hard
    if not counted:
        return None, None
    hard = amount(counted)
    return hard, hard - amount(tenant.observed_used)


def node_capacities() -> tuple[NodeCapacity, ...]:
    """All nodes with what is free on them, as last seen."""
    pools = get_catalog().pools
    avoided = Guards(nodes=read_suspicious_nodes(timezone.now())).avoided
    return tuple(
        capacity_of(
            NodeCapacity(
                node.name,
                amount(node.allocatable),
                amount(node.allocatable) - amount(node.requested),
            ),
            takes_pods=node.is_ready
            and node.is_schedulable
            and node.name not in avoided
            and is_selected(node.labels, settings.NODE_SELECTOR),
            labels=node.labels,
            taints=((taint["key"], taint["value"], taint["effect"]) for taint in node.taints),
            known=pools,
        )
        for node in Node.objects.all()
    )


def fit(kind: WorkloadKind, spec: WorkloadSpec, tenant: Tenant, reader: User) -> Fit:
    """The answer for one request of this tenant; its `field` is one of the kind's body.

    Args:
        reader: who is told; the text ends with the next step in words for them.
    """
    answer = _fit(kind, spec, tenant)
    step = NextSteps(reader).before_submit(answer, tenant)
    return replace(answer, text=f"{answer.text} {step}".strip(), next_step="")


def _fit(kind: WorkloadKind, spec: WorkloadSpec, tenant: Tenant) -> Fit:
    requests = kind.requests(columns_of(spec)["replicas"])
    hard, left = quota_left(tenant)
    if hard is None:
        # What is asked of the cluster is known before the cluster has counted it.
        hard = amount(tenant.quota)
    own_left, priority = left, getattr(spec, "priority", NORMAL)
    if priority == LOW and may_borrow(tenant):
        hard = left = Amount(**dict.fromkeys(RESOURCES, NO_LIMIT))
        own_left = None  # what those before it lack is not of its namespace's quota
    by_weight = tenant.quota_by_weight
    where, _ = _where(requests, spec, tenant)
    holds = {name: seconds_of(at) for name, at in NodeHold.objects.values_list("node", "from_at")}
    held = held_before(holds, _ends_s(kind, spec)) if holds else frozenset()
    nodes = closed(node_capacities(), held)
    answer = fit_amounts(
        requests, hard, left, nodes, by_weight=by_weight, pools=where or (DEFAULT,)
    )
    if answer.code in {"nodes", "nodes_closed"}:
        pools = where or (DEFAULT,)
        here = [node.name for node in nodes if node.name in held and node.pool in pools]
        answer = answer_beside(answer, here, holds)
    answer = replace(answer, field=kind.request_field(answer.field))
    if tenant.closed and answer.kind != "never":
        return _closed(answer, tenant)
    if answer.kind != "never" and (guarded := _guarded(spec, tenant)):
        return guarded
    ahead = _ahead_count(total_of(requests), own_left, priority, tenant)
    if answer.kind == "now" and ahead:
        answer = replace(
            answer,
            kind="later",
            code="queue",
            text=f"Fits, but is queued behind {ahead} of your workloads.",
        )
    if answer.kind != "never" and (failing := _failing(spec, tenant)):
        code = IMAGE_FAILS if answer.kind == "now" else answer.code
        return replace(answer, code=code, text=f"{answer.text} {failing}".strip())
    return answer if answer.text else replace(answer, text="Fits now.")


def _failing(spec: WorkloadSpec, tenant: Tenant) -> str:
    """Which of its images cannot start here, or failed to be pulled of late and were not pulled since; empty: none."""
    images = {spec.image_of(role) for role in spec.replicas}
    return " ".join(read_image_problems(timezone.now(), images, str(tenant.pk)).values())


def _guarded(spec: WorkloadSpec, tenant: Tenant) -> Fit | None:
    """Why its image keeps it waiting; None: it does not."""
    now, images = timezone.now(), {spec.image_of(role) for role in spec.replicas}
    found = Guards(images=read_guarded_images(now, images))
    return found.wait_of(images, str(tenant.pk), now)


def _ends_s(kind: WorkloadKind, spec: WorkloadSpec) -> int:
    """When it has left its room, if it starts now."""
    columns = columns_of(spec)
    policy, topology = columns["spec"].get("run_policy", {}), columns["spec"].get("topology", "")
    lasts_s = kind.lasts_s(policy, topology, columns["replicas"])
    return UNKNOWN if lasts_s is None else int(time.time()) + lasts_s


def likely_pools(kind: WorkloadKind, spec: WorkloadSpec, tenant: Tenant) -> dict[str, str]:
    """Role -> the pool where it would run, as far as that is known before admission: the first to be tried."""
    if not get_catalog().pools:
        return {}
    requests = kind.requests(columns_of(spec)["replicas"])
    where, _ = _where(requests, spec, tenant)
    known = {node.pool for node in node_capacities()}
    chosen = next((name for name in where if name in known), DEFAULT)
    return pools_of_roles(requests, chosen, known)


def _where(
    requests: Sequence[ReplicaRequest], spec: WorkloadSpec, tenant: Tenant
) -> tuple[tuple[str, ...], str]:
    team = tenant.team.name if tenant.team else None
    return where_to_run(getattr(spec, "pool", None), requests, get_catalog().pools, team)


def _closed(answer: Fit, tenant: Tenant) -> Fit:
    """Waits while the tenant is suspended; there is no use in waiting for one that is deleted."""
    is_leaving = tenant.closed == "deleting"
    code = "tenant_deleting" if is_leaving else "tenant_suspended"
    reason = reasons.make(code)
    return replace(answer, kind="never" if is_leaving else "later", code=code, text=reason.text)


def _ahead_count(wanted: Amount, left: Amount | None, priority: str, tenant: Tenant) -> int:
    """How much of the tenant is in the queue and goes first: what waits there for something that this wants as well.

    As the queue has it (`jobs/rules/queue/decision.py`): only `low` waits for `low`, `high` goes before the
    rest, and behind what its quota lacks waits only what wants the same. Not ahead is what lacks only
    nodes, or sits out a back-off. What has not been looked at yet is taken to be.

    Args:
        left: of the quota that this one goes by; None: not known, and all that wait are ahead.
    """
    queued = Workload.objects.filter(tenant=tenant, reason_code__in=("", *_IN_LINE)).queued()
    rows = queued.values_list("kind", "replicas", "reason_code", KT("spec__priority"))
    line = [
        (total, code)
        for kind, replicas, code, other in rows
        if ((other or NORMAL) == LOW) == (priority == LOW) and (priority != HIGH or other == HIGH)
        if (total := _total(kind, replicas)) is not None
    ]
    if left is None or not line:
        return len(line)
    if priority != LOW:  # what low holds never counts against the rest
        left += _held_by_low(tenant)
    short = {resource for total, _ in line for resource in left.lacking(total)}
    both = [resource for resource in short if wanted.get(resource) > 0]
    return sum(not code or any(total.get(one) > 0 for one in both) for total, code in line)


def _held_by_low(tenant: Tenant) -> Amount:
    """What of the namespace's quota its work of low priority holds."""
    holding = Workload.objects.filter(tenant=tenant, state__in=HOLDING_STATES, spec__priority=LOW)
    held = (_total(kind, replicas) for kind, replicas in holding.values_list("kind", "replicas"))
    return sum((one for one in held if one is not None), Amount())


def _total(kind: str, replicas: Any) -> Amount | None:
    """What a row asks for; None: it cannot be read, or is of a later version, and holds up nobody."""
    try:
        return total_of(KINDS[kind].requests(replicas))
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
