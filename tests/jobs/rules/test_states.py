"""States: what may follow."""

from jobs.rules.states import FINAL_STATES, FOLLOWERS, HOLDING_STATES, WorkloadState


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
