"""The table of faults: which calls an operation makes, and what comes of it when one of them fails.

Nothing is listed by hand: a clean run of each operation is recorded, and each call of it is a row.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from zlib import crc32

from asgiref.sync import sync_to_async
from django.core.management import call_command

from tests.faults.fault import ALWAYS, SAID
from tests.faults.operations import Operation
from tests.faults.world import Call, FaultWorld

WITHIN_S = 30
REST_S = 3  # a picture must stay as it is for so long
MOST_CLEAN_S = 200
SOON_S = 5
PERMANENT_S = 15  # for how long what is refused for ever is watched

# A run tries one point of so many, spread over the table (1: all), each day another part of them.
EVERY = int(os.environ.get("HOMEPORT_FAULT_TABLE", "24"))
PART = int(os.environ.get("HOMEPORT_FAULT_PART") or datetime.now(UTC).toordinal()) % EVERY

tried: Counter[str] = Counter()  # kind of point -> how many, of this run of the tests
_cleans: dict[str, Clean] = {}  # operation's name -> its clean run


def place(text: str) -> int:
    """The place in the table of what this names: the same in each run."""
    return crc32(text.encode())


@dataclass(frozen=True)
class Point:
    """The nth call of a kind in an operation, and what happens to it."""

    call: Call
    nth: int
    point: str
    times: int = 1

    def __str__(self) -> str:
        verb, kind = self.call
        often = {1: "", ALWAYS: " for ever"}.get(self.times, f" {self.times} times")
        return f"{verb} {kind} {self.nth}: {self.point}{often}"


@dataclass(frozen=True)
class Clean:
    """A run that nothing disturbed."""

    calls: tuple[Call, ...]
    answered: frozenset[int]
    seconds: float
    picture: dict[str, Any]

    def rows(self, point: str) -> list[tuple[Call, int]]:
        """Each call that can meet such a fault, with its number among those of its kind."""
        seen: Counter[Call] = Counter()
        found = []
        for place, call in enumerate(self.calls):
            seen[call] += 1
            # What is refused anyway (it exists) has no reply that could be lost.
            if place in self.answered or point not in {"after", "lost"}:
                found.append((call, seen[call]))
        return found


def _flush() -> None:
    call_command("flush", verbosity=0, interactive=False)


class Table:
    """Runs operations, each in a world of its own."""

    def __init__(self, watch: Callable[[FaultWorld], None]) -> None:
        """`watch` makes the clock of a new world the one that everybody reads."""
        self._watch = watch

    @asynccontextmanager
    async def world(self, *, relayed: bool = False) -> AsyncIterator[FaultWorld]:
        await sync_to_async(_flush)()
        made = FaultWorld()
        self._watch(made)
        await made.open(relayed=relayed)
        try:
            yield made
        finally:
            await made.shut()

    async def clean(self, operation: Operation) -> Clean:
        """The operation without a fault, recorded once for all tests.

        Raises:
            AssertionError: it does not come to its end.
        """
        if operation.name not in _cleans:
            _cleans[operation.name] = await self._record(operation)
        return _cleans[operation.name]

    async def _record(self, operation: Operation) -> Clean:
        async with self.world() as world:
            await operation.prepare(world)
            world.record()
            began_s = world.sim.seconds
            await operation.act(world)
            await world.wait(lambda: operation.is_done(world), operation.name, most_s=MOST_CLEAN_S)
            seconds = world.sim.seconds - began_s
            await world.rest(REST_S)
            calls, answered = tuple(world.recorded), frozenset(world.answered)
            return Clean(calls, answered, seconds, await world.picture())

    async def strike(
        self, operation: Operation, clean: Clean, point: Point, *, relayed: bool = False
    ) -> None:
        """One run with a fault, which must come out as the clean one did.

        Args:
            operation: what is asked for.
            clean: how it comes out.
            point: where the fault strikes.
            relayed: the fault is one of the answers that come over HTTP.

        Raises:
            AssertionError: it does not, or not in time; the text tells where and how.
        """
        async with self.world(relayed=relayed) as world:
            await self._prepare(world, operation, point)
            if point.times == ALWAYS:
                await self._stays(world, operation, point)
            if point.point == "422" and operation.ends_by_422 and await _has_failed(world):
                await self._ends_in_words(world, point)
            else:
                await self._converges(world, operation, clean, point)
            _claims_stay(world, point)
            if world.sim.box.relay is not None:
                assert world.sim.box.relay.met, f"{point} was ordered and never answered"
        kind = (
            "over HTTP"
            if relayed
            else "once"
            if point.times == 1
            else "for ever"
            if point.times == ALWAYS
            else "repeated"
        )
        tried[kind] += 1

    async def _prepare(self, world: FaultWorld, operation: Operation, point: Point) -> None:
        await operation.prepare(world)
        world.record()
        world.before = world.claims()
        world.began_s = world.sim.seconds
        await operation.act(world)
        world.arm(point.call, point.nth, point.point, point.times)

    async def _stays(self, world: FaultWorld, operation: Operation, point: Point) -> None:
        """Refused for ever: people are told, others are served; then it heals."""

        async def has_struck() -> bool:
            return world.fault is not None and world.fault.struck > 0

        await world.wait(has_struck, f"{point} strikes", most_s=MOST_CLEAN_S)
        has_bob = world.sim.box.has_room  # else nobody is placed, him included
        if has_bob:
            await world.submit(owner="bob", name="bobs")
        await world.rest(PERMANENT_S)
        if has_bob:
            assert await world.has_run("bobs"), f"{point}: Bob waits\n{await world.tell()}"
        if not operation.is_hidden:
            words = await world.words()
            assert SAID in words, f"{point}: nobody is told\n{words}\n{await world.tell()}"
        if has_bob:
            await world.drop("bobs")
        world.heal()

    async def _converges(
        self, world: FaultWorld, operation: Operation, clean: Clean, point: Point
    ) -> None:
        steady, starts = 0, world.starts
        while steady < REST_S:
            is_right = await operation.is_done(world) and await world.picture() == clean.picture
            steady = steady + 1 if is_right else 0
            timer_s = operation.timer_s if world.starts > starts else 0.0
            due_s = max(world.began_s + clean.seconds, world.struck_at + timer_s)
            limit_s = due_s + WITHIN_S + REST_S
            if not is_right and world.sim.seconds > limit_s:
                raise AssertionError(await _difference(world, clean, point))
            await world.round()
        assert world.fault is None or world.fault.struck, f"{point} was never met"

    async def _ends_in_words(self, world: FaultWorld, point: Point) -> None:
        """The cluster will never take it: said why, and nothing is left half made."""
        assert SAID in await world.words(), f"{point}: nobody is told\n{await world.tell()}"
        world.heal()

        async def is_clean() -> bool:
            return not world.sim.live_things()

        await world.wait(is_clean, f"{point}: nothing half made is left", most_s=WITHIN_S)


async def _has_failed(world: FaultWorld) -> bool:
    """Whether what was asked for ends as failed by the fault, soon after that."""
    for _ in range(MOST_CLEAN_S):
        if await world.has_failed(SAID):
            return True
        has_struck = world.struck_at > 0  # though it may be healed by now
        if has_struck and world.sim.seconds > world.struck_at + SOON_S:
            return False
        await world.round()
    return False


def _claims_stay(world: FaultWorld, point: Point) -> None:
    now = world.claims()
    for name, uid in world.before.items():
        assert now.get(name) == uid, f"{point}: the claim {name} is gone or another one"


async def _difference(world: FaultWorld, clean: Clean, point: Point) -> str:
    picture = await world.picture()
    lines = [f"{point}: not as without a fault after {world.sim.seconds - world.began_s:.0f} s"]
    for part, wanted in clean.picture.items():
        found = picture[part]
        if found == wanted:
            continue
        if isinstance(wanted, list):
            lines += [f"  missing: {line}" for line in wanted if line not in found]
            lines += [f"  too much: {line}" for line in found if line not in wanted]
        else:
            lines.append(f"  {part}: {found}, not {wanted}")
    return "\n".join([*lines, f"  calls: {world.recorded}", f"  words: {await world.words()}"])
