"""Amounts of what replicas ask for and nodes have, and what is counted with them. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from portal.pools import DEFAULT

# The scarcest first: in this order they are named.
RESOURCES = ("gpu", "cpu", "memory", "pods", "nodeports")
NO_LIMIT = 2**62  # of what is not limited


@dataclass(frozen=True)
class Amount:
    """CPU in millicores, memory in bytes, whole GPUs, pods, NodePorts.

    May be negative (over quota). NodePorts are a quota's only: no node has a number of them.
    """

    cpu: int = 0
    memory: int = 0
    gpu: int = 0
    pods: int = 0
    nodeports: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        return Amount(
            self.cpu + other.cpu,
            self.memory + other.memory,
            self.gpu + other.gpu,
            self.pods + other.pods,
            self.nodeports + other.nodeports,
        )

    def __sub__(self, other: "Amount") -> "Amount":
        return self + other.times(-1)

    def times(self, factor: int) -> "Amount":
        return Amount(
            self.cpu * factor,
            self.memory * factor,
            self.gpu * factor,
            self.pods * factor,
            self.nodeports * factor,
        )

    def less(self, other: "Amount | None") -> "Amount":
        """What is left of it without the other, and nothing below zero."""
        return (self - other).largest(Amount()) if other is not None else self

    @property
    def on_node(self) -> "Amount":
        """What a node has to have for it."""
        return replace(self, nodeports=0) if self.nodeports else self

    def get(self, resource: str) -> int:
        return int(getattr(self, resource))

    def lacking(self, wanted: "Amount") -> list[str]:
        """The resources of which there is less than wanted.

        What is not wanted at all never lacks, however far over quota it is.
        """
        return [r for r in RESOURCES if wanted.get(r) > max(0, self.get(r)) and wanted.get(r) > 0]

    def smallest(self, other: "Amount") -> "Amount":
        """The smaller of both, resource by resource."""
        return Amount(**{r: min(self.get(r), other.get(r)) for r in RESOURCES})

    def largest(self, other: "Amount") -> "Amount":
        """The larger of both, resource by resource."""
        return Amount(
            max(self.cpu, other.cpu),
            max(self.memory, other.memory),
            max(self.gpu, other.gpu),
            max(self.pods, other.pods),
            max(self.nodeports, other.nodeports),
        )


@dataclass(frozen=True)
class ReplicaRequest:
    """Replicas of one role.

    Attributes:
        each: what one pod asks for, itself (`pods=1`) included.
        pool: where they run; empty: where the others of their workload do.
    """

    role: str
    count: int
    each: Amount
    pool: str = ""

    @property
    def total(self) -> Amount:
        return self.each.times(self.count)

    @property
    def on_node(self) -> "ReplicaRequest":
        each = self.each.on_node
        return self if each is self.each else replace(self, each=each)


@dataclass(frozen=True)
class NodeCapacity:
    """One node: what it has for pods, and what of it no pod has asked for.

    Attributes:
        is_open: takes new pods now (ready, not cordoned, selected, no taint that ours do not tolerate).
        only_gpu: tainted, so that only pods that ask for a GPU come here.
        pool: to which it belongs.
        domain: its value of the pool's topology key; empty: it has none.
    """

    name: str
    allocatable: Amount
    free: Amount
    is_open: bool = True
    only_gpu: bool = False
    pool: str = DEFAULT
    domain: str = ""

    def places(self, each: Amount) -> int:
        """How many more pods of this size find room; `each.pods` is at least one."""
        if not self.is_open or not self.allows(each):
            return 0
        free = self.free
        found = free.pods // each.pods
        # Asked of every node at each look at the queue, so it is written out.
        if each.cpu:
            found = min(found, free.cpu // each.cpu)
        if each.memory:
            found = min(found, free.memory // each.memory)
        if each.gpu:
            found = min(found, free.gpu // each.gpu)
        return max(0, found)

    def allows(self, each: Amount) -> bool:
        return bool(each.gpu) or not self.only_gpu


def total_of(requests: Iterable[ReplicaRequest]) -> Amount:
    """All replicas of all roles together."""
    total = Amount()
    for request in requests:
        total += request.total
    return total
