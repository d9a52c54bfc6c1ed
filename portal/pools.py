"""Pools of nodes as the catalog names them: which node belongs to which, and what brings pods there. Pure.

The only place that reads taints for admission, form, preview and quotas by weight, so that they agree.

https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

DEFAULT = "default"  # all nodes that no pool selects
HOSTNAME = "kubernetes.io/hostname"
# Off several labels of one pool there are several ways, and a pod lists each combination of them.
COMBINATIONS_MOST = 64

_NAME = r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
LABEL_KEY = rf"(?:[a-z0-9](?:[-a-z0-9.]{{0,251}}[a-z0-9])?/)?{_NAME}"
LABEL_VALUE = rf"(?:{_NAME})?"
LabelKey = Annotated[str, Meta(pattern=f"^{LABEL_KEY}$")]
LabelValue = Annotated[str, Meta(pattern=f"^{LABEL_VALUE}$")]


class Toleration(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As pods have it. https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/"""

    key: LabelKey | None = None
    operator: Literal["Equal", "Exists"] = "Equal"
    value: LabelValue = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None

    def __post_init__(self) -> None:
        if self.operator == "Equal" and self.key is None:
            raise ValueError("A toleration without key needs the operator Exists")
        if self.operator == "Exists" and self.value:
            raise ValueError("A toleration with the operator Exists has no value")

    def covers(self, key: str, value: str, effect: str) -> bool:
        """Whether pods that have it may come to nodes with this taint."""
        if self.key not in (None, key) or self.effect not in (None, effect):
            return False
        return self.operator == "Exists" or self.value == value

    @property
    def document(self) -> dict[str, str]:
        """As a manifest has it."""
        found = msgspec.structs.asdict(self)
        return {name: text for name, text in found.items() if text}


class Pool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """
    Attributes:
        node_selector: labels that all its nodes have.
        tolerations: what its pods have besides.
        teams: names of those that may use it; None: everybody.
        scheduler_name: who places its pods; empty: the cluster's own.
        topology_key: the label by whose values `pack` and `spread` go.
    """

    name: Annotated[str, Meta(pattern="^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$")]
    node_selector: dict[LabelKey, LabelValue]
    title: str = ""
    tolerations: tuple[Toleration, ...] = ()
    teams: tuple[str, ...] | None = None
    scheduler_name: str = ""
    topology_key: LabelKey = HOSTNAME

    @property
    def shown_name(self) -> str:
        return self.title or self.name

    def selects(self, labels: Mapping[str, str]) -> bool:
        return self.node_selector.items() <= labels.items()

    def is_for(self, team: str | None) -> bool:
        """
        Args:
            team: its name; None: people without a team.
        """
        return self.teams is None or team in self.teams


_DEFAULT = Pool(name=DEFAULT, node_selector={})

Taint = tuple[str, str, str]  # key, value, effect
# Effects that keep new pods away, and what pods with a GPU have in every pool.
CLOSING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
GPU_TOLERATION = Toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule")


def check(pools: Sequence[Pool]) -> None:
    """
    Raises:
        ValueError: they cannot be used together, with what is wrong.
    """
    names = [pool.name for pool in pools]
    for pool in pools:
        if pool.name == DEFAULT:
            raise ValueError("pools names 'default', which is all nodes that no pool selects")
        if names.count(pool.name) > 1:
            raise ValueError(f"pools names {pool.name!r} twice")
        if not pool.node_selector:
            raise ValueError(f"The pool {pool.name!r} needs a node_selector: labels of its nodes")
        if pool.teams == ():
            raise ValueError(f"The pool {pool.name!r} is for no team; leave teams out for all")
    if prod(len(pool.node_selector) for pool in pools) > COMBINATIONS_MOST:
        raise ValueError(
            f"The numbers of labels of all pools multiply to more than {COMBINATIONS_MOST}; give each "
            "pool's nodes one label of their own"
        )


def pool_of(labels: Mapping[str, str], pools: Sequence[Pool]) -> Pool:
    """The one to which a node of these labels belongs: the first that selects it."""
    return next((pool for pool in pools if pool.selects(labels)), _DEFAULT)


def keys_of(pools: Sequence[Pool]) -> frozenset[str]:
    """Keys of the labels by which they select."""
    return frozenset(key for pool in pools for key in pool.node_selector)


def closing(taints: Iterable[Taint], pool: Pool) -> tuple[list[Taint], bool]:
    """Those that no pod of the pool tolerates, and whether pods without a GPU are kept away by another one."""
    found = [
        taint
        for taint in taints
        if taint[2] in CLOSING_EFFECTS and not any(one.covers(*taint) for one in pool.tolerations)
    ]
    others = [taint for taint in found if not GPU_TOLERATION.covers(*taint)]
    return others, len(others) < len(found)


def get_pool(name: str, pools: Sequence[Pool]) -> Pool:
    """The one of this name; `default` in place of one that is gone, for most of its nodes are there now."""
    return next((pool for pool in pools if pool.name == name), _DEFAULT)


def offered(pools: Sequence[Pool], team: str | None) -> tuple[str, ...]:
    """Names of those that a team may use, in the order of the catalog, and `default`; see `Pool.is_for`."""
    return (*(pool.name for pool in pools if pool.is_for(team)), DEFAULT)


def candidates(
    asked: str | None, pools: Sequence[Pool], team: str | None, *, has_gpu: bool
) -> tuple[str, ...]:
    """Where it may run, in the order to try; empty: what is asked for is gone, or not for this team.

    What needs no GPU leaves the pools free for what does.

    Args:
        asked: a pool's name; None: any.
    """
    names = offered(pools, team)
    if asked is not None:
        return (asked,) if asked in names else ()
    return names if has_gpu else (DEFAULT, *names[:-1])


def node_terms(pool: Pool, pools: Sequence[Pool]) -> list[list[dict[str, Any]]]:
    """Terms of required node affinity, one of which each node of the pool meets, and no other node.

    Without pools there are none. `NotIn` is met by a node without the label, too.
    """
    if not pools:
        return []
    own = [_is(key, "In", value) for key, value in sorted(pool.node_selector.items())]
    earlier = pools[: pools.index(pool)] if pool in pools else pools
    ways = [
        [_is(key, "NotIn", value) for key, value in sorted(other.node_selector.items())]
        for other in earlier
    ]
    return [[*own, *way] for way in product(*ways)]


def _is(key: str, operator: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": [value]}
