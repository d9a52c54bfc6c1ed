"""The holds of nodes that the page of nodes shows."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jobs.models import Workload
from jobs.scheduling.holds import lasting_on
from jobs.scheduling.models import NodeHold


def hold_rows() -> dict[str, NodeHold]:
    """All holds by the name of the node. One query."""
    return {row.node: row for row in NodeHold.objects.all()}


class ShownHolds:
    """All holds beside the nodes that there are.

    Attributes:
        rows: by the name of a node.
    """

    def __init__(self, pool_of_node: Mapping[str, str], rows: Mapping[str, NodeHold]) -> None:
        """
        Args:
            pool_of_node: name of each node of the cluster -> that of its pool.
            rows: as `hold_rows` gives them.
        """
        self._pool_of_node = pool_of_node
        self.rows = rows

    @property
    def elsewhere(self) -> list[NodeHold]:
        """Of nodes that the cluster does not have now."""
        return [row for name, row in self.rows.items() if name not in self._pool_of_node]

    @property
    def by_pool(self) -> dict[str, list[str]]:
        """Name of a pool -> names of its nodes that are held."""
        found: dict[str, list[str]] = defaultdict(list)
        for name, pool in self._pool_of_node.items():
            if name in self.rows:
                found[pool].append(name)
        return found

    def lasting(self, names: Iterable[str]) -> Mapping[str, Sequence[Workload]]:
        """Name of a node of these -> what runs there beyond its hold's time. No query where none is held."""
        from_at = {name: self.rows[name].from_at for name in names if name in self.rows}
        return lasting_on(from_at) if from_at else {}

    @property
    def marks(self) -> list[tuple[Any, ...]]:
        """Change with any hold."""
        return [(row.node, row.from_at, row.reason) for row in self.rows.values()]
