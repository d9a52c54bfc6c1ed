"""When an image is guarded and who tries it; when a node is avoided, and how many of a pool."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from jobs.rules.queue.guards import (
    GuardedImage,
    Guards,
    NodeDeath,
    PullFailure,
    guarded_images,
    suspicious_nodes,
)
from jobs.rules.queue.look import QueueSnapshot, look
from jobs.rules.queue.state import RunningWorkload
from tests.jobs.rules.test_admission import GI
from tests.jobs.rules.test_look import HEADROOM, PLENTY, queued

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
X, Y = "registry/x:1", "registry/y:1"


def at(minutes: float) -> datetime:
    return NOON + timedelta(minutes=minutes)


def failed(minutes: float, count: int = 1, tenant: str = "t", image: str = X) -> PullFailure:
    return PullFailure(image, tenant, at(minutes), count, f"said at {minutes}")


THRICE = [failed(0), failed(4), failed(10)]
# A table: failures, when it was pulled, when it was tried, and by namespace from which minute it may be tried.
# fmt: off
IMAGES: dict[str, tuple[list[PullFailure], dict, dict, dict[str, float]]] = {
    "twice": ([failed(0), failed(4)], {}, {}, {}),
    "three times within ten minutes": (THRICE, {}, {"t": 2}, {"t": 12}),
    "three times by one pod": ([failed(4, 3)], {}, {"t": 2}, {"t": 12}),
    "three times, but within more than ten minutes": ([failed(-1), *THRICE[1:]], {}, {}, {}),
    "the last try was long ago": (THRICE, {}, {}, {"t": 11}),
    "it has been pulled since": (THRICE, {"t": 10}, {"t": 2}, {}),
    "it was pulled between": (THRICE, {"t": 3}, {"t": 2}, {}),
    "it was pulled before": (THRICE, {"t": -1}, {"t": 2}, {"t": 12}),
    "another namespace pulled it": (THRICE, {"u": 10}, {"t": 2}, {"t": 12}),
    "two namespaces, of which one failed": (
        [*THRICE, failed(4, 2, "u")], {}, {"t": 2, "u": 6}, {"t": 12}),
    "two namespaces failed, so it is all": (
        [*THRICE, failed(4, 3, "u")], {}, {"t": 2, "u": 6, "v": 7}, {"": 17}),
    "two namespaces failed, and a third one pulled it since": (
        [failed(9, 3), failed(10, 3, "u")], {"v": 1}, {"t": 2, "u": 6}, {"t": 12, "u": 16}),
    "a third one pulled it before": (
        [failed(9, 3), failed(10, 3, "u")], {"v": -1}, {"t": 2, "u": 6}, {"": 16}),
    "one of two has pulled it": ([*THRICE, failed(4, 3, "u")], {"t": 11}, {"t": 2, "u": 6}, {"u": 16}),
    "each image counts by itself": ([failed(0), failed(1), failed(2, image=Y)], {}, {}, {}),
}
# fmt: on


@pytest.mark.parametrize("case", IMAGES)
def test_when_an_image_is_guarded(case: str) -> None:
    failures, pulled, tried, expected = IMAGES[case]
    times = ({(X, name): at(minute) for name, minute in of.items()} for of in (pulled, tried))
    found = guarded_images(failures, *times, at(11))
    assert {one.tenant_id: one.tries_from for one in found} == {
        name: at(minute) for name, minute in expected.items()
    }


GUARD = GuardedImage(X, "t", {"t": "not found"}, at(20))
DETAIL = " (“not found”)"
TOLD = (
    "registry/x:1 could not be pulled three times within ten minutes{}; one workload tries it "
    "every ten minutes, next at {} UTC"
)


def test_one_tries_it_and_the_others_wait_with_its_message_and_hold_up_nobody() -> None:
    line = [queued("a", 0, cpu=1, images=(X,)), queued("b", 1, cpu=1, images=(Y, X))]
    line += [queued("c", 2, cpu=1, images=(X,), tenant="u"), queued("d", 3, cpu=1, images=(Y,))]
    waiting = QueueSnapshot(line, HEADROOM, [PLENTY], guards=Guards(images=[GUARD]))
    for now, others in ((19, dict.fromkeys("ab", TOLD.format(DETAIL, "12:20"))), (20, {})):
        looked = look(waiting, at(now))
        told = {one.queued.workload_id: one.fit.text or one.fit.kind for one in looked.decisions}
        rest = others or {"a": "now", "b": TOLD.format(DETAIL, "12:30")}
        assert told == {**rest, "c": "now", "d": "now"}
        assert not others or looked.look_at == at(20)
    everywhere = replace(waiting, guards=Guards(images=[replace(GUARD, tenant_id="")]))
    told = {one.queued.workload_id: one.fit.text for one in look(everywhere, at(20)).decisions}
    waits = {"b": TOLD.format(DETAIL, "12:30"), "c": TOLD.format("", "12:30")}
    assert told == {"a": "", **waits, "d": ""}, "what t's registry said is nothing for u"


def test_one_that_stops_low_for_it_is_the_one_that_tries_it() -> None:
    size = (0, 8000, 8 * GI, 8, 0)
    low = RunningWorkload("low", "u", (("a", size),), size, 0, is_low=True)
    node = [replace(PLENTY, free=PLENTY.free.times(0))]
    line = [queued("a", 0, images=(X,)), queued("b", 1, images=(X,))]
    waiting = QueueSnapshot(line, HEADROOM, node, (low,), guards=Guards(images=[GUARD]))
    looked = look(waiting, at(20))
    assert [(one.workload_id, one.beneficiary) for one in looked.preemptions] == [("low", "a")]
    after = replace(waiting, nodes=[PLENTY], running=(), claims=tuple(looked.claims))
    assert [one.fit.kind for one in look(after, at(21)).decisions] == ["now", "later"]


def died(minute: float, who: str, node: str = "n1", code: str = "node_lost") -> NodeDeath:
    return NodeDeath(node, (f"{who}{minute}", 1), who, at(minute), code)


def on(node: str, *minutes: float) -> list[NodeDeath]:
    return [died(minute, who, node) for minute, who in zip(minutes, "abc", strict=False)]


POOLS = {f"n{n}": "p" for n in range(1, 20)} | {f"m{n}": "q" for n in range(3)} | {"alone": "r"}
TWENTY = POOLS | {"n20": "p"}
THREE = on("n1", 0, 10, 30)
# A table: deaths, pools, when an admin used a node again, the minute of the look; by node: until when
# in minutes, how many died of how many people, and whether it is avoided.
# fmt: off
Found = dict[str, tuple[float, int, int, bool]]
NODES: dict[str, tuple[Sequence[NodeDeath], dict, dict, float, Found]] = {
    "three of three people": (THREE, POOLS, {}, 31, {"n1": (90, 3, 3, True)}),
    "three of two people": (
        [died(0, "a"), died(1, "a"), died(2, "b")], POOLS, {}, 31, {"n1": (62, 3, 2, True)}),
    "three of one person": ([died(0, "a"), died(1, "a"), died(2, "a")], POOLS, {}, 31, {}),
    "three within more than half an hour": (on("n1", 0, 10, 31), POOLS, {}, 31, {}),
    "three on several nodes": ([*on("n1", 0, 1), died(2, "c", "n2")], POOLS, {}, 31, {}),
    "several replicas of one training": (
        [*on("n1", 0, 1), replace(died(0, "a"), at=at(0.5))], POOLS, {}, 31, {}),
    "by their programs, or on purpose": (
        [died(n, "abcdef"[n], code=code) for n, code in enumerate(
            ("exit_code", "preempted", "drained", "cluster_restarted", "signal", "evicted_disk"))],
        POOLS, {}, 31, {}),
    "an hour has gone by": (THREE, POOLS, {}, 90, {}),
    "another one died, so it is an hour from then": (
        [*THREE, died(31, "a")], POOLS, {}, 90, {"n1": (91, 3, 3, True)}),
    "an admin used it again": (THREE, POOLS, {"n1": at(30)}, 31, {}),
    "and three died again": (
        [*THREE, *on("n1", 40, 41, 42)], POOLS, {"n1": at(35)}, 43, {"n1": (102, 3, 3, True)}),
    "it is gone": (on("gone", 0, 1, 2), POOLS, {}, 31, {}),
    "one of nineteen, the last": (
        [*on("n2", 0, 10, 29), *THREE], POOLS, {}, 31, {"n1": (90, 3, 3, True), "n2": (89, 3, 3, False)}),
    "the first still kills when its first deaths are forgotten": (
        [died(n, "ab"[n // 10 % 2]) for n in range(10, 70, 10)] + on("n2", 0, 20, 29), POOLS, {}, 81,
        {"n1": (120, 4, 2, True), "n2": (89, 3, 3, False)}),
    "a closed one takes no other's place": (
        [*on("n2", 0, 10, 29), *on("closed", 0, 10, 30)], POOLS | {"closed": "p"}, {}, 31,
        {"closed": (90, 3, 3, True), "n2": (89, 3, 3, True)}),
    "two of twenty": (
        [*THREE, *on("n2", 0, 10, 29), *on("n3", 9, 20, 31)], TWENTY, {}, 31,
        {"n3": (91, 3, 3, True), "n1": (90, 3, 3, True), "n2": (89, 3, 3, False)}),
    "each pool by itself": (
        [*THREE, *on("m0", 0, 10, 29), *on("m1", 0, 10, 28)], POOLS, {}, 31,
        {"n1": (90, 3, 3, True), "m0": (89, 3, 3, True), "m1": (88, 3, 3, False)}),
    "the only one of its pool": (on("alone", 0, 1, 2), POOLS, {}, 31, {"alone": (62, 3, 3, False)}),
    "the only open one of its pool": (
        on("m0", 0, 1, 2), {"m0": "q", "closed": "q"}, {}, 31, {"m0": (62, 3, 3, False)}),
    "one that is closed anyhow": (
        on("closed", 0, 1, 2), {"m0": "q", "closed": "q"}, {}, 31, {"closed": (62, 3, 3, True)}),
}
# fmt: on


@pytest.mark.parametrize("case", NODES)
def test_when_a_node_is_avoided(case: str) -> None:
    deaths, pools, used_again, minute, expected = NODES[case]
    found = suspicious_nodes(deaths, pools, {"closed"}, used_again, at(minute))
    told = [(one.name, one.until, one.deaths, one.people, one.is_avoided) for one in found]
    assert told == [(name, at(until), *more) for name, (until, *more) in expected.items()]
