"""What the page and the REST list of nodes show: each node, and all of them together."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cached_property
from typing import Any

from django.conf import settings
from django.core.paginator import Page, Paginator
from django.db.models.fields.json import KT, KeyTextTransform
from django.utils.timezone import now
from django.utils.translation import gettext_lazy as _

from jobs.fleet.gpu_users import GpuUser, GpuUsers
from jobs.fleet.node_notes import SIMULATED, NodeNote, is_simulated, notes_on, taint_text
from jobs.fleet.pools import PoolLine, pool_lines
from jobs.fleet.shown_holds import ShownHolds, hold_rows
from jobs.models import Node, Workload
from jobs.rules.amounts import Amount, NodeCapacity
from jobs.rules.nodes import capacity_of, is_selected
from jobs.rules.queue.guards import SuspiciousNode
from jobs.scheduling.guards import read_suspicious_nodes
from jobs.scheduling.models import NodeHold
from portal.catalog import known_pools
from portal.pools import Pool, keys_of, pool_of
from portal.web.lists import revision_of
from tenants import policy

PAGE_SIZE = 24  # cards are tall
MAX_CELLS = 16  # GPUs of one node that are drawn one by one
_TITLES = {"gpu": _("GPU"), "cpu": _("CPU"), "memory": _("Memory"), "pods": _("Pods")}


@dataclass(frozen=True)
class Meter:
    """How much of one resource is asked for: cpu in millicores, memory in bytes, else pieces.

    `total` is what there is, `broken` the part of it that pods cannot have, `shut` what is free on
    nodes that take nothing new.
    """

    kind: str
    total: int
    used: int
    broken: int = 0
    shut: int = 0

    @property
    def title(self) -> str:
        return str(_TITLES[self.kind])

    @property
    def usable(self) -> int:
        return max(0, self.total - self.broken)

    @property
    def free(self) -> int:
        return max(0, self.usable - self.used - self.shut)

    @property
    def percent(self) -> float:
        """Of what there is, not of what works: 5 of 8 is 62.5 whatever is broken."""
        return round(self.used * 100 / self.total, 1) if self.total > 0 else 0.0

    @property
    def used_width(self) -> float:
        return min(100.0, self.percent)

    @property
    def broken_width(self) -> float:
        whole = round(self.broken * 100 / self.total, 1) if self.total > 0 else 0.0
        return min(100.0 - self.used_width, whole)

    @property
    def is_full(self) -> bool:
        return self.total > 0 and self.used >= self.usable


@dataclass(frozen=True, slots=True)
class Counted:
    """As much of a node as the numbers of the whole cluster need; the columns are `Node`'s."""

    name: str
    seen_at: datetime
    is_ready: bool
    is_schedulable: bool
    capacity: Mapping[str, int]
    allocatable: Mapping[str, int]
    requested: Mapping[str, int]
    is_simulated: bool
    pool: str
    is_open: bool


def meter(node: Node | Counted, kind: str, *, is_open: bool = True) -> Meter:
    """One resource of one node. A GPU that is not allocatable is broken; of the rest, the part that
    is kept for the machine itself is not offered, so it counts as not there.

    Args:
        is_open: the node takes new pods, so that what nobody has asked for is free.
    """
    allocatable = int(node.allocatable.get(kind, 0))
    used = int(node.requested.get(kind, 0))
    shut = 0 if is_open else max(0, allocatable - used)
    if kind != "gpu":
        return Meter(kind, allocatable, used, shut=shut)
    total = max(allocatable, int(node.capacity.get(kind, allocatable)))
    return Meter(kind, total, used, total - allocatable, shut)


def add_up(meters: Iterable[Meter], kind: str) -> Meter:
    """The same resource of several nodes."""
    listed = list(meters)
    return Meter(
        kind,
        sum(m.total for m in listed),
        sum(m.used for m in listed),
        sum(m.broken for m in listed),
        sum(m.shut for m in listed),
    )


