"""The shapes that a training can have: which roles, who decides its end, who depends on whom."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

T = TypeVar("T")


class SuccessPolicy(StrEnum):
    """Which workers must succeed for the training to be a success."""

    CHIEF = "chief"
    WORKER0 = "worker0"
    ALL = "all"


@dataclass(frozen=True)
class Role:
    """One role of a topology.

    Attributes:
        name: at most 9 characters, as it becomes part of host names.
        max_count: most replicas; None: as many as the catalog allows.
        decides: its replicas end by themselves, and their ends are the training's end.
            The others serve until the deciding ones have ended.
        replaced_when_lost: a replica that the cluster took away is replaced by itself, and the others
            go on meanwhile; else the attempt ends with it.
    """

    name: str
    max_count: int | None = None
    decides: bool = True
    replaced_when_lost: bool = False


@dataclass(frozen=True)
class Topology:
    """One row of the table below.

    Attributes:
        roles: in the order in which people think of them; exactly these must be asked for.
    """

    name: str
    roles: tuple[Role, ...]

    @property
    def role_names(self) -> tuple[str, ...]:
        return tuple(role.name for role in self.roles)

    @property
    def deciding(self) -> Role:
        """The role whose replicas are the root Job."""
        return next(role for role in self.roles if role.decides)

    @property
    def serving(self) -> tuple[Role, ...]:
        """Roles that serve the deciding one and are recycled after it."""
        return tuple(role for role in self.roles if not role.decides)

    @property
    def success_policies(self) -> tuple[SuccessPolicy, ...]:
        """The policies that make sense here, the default first."""
        if "chief" in self.role_names:
            return (SuccessPolicy.CHIEF, SuccessPolicy.WORKER0, SuccessPolicy.ALL)
        return (SuccessPolicy.ALL, SuccessPolicy.WORKER0)


SINGLE = Topology("single", (Role("worker", max_count=1),))
TF_PS = Topology(
    "tf-ps",
    (
        Role("worker", replaced_when_lost=True),
        Role("ps", decides=False, replaced_when_lost=True),
    ),
)
TOPOLOGIES: Mapping[str, Topology] = {shape.name: shape for shape in (SINGLE, TF_PS)}


def get_topology(name: str) -> Topology:
    """The topology of this name.

    Raises:
        ValueError: there is none; the text names those that are.
    """
    found = TOPOLOGIES.get(name)
    if found is None:
        raise ValueError(f"there is no topology {name!r}; choose {' or '.join(TOPOLOGIES)}")
    return found


def find_role_problem(topology: Topology, roles: Collection[str]) -> str:
    """A sentence when the roles are not exactly those of the topology, else empty."""
    if set(roles) == set(topology.role_names):
        return ""
    return f"{topology.name} has exactly the roles {' and '.join(topology.role_names)}."


def success_policy(topology: Topology, asked: str | None) -> SuccessPolicy:
    """The policy that holds: what was asked for, else the topology's default.

    Raises:
        ValueError: the topology does not know the policy.
    """
    if not asked:
        return topology.success_policies[0]
    if asked not in set(topology.success_policies):
        allowed = " or ".join(topology.success_policies)
        raise ValueError(f"{topology.name} cannot end by {asked!r}; choose {allowed}")
    return SuccessPolicy(asked)


def is_success(policy: SuccessPolicy, succeeded: Collection[int], count: int) -> bool:
    """Whether the training is a success already.

    Args:
        policy: worker0 or all (a chief would be index 0 of its own deciding role).
        succeeded: indexes of the deciding role that ended with success.
        count: replicas of the deciding role.
    """
    if policy in (SuccessPolicy.WORKER0, SuccessPolicy.CHIEF):
        return 0 in succeeded
    return len(set(succeeded)) >= count


_ROLES = tuple(dict.fromkeys(name for shape in TOPOLOGIES.values() for name in shape.role_names))


def role_order(role: str) -> int:
    """Where people think of this role among the others; one of no topology comes last."""
    return _ROLES.index(role) if role in _ROLES else len(_ROLES)


def in_role_order(replicas: Mapping[str, T]) -> dict[str, T]:
    """The same in the order in which people think of roles, which a database need not keep."""
    return dict(sorted(replicas.items(), key=lambda item: role_order(item[0])))
