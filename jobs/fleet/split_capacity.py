"""What quotas by weight split, from the rows of nodes: for pages that say what a part would be before it is one."""

from datetime import datetime

from django.conf import settings
from django.utils import timezone

from jobs.models import Node
from portal.catalog import get_catalog
from portal.errors import ConfigurationError
from tenants.reconcile.capacity import SplitNode, capacity_of


def read_capacity() -> dict[str, int] | None:
    """Kind -> amount, as the reconciler counts it; None: no node was seen yet, or the catalog cannot be read.

    One query.
    """
    rows = Node.objects.only("labels", "taints", "allocatable", "capacity", "conditions")
    nodes = [_of_row(row) for row in rows]
    try:
        pools = get_catalog().pools
    except ConfigurationError:
        return None
    return capacity_of(nodes, settings.NODE_SELECTOR, timezone.now(), pools) if nodes else None


def _of_row(row: Node) -> SplitNode:
    ready = next((one for one in row.conditions if one["type"] == "Ready"), None)
    since = ready["since"] if ready else None
    return SplitNode(
        row.labels,
        [(one["key"], one["value"], one["effect"]) for one in row.taints],
        row.allocatable,
        row.capacity.get("gpu", 0),
        ready is not None and ready["status"] == "True",
        datetime.fromisoformat(since) if since else None,
    )
