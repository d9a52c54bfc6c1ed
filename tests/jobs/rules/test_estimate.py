"""When what waits will start: as it then comes when all deadlines are kept, or why nobody can tell."""

import random
from dataclasses import replace

import pytest

from jobs.rules.queue.decision import decide
from jobs.rules.queue.estimate import MOST_ENDS, Estimate, estimate, line_of, rounded_s
from jobs.rules.queue.order import dominant_share
from jobs.rules.queue.state import (
    HIGH,
    LOW,
    UNKNOWN,
    UNLIMITED,
    Decided,
    NamespaceState,
    NodeState,
    QueuedWorkload,
    QueueRules,
    QueueState,
    Reservation,
    RoleReplicas,
    RunningWorkload,
    Size,
)
from tests.jobs.rules.queue_world import FOREVER, STEPS, World, as_size

NOW_S = 100_000
RULES = QueueRules()


def gpus(count: int) -> Size:
    return (count, count * 1000, count * 2**30, 1, 0)


def node(name: str, free: int) -> NodeState:
    return NodeState(name, "default", (free, 99_000, 99 * 2**30, 99, 0))


def runs(name: str, count: int, ends_in_s: int | None, at: str = "a", of: str = "ada", **more):
    ends_by_s = UNKNOWN if ends_in_s is None else NOW_S + ends_in_s
    size = gpus(count)
    return RunningWorkload(name, of, ((at, size),), size, NOW_S - 1000, ends_by_s, **more)


def waits(name: str, count: int, of: str = "ada", lasts_s: int = UNKNOWN, **more):
    at_s = NOW_S - 60 + len(name)
    roles = (RoleReplicas(1, gpus(count)),)
    return QueuedWorkload(name, of, at_s, roles, lasts_s=lasts_s, **more)


def state(nodes, running, queued, quota=None) -> QueueState:
    def namespace(name: str) -> NamespaceState:
        if quota is None:
            return NamespaceState(name, name)
        left = (
            quota - sum(one.total[0] for one in running if one.namespace == name),
            *UNLIMITED[1:],
        )
        return NamespaceState(name, name, (quota, *UNLIMITED[1:]), left, left)

    names = {name: namespace(name) for name in ("ada", "bob")}
    return QueueState(NOW_S, gpus(16), tuple(nodes), tuple(running), tuple(queued), names, {})


def at(wait_s: int, basis: str, of: str = "") -> Estimate:
    return Estimate(NOW_S + wait_s, basis, of)


def never(basis: str, of: str = "") -> Estimate:
    return Estimate(UNKNOWN, basis, of)


