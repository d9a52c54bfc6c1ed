"""Keeps the rows of `jobs.models.Node` true: what each node has, and what pods hold of it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from django.utils import timezone

from jobs.models import Node
from jobs.reconciler.admit import amount_of, is_ready
from jobs.rules.admission import Amount
from portal.cluster.view import ClusterView

_LABELS_MAX = 100


@dataclass(frozen=True)
class NodeRow:
    """One node as its row has it."""

    name: str
    is_ready: bool
    is_schedulable: bool
    allocatable: Amount
    requested: Amount
    labels: Mapping[str, str] = field(default_factory=dict)
    conditions: tuple[Mapping[str, str], ...] = ()


def look(view: ClusterView) -> dict[str, NodeRow]:
    """All nodes by name. On the event loop."""
    found = {}
    for (_, name), node in view.nodes.watch.items.items():
        found[name] = NodeRow(
            name=name,
            is_ready=is_ready(node),
            is_schedulable=not node.spec.unschedulable,
            allocatable=amount_of(view.allocatable_of(name)),
            requested=amount_of(view.held_of(name)),
            labels=dict(sorted(node.metadata.labels.items())[:_LABELS_MAX]),
            conditions=tuple(
                {
                    "type": condition.type,
                    "status": condition.status,
                    "reason": condition.reason,
                    "message": condition.message,
                }
                for condition in node.status.conditions
            ),
        )
    return found


def differences(
    before: Mapping[str, NodeRow], now: Mapping[str, NodeRow]
) -> tuple[list[NodeRow], list[str]]:
    """Rows to write, and names of nodes that are gone. Pure."""
    changed = [row for name, row in now.items() if before.get(name) != row]
    return changed, sorted(set(before) - set(now))


def known_names() -> list[str]:
    """Nodes that have a row. Blocking."""
    return list(Node.objects.values_list("name", flat=True))


def write(changed: list[NodeRow], gone: list[str]) -> None:
    """Blocking; call inside `Lease.commit`."""
    for row in changed:
        values: dict[str, Any] = {
            "is_ready": row.is_ready,
            "is_schedulable": row.is_schedulable,
            "allocatable": asdict(row.allocatable),
            "requested": asdict(row.requested),
            "labels": dict(row.labels),
            "conditions": [dict(condition) for condition in row.conditions],
            "seen_at": timezone.now(),
        }
        Node.objects.update_or_create(name=row.name, defaults=values)
    Node.objects.filter(name__in=gone).delete()
