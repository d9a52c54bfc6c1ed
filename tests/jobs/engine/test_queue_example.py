"""The worked example of docs/queue.md: what the page says of each moment is what the product's code says."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import pytest

from jobs.engine.estimates import estimated, places_of
from jobs.rules.queue.look import Queued
from jobs.rules.queue.times import seconds_of
from jobs.workloads import queue_place
from jobs.workloads.queue_place import ShownPlace, basis_text
from tests.jobs.engine.test_told_causes import NOW, NOW_S, Played, Situation, an_id, waits

PAGE = Path(__file__).parents[3] / "docs" / "queue.md"
SUBMITS = re.compile(
    r"(\w+) submits `(\w+)`: (\d) GPUs?(?:, (\d+) h at most)?(?:, `(low|high)`)?\Z"
)
QUOTA = 6
NAMES = ("ada", "bob", "eve")


def items() -> list[tuple[str, str, str, str]]:
    """Of the list: when, the rule, what happens, what follows."""
    text = PAGE.read_text().partition("## An example")[2].partition("\n## ")[0]
    lines = [" ".join(item.split()) for item in text.split("\n- ")[1:]]
    found = [re.fullmatch(r"\*\*(\d\d:\d\d)\*\* (.+?): (.+?) → (.+)", line) for line in lines]
    assert len(found) > 10
    assert all(found), lines
    return [(one[1], one[2], one[3], one[4]) for one in found if one]


class Example(Played):
    """One node of 8 GPUs, three namespaces with a quota of 6 each, from 10:00 on."""

    def __init__(self) -> None:
        super().__init__(Situation((), (), "", ""))
        self._quotas = dict.fromkeys(NAMES, QUOTA)
        self._admitted = {name: [] for name in NAMES}
        self._told: dict[str, str] = {}

    def until(self, clock: str) -> Iterator[None]:
        """Each moment before and at that time at which something ends or was announced."""
        hours, minutes = map(int, clock.split(":"))
        at_s = NOW_S + (hours - NOW.hour) * 3600 + minutes * 60
        while True:
            ends = [self._end_of(one) for one in self._running.values()]
            then_s = min([*ends, seconds_of(self.looked.look_at), at_s])
            self.now_s = max(self.now_s, then_s)
            for one in [o for o in self._running.values() if self._end_of(o) <= self.now_s]:
                self._leave(one)
            if then_s >= at_s:
                return
            yield

    def happens(self, what: str) -> None:
        if (made := SUBMITS.match(what)) is not None:
            who, name, gpus, hours, priority = made.groups()
            more = {"priority": priority} if priority else {}
            if hours:
                more["lasts_s"] = int(hours) * 3600
            at = NOW + timedelta(seconds=self.now_s - NOW_S)
            self._put(waits(name, int(gpus), tenant_id=who, queued_at=at, **more))
        elif (moved := re.fullmatch(r"\w+ moves `(\w+)` to the front", what)) is not None:
            self._put(replace(self._queue[an_id(moved[1])], rank=-1))
        elif (stopped := re.fullmatch(r"\w+ stops `(\w+)`", what)) is not None:
            del self._running[an_id(stopped[1])]
        else:
            assert what == "time passes", what

    def _put(self, one: Queued) -> None:
        self._queue[one.workload_id] = self._asked[one.workload_id] = one

    def follows(self, monkeypatch: pytest.MonkeyPatch) -> str:
        """Who starts and stops, and what else is new to those that wait."""
        names = {pk: one.name for pk, one in self._asked.items()}
        before = set(self._running)
        told = []
        for _ in range(3):  # until it settles
            stops = self.look().preemptions
            told += [f"`{names[one.workload_id]}` is stopped" for one in stops]
        told += [f"`{names[pk]}` starts" for pk in self._running.keys() - before]
        now = datetime.fromtimestamp(self.now_s, NOW.tzinfo)
        monkeypatch.setattr(queue_place, "now", lambda: now)
        shown = self._places(names)
        for one in self.looked.decisions:
            place = shown[one.queued.name]
            words = re.sub(r"\d+", "", f"{one.fit.text} {place.basis}")
            if self._told.get(one.queued.name) != words:  # figures alone are not new
                told.append(f"`{one.queued.name}`: “{one.fit.text}. {place.when}”")
            self._told[one.queued.name] = words
        return "; ".join(sorted(told)) or "nothing"

    def _places(self, names: Mapping[str, str]) -> dict[str, ShownPlace]:
        found = {}
        for pk, one in places_of(self.looked, estimated(self.looked, {}, self.now_s)).items():
            what = names[str(one.cause)] if isinstance(one.cause, UUID) else ""
            basis = basis_text(one.basis, what, is_ahead=str(one.cause) in self._queue)
            found[names[str(pk)]] = ShownPlace(
                one.position, one.position_all, one.starts_at, one.basis, basis, list(one.rules)
            )
        return found


def test_the_example_is_what_the_code_does(monkeypatch: pytest.MonkeyPatch) -> None:
    example, wrong = Example(), []
    rules = set(re.findall(r"^\| ([^|]+?) \|", PAGE.read_text(), re.MULTILINE))
    for clock, rule, what, says in items():
        assert rule in rules, "it is a row of the table"
        for _ in example.until(clock):
            example.look()
        example.happens(what)
        follows = example.follows(monkeypatch)
        if follows != says:
            wrong.append(f"- **{clock}** {rule}: {what} → {follows}")
    assert not wrong, "\n".join(["", *wrong])
