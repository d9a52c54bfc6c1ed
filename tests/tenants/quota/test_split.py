"""The split of a cluster by weight, against the rule as it is told: piece by piece to the highest average."""

from fractions import Fraction
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.quota.split import WeightedNamespace, split, split_quotas

WEIGHTS = st.dictionaries(
    st.sampled_from("abcdefghij"), st.integers(min_value=1, max_value=100), min_size=1
)


def by_hand(amount: int, weights: dict[str, int]) -> dict[str, int]:
    parts = dict.fromkeys(weights, 0)
    for _ in range(amount):
        first = min(
            weights,
            key=lambda key: (-Fraction(weights[key], 2 * parts[key] + 1), -weights[key], key),
        )
        parts[first] += 1
    return parts


@given(weights=WEIGHTS, amount=st.integers(min_value=0, max_value=60))
def test_pieces_go_to_the_highest_average(weights: dict[str, int], amount: int):
    assert split(amount, weights) == by_hand(amount, weights)


@given(weights=WEIGHTS, amount=st.integers(min_value=0, max_value=2**50), data=st.data())
def test_sums_are_exact_and_nobody_loses_by_more(
    weights: dict[str, int], amount: int, data: st.DataObject
):
    parts = split(amount, weights)
    assert sum(parts.values()) == amount
    more = data.draw(st.one_of(st.just(1), st.integers(min_value=1, max_value=2**40)))
    assert all(part >= parts[key] for key, part in split(amount + more, weights).items())
    chosen = data.draw(st.sampled_from(sorted(weights)))
    heavier = data.draw(st.integers(min_value=weights[chosen], max_value=100))
    assert split(amount, weights | {chosen: heavier})[chosen] >= parts[chosen]


def test_ties_and_what_cannot_be_split():
    assert split(1, {"b": 1, "a": 1}) == {"a": 1, "b": 0}
    assert split(2, {"b": 1, "a": 3}) == {"a": 2, "b": 0}  # both claim at 1: the larger weight
    assert split(5, {}) == {}
    for amount, weight in ((-1, 1), (1, 0), (1, -3)):
        with pytest.raises(ValueError, match="at least 1"):
            split(amount, {"a": weight})


def test_fixed_quotas_come_first_then_teams_then_their_namespaces():
    a, b, alone, fixed, vision = (UUID(int=number) for number in range(1, 6))
    capacity = {"cpu": 16_000, "memory": 50_451_910_656, "gpu": 8}
    pair = [WeightedNamespace(pk, weight, {}, vision, 7) for pk, weight in ((a, 3), (b, 5))]
    assert split_quotas(capacity, pair) == {
        a: {"cpu": 6_000, "memory": 18_919_466_496, "gpu": 3},
        b: {"cpu": 10_000, "memory": 31_532_444_160, "gpu": 5},
    }
    # One without a team is a team of its own: 7 to 1 of what the fixed quota leaves.
    quota = {"cpu": 0, "memory": 50_451_910_655, "gpu": 2}
    taken = WeightedNamespace(fixed, 9, quota, vision, 7, is_fixed=True)
    assert split_quotas(capacity, [*pair, WeightedNamespace(alone, 1, {}), taken]) == {
        a: {"cpu": 5_250, "memory": 0, "gpu": 2},
        b: {"cpu": 8_750, "memory": 1, "gpu": 3},
        alone: {"cpu": 2_000, "memory": 0, "gpu": 1},
    }
    quota = {"cpu": 17_000, "memory": 0, "gpu": 9}
    more = WeightedNamespace(fixed, 1, quota, is_fixed=True)
    parts = split_quotas(capacity, [*pair, more])
    assert (parts[a]["cpu"], parts[b]["gpu"]) == (0, 0)
    assert parts[a]["memory"] + parts[b]["memory"] == capacity["memory"]
