"""What holds whatever people and the cluster do, judged by `queue_judge`; and that the judge sees each mistake."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from jobs.rules.queue import decision, room
from jobs.rules.queue.decision import _Look
from jobs.rules.queue.order import QueueOrder, dominant_share, usage_after
from jobs.rules.queue.room import Room
from jobs.rules.queue.state import (
    HIGH,
    LOW,
    NORMAL,
    NOTHING,
    UNKNOWN,
    UNLIMITED,
    NamespaceState,
    QueuedWorkload,
    QueueRules,
    QueueState,
    RoleReplicas,
    TeamState,
)
from tests.jobs.rules.queue_judge import judge
from tests.jobs.rules.queue_world import STEPS, BrokenRuleError, World

STEPS_TRIED = 500  # tests/scale/test_queue_steps.py tries 20,000
STEPS_EACH = 50
# A step as often as its weight says.
NAMES = [name for name, (weight, _) in STEPS.items() for _ in range(weight)]


class QueueMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.world = World(judge)

    @rule(name=st.sampled_from(NAMES), seed=st.integers(0, 2**32))
    def step(self, name: str, seed: int) -> None:
        STEPS[name][1](self.world, random.Random(seed))
        self.world.look()


QueueMachine.TestCase.settings = settings(
    max_examples=-(-STEPS_TRIED // STEPS_EACH),
    stateful_step_count=STEPS_EACH,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestQueue = QueueMachine.TestCase


# --- planted mistakes: each makes the judge say which property is broken ---
def _every_node(change: dict[str, Any]) -> Callable[..., None]:
    begin = Room.__init__

    def wrong(self: Room, state: QueueState) -> None:
        begin(self, replace(state, nodes=tuple(replace(node, **change) for node in state.nodes)))

    return wrong


def _all_are_low() -> Callable[..., None]:
    begin = Room.__init__

    def wrong(self: Room, state: QueueState) -> None:
        running = tuple(replace(one, is_low=True) for one in state.running)
        begin(self, replace(state, running=running))

    return wrong


def _one_less(taken: dict, found: Any, each: Any, count: int) -> dict:
    return taking(taken, found, each, max(1, count - 1))


def _sometimes_none(self: Room, queued: QueuedWorkload, *more: Any) -> Any:
    return None if queued.workload_id.endswith("7") else pack(self, queued, *more)


def _off_all_held(self: Room, i: int, *more: Any) -> bool:
    return self.nodes[i].hold_from_s == UNKNOWN and may_be_kept(self, i, *more)


taking, pack, fits, may_be_kept = room.taking, Room.pack, room.fits, Room.may_be_kept
MISTAKES: dict[str, tuple[str, Any, str, Any]] = {
    "one too many on a node": ("nodes", room, "fits", lambda *sizes: fits(*sizes) + 1),
    "a replica is forgotten": ("whole", room, "taking", _one_less),
    "nodes of other pools": ("pools", Room, "candidates", lambda self, *_: range(len(self.nodes))),
    "closed nodes are open": ("closed nodes", Room, "__init__", _every_node({"is_open": True})),
    "holds are not seen": ("held nodes", Room, "__init__", _every_node({"hold_from_s": UNKNOWN})),
    "low stays on held nodes": ("off held nodes", _Look, "_empty_held_nodes", lambda _: None),
    "guards are not seen": ("hindered", _Look, "_hinders", lambda *_: ""),
    "all try an image": ("one tries", _Look, "_try", lambda *_: None),
    "no quota": ("quota", _Look, "_quota_lacks", lambda *_: ()),
    "low has no ceiling": ("quota with low", _Look, "_ceiling", lambda *_: UNLIMITED),
    "reserved nodes are free": ("promise", Room, "reserve", lambda *_: None),
    "a late hold ends a promise": ("promise", Room, "may_be_kept", _off_all_held),
    "quota is not kept": ("promise", _Look, "_kept_from", lambda *_, **__: NOTHING),
    "low stays on reserved nodes": ("promise", _Look, "_stop_in_time", lambda _: None),
    "the quota has no time": ("promise", _Look, "_quota_s", lambda self, _: self._now_s),
    "two reservations of a pool": ("one reservation", _Look, "_reserved_pools", lambda _: set()),
    "normal ones are stopped": ("only low", Room, "__init__", _all_are_low()),
    "claimed nodes are free": ("beneficiary next", Room, "claim", lambda *_: None),
    "a claim's owner does not start": ("within one grace", _Look, "_start_on_own", lambda *_: None),
    "some are passed over": ("first that fits starts", Room, "pack", _sometimes_none),
    "nobody is stopped": ("low delays nobody", _Look, "_preempt", lambda *_: False),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_judge_sees_a_mistake(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rule_name, owner, name, wrong = MISTAKES[mistake]
    monkeypatch.setattr(owner, name, wrong)
    found = set()
    for seed in range(300):
        world, dice = World(judge), random.Random(seed)
        try:
            for _ in range(60):
                STEPS[dice.choice(NAMES)][1](world, dice)
                world.look()
        except BrokenRuleError as broken:
            found.add(str(broken).split(":")[0])
            if any(one.startswith(rule_name) for one in found):
                return
    pytest.fail(f"not seen; only {found}")


# --- the order ---
PEOPLE = {"ada": "red", "bob": "red", "eve": "blue", "kim": "kim"}
CAPACITY = (100, 100_000, 100 * 2**30, 1000, 0)
one_each = (RoleReplicas(1, (1, 1000, 2**30, 1, 0)),)
lines = st.lists(
    st.builds(
        lambda person, at_s, priority, rank: (person, at_s, priority, rank),
        st.sampled_from(list(PEOPLE)),
        st.integers(0, 60),
        st.sampled_from([LOW, NORMAL, HIGH]),
        st.sampled_from([-1, 0, 1]),
    ),
    max_size=14,
)


def expected(
    waiting: list[QueuedWorkload], usage: dict[str, int], teams: dict[str, int], now_s: int
) -> list[str]:
    """The order by places: ages give each team, and in it each namespace, its places."""

    def filled(members: list, key: Callable, share: dict[str, int], inner: Callable) -> list:
        places = sorted(
            members, key=lambda one: (share[key(one)], one.queued_at_s, one.workload_id)
        )
        inside = {name: inner([m for m in members if key(m) == name]) for name in map(key, members)}
        return [inside[key(one)].pop(0) for one in places]

    def own(members: list) -> list:
        return sorted(members, key=lambda one: (one.rank, one.queued_at_s, one.workload_id))

    def team(members: list) -> list:
        high = [one for one in members if one.priority == HIGH]
        rest = [one for one in members if one.priority != HIGH]
        return [
            one for part in (high, rest) for one in filled(part, lambda m: m.namespace, usage, own)
        ]

    found = []
    for is_low in (False, True):
        group = [one for one in waiting if (one.priority == LOW) == is_low]
        aged = [one for one in group if one.queued_at_s + 30 <= now_s]
        found += sorted(aged, key=lambda one: (one.queued_at_s, one.workload_id))
        found += filled(
            [one for one in group if one not in aged], lambda m: PEOPLE[m.namespace], teams, team
        )
    return [one.workload_id for one in found]


@given(lines, st.lists(st.integers(0, 3), min_size=7, max_size=7), st.booleans())
@settings(max_examples=300, deadline=None)
def test_the_order_is_low_last_aged_first_then_by_shares(line, parts, is_fair) -> None:
    waiting = [
        QueuedWorkload(f"w{i:02}", person, at_s, one_each, priority=priority, rank=rank)
        for i, (person, at_s, priority, rank) in enumerate(line)
    ]
    usage = dict(zip(PEOPLE, parts, strict=False))
    teams = dict(zip(["red", "blue", "kim"], parts[4:], strict=False))
    state = QueueState(
        60, CAPACITY, (), (), tuple(waiting),
        {name: NamespaceState(name, team, usage=usage[name]) for name, team in PEOPLE.items()},
        {name: TeamState(name, usage=of) for name, of in teams.items()},
    )  # fmt: skip
    order = QueueOrder(state, QueueRules(aging_s=30, fair_share=is_fair))
    if not is_fair:
        usage, teams = dict.fromkeys(usage, 0), dict.fromkeys(teams, 0)
    assert [one.workload_id for one in order] == expected(waiting, usage, teams, 60)


def test_what_starts_in_a_look_counts_for_those_after_it() -> None:
    waiting = tuple(
        QueuedWorkload(f"{person}{i}", person, i, one_each)
        for person in ("ada", "eve")
        for i in (1, 2)
    )
    names = {name: NamespaceState(name, PEOPLE[name]) for name in PEOPLE}
    teams = {"red": TeamState("red", weight=3), "blue": TeamState("blue"), "kim": TeamState("kim")}
    state = QueueState(60, CAPACITY, (), (), waiting, names, teams)
    order = QueueOrder(state, QueueRules(fair_share=True))
    found = []
    for one in order:
        found.append(one.workload_id)
        order.note_start(one)
    assert found == ["ada1", "eve1", "ada2", "eve2"]


def test_a_namespace_without_a_team_is_one_of_its_own_with_its_own_weight_and_usage() -> None:
    waiting = tuple(QueuedWorkload(name, name, at_s, one_each) for at_s, name in enumerate("abc"))
    known = {"a": (1, 90), "b": (4, 120), "c": (2, 100)}
    names = {
        name: NamespaceState(name, name, weight=weight, usage=usage)
        for name, (weight, usage) in known.items()
    }
    state = QueueState(60, CAPACITY, (), (), waiting, names, {})
    order = QueueOrder(state, QueueRules(fair_share=True))
    assert [one.workload_id for one in order] == ["b", "c", "a"]


def test_an_admission_of_as_much_begins_the_age_anew_and_a_smaller_one_does_not() -> None:
    share = dominant_share(one_each[0].each, CAPACITY)
    one = QueuedWorkload("a", "ada", 0, one_each)
    for admitted, ages_at_s in (((20, share), 50), ((20, share - 1), 30), ((20, share * 9), 50)):
        names = {"ada": NamespaceState("ada", "red", admitted=(admitted,))}
        state = QueueState(60, CAPACITY, (), (), (one,), names, {})
        assert QueueOrder(state, QueueRules(aging_s=30)).ages_at_s(one) == ages_at_s


def test_usage_is_half_as_much_after_a_day_and_stays_where_it_is() -> None:
    assert usage_after(1000, 0, 24 * 3600) == 500
    assert usage_after(1000, 1000, 12345) == 1000
    assert usage_after(0, 1000, 48 * 3600) == 750


def test_the_same_state_gives_the_same_decision() -> None:
    world, dice = World(judge), random.Random(5)
    for _ in range(80):
        STEPS[dice.choice(NAMES)][1](world, dice)
        assert decision.decide(world.state()) == decision.decide(world.state())
        world.look()
