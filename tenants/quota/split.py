"""How what the cluster has is split by weight: over teams, then over the namespaces of each. Pure.

One rule for all kinds, highest averages with the divisors 1, 3, 5 (Sainte-Lague,
https://en.wikipedia.org/wiki/Sainte-Lagu%C3%AB_method): pieces are given one by one to whoever has the
largest weight / (2 * pieces + 1). So sums are exact, and nobody loses when there is more to split or
the own weight grows. Instead of walking over bytes, the divisor at which the last piece goes is
bisected.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm
from typing import TypeVar
from uuid import UUID

Key = TypeVar("Key", str, UUID)


@dataclass(frozen=True)
class WeightedNamespace:
    """A namespace in the split; one without a team is a team of its own, with its own weight.

    Attributes:
        quota: kind -> amount as it is now (cpu in millicores, memory in bytes, gpu in pieces).
        is_fixed: an admin gives the quota; else it is its part by weight.
    """

    tenant_id: UUID
    weight: int
    quota: Mapping[str, int]
    team_id: UUID | None = None
    team_weight: int = 1
    is_fixed: bool = False

    @property
    def group(self) -> tuple[UUID, int]:
        """What stands for it among teams, and with which weight."""
        return (self.team_id, self.team_weight) if self.team_id else (self.tenant_id, self.weight)


def split(amount: int, weights: Mapping[Key, int]) -> dict[Key, int]:
    """Whole parts that add up to the amount; equal claims to the last piece go to the larger weight,
    then in the order of keys.

    Raises:
        ValueError: the amount is negative, or a weight is below 1.
    """
    if amount < 0 or any(weight < 1 for weight in weights.values()):
        raise ValueError("what is split is not negative, and weights are at least 1")
    if not weights:
        return {}
    counts = Counter(weights.values())
    # Piece k of weight w goes at (2k + 1) / w. In steps of 1 / (a multiple of all weights) each such
    # point is a whole number, so nothing is rounded.
    steps = lcm(*counts)

    def given(point: int, weight: int) -> int:
        return (point * weight + steps) // (2 * steps)

    low, high = 0, 2 * steps * (amount + len(weights) + 1) // sum(weights.values()) + 1
    while high - low > 1:  # what is given at `low` never is more than there is; at `high` it is
        middle = (low + high) // 2
        if sum(count * given(middle, weight) for weight, count in counts.items()) <= amount:
            low = middle
        else:
            high = middle
    parts = {key: given(low, weight) for key, weight in weights.items()}
    left = amount - sum(parts.values())
    tied = [key for key, weight in weights.items() if given(high, weight) > parts[key]]
    for key in sorted(tied, key=lambda key: (-weights[key], key))[:left]:
        parts[key] += 1
    return parts


def split_quotas(
    capacity: Mapping[str, int], namespaces: Sequence[WeightedNamespace]
) -> dict[UUID, dict[str, int]]:
    """Kind -> amount of each namespace that is by weight: of the capacity less all fixed quotas, split
    over the teams that have such namespaces, then inside each. Nothing where fixed quotas take all."""
    sharing = [one for one in namespaces if not one.is_fixed]
    teams = dict(one.group for one in sharing)
    members: dict[UUID, dict[UUID, int]] = {team_id: {} for team_id in teams}
    for one in sharing:
        members[one.group[0]][one.tenant_id] = one.weight
    found: dict[UUID, dict[str, int]] = {one.tenant_id: {} for one in sharing}
    for kind, whole in capacity.items():
        fixed = sum(one.quota[kind] for one in namespaces if one.is_fixed)
        for team_id, part in split(max(0, whole - fixed), teams).items():
            for tenant_id, amount in split(part, members[team_id]).items():
                found[tenant_id][kind] = amount
    return found