@dataclass(frozen=True)
class NodeCard:
    """One node on the page.

    Attributes:
        is_open: it takes new pods.
    """

    node: Node
    is_open: bool
    gpu_users: list[GpuUser]
    notes: list[NodeNote]
    pool: str = ""  # its title, where the catalog has pools
    may_use_again: bool = False  # it is avoided, and the viewer may end that
    is_held: bool = False
    lasting: Sequence[Workload] = ()  # what runs there beyond the hold's time, for admins

    @property
    def gpu(self) -> Meter:
        return meter(self.node, "gpu", is_open=self.is_open)

    @property
    def meters(self) -> list[Meter]:
        kinds = ("gpu", "cpu", "memory", "pods") if self.gpu.total else ("cpu", "memory", "pods")
        return [meter(self.node, kind, is_open=self.is_open) for kind in kinds]

    @property
    def cells(self) -> list[str]:
        """A word for each GPU: `seen`, `held`, `free`, `shut`, `broken`; none where there are many."""
        if not 0 < self.gpu.total <= MAX_CELLS:
            return []
        mine = sum(one.gpu_count for one in self.gpu_users if one.is_seen)
        mine = min(mine, self.gpu.used)
        held = max(0, self.gpu.used - mine)
        words = ["seen"] * mine + ["held"] * held
        words += ["free"] * self.gpu.free + ["shut"] * self.gpu.shut
        words = words[: self.gpu.usable]
        return words + ["broken"] * (self.gpu.total - len(words))

    @property
    def state(self) -> str:
        """`ready`, `closed` (cordoned) or `lost`, as the cluster has it; see `is_open` for more."""
        if not self.node.is_ready:
            return "lost"
        return "ready" if self.node.is_schedulable else "closed"

    @property
    def tone(self) -> str:
        """Of the card's edge: that of its worst note, if it is more than information."""
        worst = self.notes[0].tone if self.notes else ""
        return worst if worst in {"bad", "warn"} else ""

    @property
    def is_simulated(self) -> bool:
        return is_simulated(self.node)

    @property
    def gpu_model(self) -> str:
        """As the node's labels (of the GPU feature discovery) or its own annotation say."""
        label = self.node.labels.get("nvidia.com/gpu.product", "")
        return str(label.replace("-", " ") or self.node.about.get("gpu_models", ""))

    @property
    def taint_texts(self) -> list[str]:
        return [taint_text(taint) for taint in self.node.taints]

    @property
    def roles(self) -> list[str]:
        """`control-plane` and the like."""
        prefix = "node-role.kubernetes.io/"
        return [key.removeprefix(prefix) for key in self.node.labels if key.startswith(prefix)]


