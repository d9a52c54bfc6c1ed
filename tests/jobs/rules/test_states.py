"""States and topologies: what may follow, and which roles decide."""

import pytest

from jobs.rules.states import FINAL_STATES, FOLLOWERS, HOLDING_STATES, WorkloadState
from jobs.rules.topologies import (
    SINGLE,
    TF_PS,
    TOPOLOGIES,
    SuccessPolicy,
    find_role_problem,
    get_topology,
    is_success,
    success_policy,
)


def test_every_state_has_its_followers_and_only_final_ones_have_none() -> None:
    assert set(FOLLOWERS) == set(WorkloadState)
    assert {state for state, after in FOLLOWERS.items() if not after} == FINAL_STATES
    assert HOLDING_STATES.isdisjoint(FINAL_STATES)


def test_every_state_can_be_reached_and_left() -> None:
    reached, fresh = set(), {WorkloadState.QUEUED}
    while fresh:
        reached |= fresh
        fresh = {after for state in fresh for after in FOLLOWERS[state]} - reached
    assert reached == set(WorkloadState)


@pytest.mark.parametrize("shape", TOPOLOGIES.values(), ids=lambda shape: shape.name)
def test_each_topology_has_one_deciding_role(shape) -> None:
    assert shape.deciding.decides
    assert all(not role.decides for role in shape.serving)
    assert all(len(role.name) <= 9 for role in shape.roles)
    assert get_topology(shape.name) is shape


def test_an_unknown_topology_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'ring'; choose single or tf-ps"):
        get_topology("ring")


def test_roles_are_exactly_those_of_the_topology() -> None:
    assert find_role_problem(TF_PS, ["ps", "worker"]) == ""
    assert find_role_problem(TF_PS, ["worker"]) == "tf-ps has exactly the roles worker and ps."
    assert find_role_problem(SINGLE, ["worker", "ps"])


def test_policies() -> None:
    assert success_policy(TF_PS, None) is SuccessPolicy.ALL
    assert success_policy(SINGLE, "worker0") is SuccessPolicy.WORKER0
    with pytest.raises(ValueError, match="cannot end by 'chief'"):
        success_policy(TF_PS, "chief")


@pytest.mark.parametrize(
    ("policy", "done", "count", "expected"),
    [
        (SuccessPolicy.ALL, [0, 1], 2, True),
        (SuccessPolicy.ALL, [0], 2, False),
        (SuccessPolicy.ALL, [0, 0], 2, False),
        (SuccessPolicy.WORKER0, [0], 5, True),
        (SuccessPolicy.WORKER0, [1, 2], 5, False),
    ],
)
def test_who_must_succeed(policy, done, count, expected) -> None:
    assert is_success(policy, done, count) is expected