FULL = [node("a", 0)]
# A table: the state, what usually lasts how long, and what is told of whom.
# fmt: off
CASES = {
    "what runs has a deadline": (
        state(FULL, [runs("r", 8, 3600)], [waits("w", 8)]), {}, {"w": at(3600, "deadline", "r")}),
    "one after the other, by what they last themselves": (
        state(FULL, [runs("r", 8, 3600)], [waits("w", 8, lasts_s=600), waits("ww", 8)]), {},
        {"w": at(3600, "deadline", "r"), "ww": at(4200, "deadline", "w")}),
    "a usual duration": (
        state(FULL, [runs("r", 8, None)], [waits("w", 8)]), {"r": 1600}, {"w": at(600, "usual", "r")}),
    "a usual duration that is over": (
        state(FULL, [runs("r", 8, None)], [waits("w", 8)]), {"r": 900}, {"w": never("overdue", "r")}),
    "no limit": (
        state(FULL, [runs("r", 8, None)], [waits("w", 8)]), {}, {"w": never("unlimited", "r")}),
    "no limit in the own quota, and others' ends do not help": (
        state([node("a", 4)], [runs("r", 4, None), runs("o", 4, 600, of="bob")], [waits("w", 2)], quota=4),
        {}, {"w": never("unlimited", "r")}),
    "behind one of the own namespace": (
        state([node("a", 4)], [runs("r", 4, None)], [waits("w", 2), waits("ww", 1)], quota=4),
        {}, {"w": never("unlimited", "r"), "ww": never("unlimited", "r")}),
    "the one of two that gives the quota": (
        state([node("a", 0)], [runs("r", 4, 900), runs("o", 4, 900, of="bob")], [waits("w", 2)], quota=4),
        {}, {"w": at(900, "deadline", "r")}),
    "the one of two that stands on the node": (
        state([node("a", 0), node("b", 0)], [runs("r", 4, 900), runs("o", 8, 900, "b", of="bob")],
              [waits("w", 8)]), {}, {"w": at(900, "deadline", "o")}),
    "of several nodes the one that has an end": (
        state([node("a", 0), node("b", 0)], [runs("r", 8, None), runs("o", 8, 1200, "b")], [waits("w", 8)]),
        {}, {"w": at(1200, "deadline", "o")}),
    "room beside the largest is in pieces": (
        state([node("a", 4), node("b", 4)], [runs("r", 4, 900), runs("o", 4, 1900, "b")], [waits("w", 8)]),
        {}, {"w": at(900, "deadline", "r")}),
    "pods of others": (
        state([node("a", 1)], [], [waits("w", 8)]), {}, {"w": never("nothing")}),
    "it may not start": (
        state(FULL, [runs("r", 8, 600)], [waits("w", 8, obstacle="closed"), waits("ww", 8)]), {},
        {"w": never("obstacle"), "ww": at(600, "deadline", "r")}),
    "its back-off": (
        state([node("a", 8)], [], [waits("w", 8, not_before_s=NOW_S + 90)]), {}, {"w": at(90, "backoff")}),
    "this look starts it": (
        state([node("a", 8)], [], [waits("w", 8)]), {}, {"w": at(0, "now")}),
    "as many pods as may be have just started": (
        replace(state(FULL, [runs("r", 8, 600)], [waits("w", 8)]), pods_started=RULES.most_pods), {},
        {"w": at(600, "deadline", "r")}),
    "low makes room": (
        state(FULL, [runs("r", 8, None, is_low=True)], [waits("w", 8), waits("ww", 8, priority=HIGH)]), {},
        {"ww": at(120, "stopping", "r"), "w": never("unlimited", "ww")}),
    "low comes back when others are gone": (
        state(FULL, [runs("r", 8, 9000, is_low=True)],
              [waits("w", 8, lasts_s=600), waits("ww", 8, priority=LOW)]), {},
        {"w": at(120, "stopping", "r"), "ww": at(720 + 10000, "deadline", "r")}),
    "kept for another one, of whose time nobody knows": (
        replace(state([node("a", 1)], [runs("r", 7, None)], [waits("w", 8), waits("ww", 1, "bob")]),
                reservations=(Reservation("w", (("a", gpus(8)),), UNKNOWN),)), {},
        {"w": never("unlimited", "r"), "ww": never("unlimited", "r")}),
}
# fmt: on


@pytest.mark.parametrize("case", CASES)
def test_when_each_starts_and_what_that_follows_from(case: str) -> None:
    before, usual, expected = CASES[case]
    assert estimate(before, RULES, usual) == expected


def test_it_ends_after_so_many_ends_and_tells_what_it_has_not_reached() -> None:
    line = [waits(f"w{i:02}", 8, lasts_s=60) for i in range(60)]
    busy = state(FULL, [runs("r", 8, 60)], [replace(one, number=i) for i, one in enumerate(line)])
    found = estimate(busy, RULES, {})
    assert [found[f"w{i:02}"].basis for i in (0, 49, 50, 59)] == [
        "deadline",
        "deadline",
        "far",
        "far",
    ]
    crowd = [runs(f"r{i}", 1, i + 1) for i in range(MOST_ENDS + 50)]
    for count, basis in ((MOST_ENDS, "deadline"), (MOST_ENDS + 1, "far")):
        assert estimate(state(FULL, crowd, [waits("w", count)]), RULES, {})["w"].basis == basis
    turns = iter([True, True, True, False])
    found = estimate(busy, RULES, {}, lambda: next(turns))
    assert [found[f"w{i:02}"].basis for i in (0, 1, 2)] == ["deadline", "deadline", "far"]