class NodesPage:
    """All nodes for one viewer; those with most GPUs first, then by name."""

    def __init__(self, user: Any, page_number: str = "1") -> None:
        self.user = user
        self._page_number = page_number

    @cached_property
    def pools(self) -> tuple[Pool, ...]:
        return known_pools()

    @cached_property
    def pool_lines(self) -> list[PoolLine]:
        """What pools there are, with how many nodes."""
        counts = Counter(node.pool for node in self._all)
        return pool_lines(self.pools, counts, self.holds.by_pool)

    @cached_property
    def may_hold(self) -> bool:
        return policy.may(self.user, "administer")

    @cached_property
    def holds(self) -> ShownHolds:
        return ShownHolds({node.name: node.pool for node in self._all}, self._hold_rows)

    @cached_property
    def _hold_rows(self) -> dict[str, NodeHold]:
        return hold_rows()

    @cached_property
    def _shut(self) -> set[str]:
        """Names of the nodes on which Homeport starts nothing now, whatever the cluster says of them."""
        at = now()
        held = {name for name, row in self._hold_rows.items() if row.from_at <= at}
        return held | {name for name, one in self.suspicious.items() if one.is_avoided}

    @cached_property
    def _all(self) -> list[Counted]:
        # Of a thousand nodes, what each tells of itself and who is on it would be most of the work.
        columns = [*(field.name for field in fields(Counted)[:-3]), "taints"]
        wanted = keys_of(self.pools) | settings.NODE_SELECTOR.keys()
        keys = {f"label{n}": key for n, key in enumerate(sorted(wanted))}
        marked = Node.objects.annotate(mark=KT(f"labels__{SIMULATED}")).annotate(
            **{name: KeyTextTransform(key, "labels") for name, key in keys.items()}
        )
        counted = []
        for row in marked.values(*columns, "mark", *keys):
            mark, taints = row.pop("mark"), row.pop("taints")
            found = {key: row.pop(name) for name, key in keys.items()}
            labels = {key: value for key, value in found.items() if value is not None}
            known = capacity_of(
                NodeCapacity(row["name"], Amount(), Amount()),
                takes_pods=row["is_ready"]
                and row["is_schedulable"]
                and row["name"] not in self._shut
                and is_selected(labels, settings.NODE_SELECTOR),
                labels=labels,
                taints=((taint["key"], taint["value"], taint["effect"]) for taint in taints),
                known=self.pools,
            )
            is_simulated = mark == "true"
            counted.append(
                Counted(**row, is_simulated=is_simulated, pool=known.pool, is_open=known.is_open)
            )
        return sorted(counted, key=lambda node: (-meter(node, "gpu").total, node.name))

    @cached_property
    def page(self) -> Page[Counted]:
        return Paginator(self._all, PAGE_SIZE).get_page(self._page_number)

    @cached_property
    def cards(self) -> list[NodeCard]:
        rows = Node.objects.in_bulk([counted.name for counted in self.page.object_list])
        # What has gone in between is left out.
        shown = [rows[node.name] for node in self.page.object_list if node.name in rows]
        is_open = {node.name: node.is_open for node in self.page.object_list}
        gpu_users = GpuUsers(self.user, shown)
        suspicious, held = self.suspicious, self.holds.rows
        # Whose work it is only admins may read of everybody.
        lasting = self.holds.lasting(node.name for node in shown) if self.may_hold else {}
        return [
            NodeCard(
                node,
                is_open[node.name],
                gpu_users.of(node),
                notes_on(
                    node,
                    settings.NODE_SELECTOR,
                    self.pools,
                    suspicious.get(node.name),
                    held.get(node.name),
                ),
                pool_of(node.labels, self.pools).shown_name if self.pools else "",
                self.may_hold and node.name in suspicious and suspicious[node.name].is_avoided,
                node.name in held,
                lasting.get(node.name, ()),
            )
            for node in shown
        ]

    @cached_property
    def suspicious(self) -> dict[str, SuspiciousNode]:
        """By name, what the guard of the queue says."""
        return {one.name: one for one in read_suspicious_nodes(now())}

    @cached_property
    def totals(self) -> list[Meter]:
        """CPU, memory and pods of the whole cluster."""
        return [self._total(kind) for kind in ("cpu", "memory", "pods")]

    @cached_property
    def gpu(self) -> Meter:
        """GPUs of the whole cluster."""
        return self._total("gpu")

    def _total(self, kind: str) -> Meter:
        return add_up((meter(node, kind, is_open=node.is_open) for node in self._all), kind)

    @property
    def count(self) -> int:
        return len(self._all)

    @cached_property
    def open_count(self) -> int:
        """Nodes that take new pods."""
        return sum(node.is_open for node in self._all)

    @cached_property
    def simulated_count(self) -> int:
        """GPUs of the cluster that are not real ones."""
        return sum(meter(node, "gpu").total for node in self._all if node.is_simulated)

    @cached_property
    def fingerprint(self) -> str:
        """Changes when anything on the page changes."""
        shown = [(card.node.name, card.node.seen_at, card.gpu_users) for card in self.cards]
        # Each write of a node has a later time, and one that goes is one less.
        last = max((node.seen_at for node in self._all), default=None)
        lasting = [(row.pk, row.revision) for card in self.cards for row in card.lasting]
        suspicious = tuple(self.suspicious.values())
        others = (self.count, self.open_count, last, self.holds.marks, lasting, suspicious)
        return revision_of(shown, others)