def test_the_line_is_the_order_of_the_decision() -> None:
    line = [waits("w", 1), waits("ww", 1, priority=LOW), waits("www", 1, priority=HIGH)]
    assert line_of(state(FULL, [], line), RULES) == ["www", "w", "ww"]


@pytest.mark.parametrize(
    ("wait_s", "told_s"),
    [(0, 0), (149, 0), (150, 300), (7000, 6900), (7400, 7200), (9100, 9000), (90_000, 90_000)],
)
def test_times_are_rounded_as_far_as_they_are_away(wait_s: int, told_s: int) -> None:
    assert rounded_s(900_000 + wait_s, 900_000) == 900_000 + told_s


def test_a_rounded_time_is_not_over_yet() -> None:
    assert rounded_s(900_101, 900_100) == 900_300


class Kept(World):
    """Everything lasts until its deadline, and then it is gone."""

    def _carry_out(self, found: Decided) -> None:
        super()._carry_out(found)
        for start in found.starts:
            work = self.running[start.workload_id]
            work.real_end_s = FOREVER if work.ends_by_s is None else work.ends_by_s
            share = dominant_share(as_size(work.total), self.state().capacity)
            self.admissions[work.namespace][-1] = (self.now_s, share)

    def play(self) -> tuple[dict[str, int], int]:
        """When each started that waits now, until nothing more ends; and until when no `low` was stopped."""
        waiting, started, until_s = set(self.queued), {}, FOREVER
        stops = self.counts.get("stops", 0)
        for _ in range(MOST_ENDS):
            self.look()
            if self.counts.get("stops", 0) > stops:
                until_s = min(until_s, self.now_s)
            for name in waiting - self.queued.keys() - started.keys():
                started[name] = self.now_s
            then_s = min([*map(self._end_of, self.running.values()), self.look_at_s])
            if then_s >= FOREVER:
                break
            self.now_s = then_s
            for work in [w for w in self.running.values() if self._end_of(w) <= self.now_s]:
                self._leave(work)
                if work.name in self.queued:
                    until_s = min(until_s, self.now_s)
        return started, until_s


def test_a_situation_that_is_played_out_starts_at_the_estimates() -> None:
    """All deadlines kept, from states that people and the cluster came to by all sorts of steps."""
    # An estimate takes it that an image can be pulled.
    usual = {name: weight for name, (weight, _) in STEPS.items() if name != "break_image"}
    names = [name for name, weight in usual.items() for _ in range(weight)]
    met = 0
    for seed in range(80):
        dice, world = random.Random(seed), Kept(lambda *_: None)
        for name in [*dice.choices(names, k=30), *["submit"] * 8]:
            STEPS[name][1](world, dice)
            world.look()
        told = estimate(world.state(), QueueRules(fair_share=world.is_fair, most=50), {})
        started, until_s = world.play()
        # An estimate does not know what those that are stopped ask for when they wait again.
        times = {name: one.at_s for name, one in told.items() if one.at_s < until_s}
        assert times == {name: started.get(name) for name in times}
        if until_s == FOREVER:
            assert not [name for name in started if told[name].at_s == UNKNOWN]
        met += len(times)
    assert met > 50


def test_the_first_step_is_the_decision_itself() -> None:
    busy = state([node("a", 4)], [runs("r", 4, 600)], [waits("w", 4), waits("ww", 4)])
    at_once = {start.workload_id for start in decide(busy, RULES).starts}
    assert at_once == {n for n, one in estimate(busy, RULES, {}).items() if one.at_s == NOW_S}
