"""The order in which a queue of 0d1432e starts, before and after the upgrade: each difference has its rule.

0d1432e writes fifty queued workloads of five namespaces, its database is upgraded, and the same ends are played through its
own `decide` and through today's look with its defaults. At each look both are asked of the same state. What only one of them
starts must be explained by a rule: with that rule switched off, both say the same of it.
"""

import heapq
import json
import os
import pickle
import random
import subprocess
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from jobs.engine.admission import RULES
from jobs.rules.amounts import Amount, NodeCapacity, total_of
from jobs.rules.queue.look import (
    Queued,
    QueueSnapshot,
    QuotaHeadroom,
    amount_of,
    look,
    size_of,
)
from jobs.rules.queue.state import Reservation, RunningWorkload
from jobs.rules.queue.times import seconds_of
from tests.upgrade.old import FIRST, Old
from tests.upgrade.test_dump import run

pytestmark = pytest.mark.e2e

NOW = datetime(2026, 11, 26, 12, tzinfo=UTC)
GIB = 2**30
WHOLE = Amount(64_000, 512 * GIB, 8, 110)
NODES = 5
# GPUs of the quota of each namespace; those of the first two are not enough for all that they have queued.
QUOTAS = {"maps": 4, "vision": 12, "speech": 24, "nlp": 40, "robots": 40}
AGING, RESERVATION, OVERTAKING = "aging", "reservation", "overtaking within a namespace"


def asked() -> list[dict[str, Any]]:
    """Fifty, the oldest first: mixed sizes, two as large as a node, a notebook, one over its whole quota."""
    dice = random.Random(15)
    found = []
    for number in range(50):
        gpus, workers = dice.choice([1, 1, 1, 2, 2, 4]), dice.choice([1, 1, 1, 2, 3])
        namespace, kind = dice.choice(list(QUOTAS)), "training"
        if number in (9, 23):
            namespace, gpus, workers = ("nlp", "robots")[number == 23], 8, 1
        if number == 12:
            kind, gpus, workers = "notebook", 1, 1
        if number == 15:
            namespace, gpus, workers = "maps", 3, 2
        replicas = {"worker": _asks(workers, 4_000 * gpus, 32 * gpus, gpus)}
        if kind == "training" and dice.random() < 0.3:
            replicas["ps"] = _asks(1, 2_000, 8, 0)
        runs_s = dice.randrange(1_200, 18_000)
        quota = {"pods": 100, "nodeports": 20, "gpu_count": QUOTAS[namespace]}
        found.append(
            {
                "name": f"{namespace}-{number}",
                "kind": kind,
                "namespace": namespace,
                "quota": {**quota, "cpu_millicores": 400_000, "memory_bytes": 4096 * GIB},
                "replicas": replicas,
                "queued_at": (NOW - timedelta(seconds=300 * (50 - number))).isoformat(),
                "deadline_s": int(runs_s * 1.5) if kind == "training" and number % 3 else None,
                "runs_s": runs_s,
            }
        )
    return found


def _asks(count: int, cpu: int, gib: int, gpus: int) -> dict[str, int]:
    return {
        "count": count,
        "cpu_millicores": cpu,
        "memory_bytes": gib * GIB,
        "gpu_count": gpus,
    }


@dataclass
class Upgraded:
    """The workloads, as 0d1432e knows them in a process of its own, and as today's code reads them."""

    process: subprocess.Popen[str]
    asked: dict[str, dict[str, Any]]
    queued: dict[str, Queued]

    def before(self, played: "Played") -> dict[str, tuple[str, str, dict[str, Amount]]]:
        """0d1432e's answer: by workload kind, code, and the room that it takes."""
        told = {
            "now": played.now.isoformat(),
            "queue": list(played.waiting),
            "nodes": {name: (_list(WHOLE), _list(free)) for name, free in played.free.items()},
            "tenants": {
                pk: (_list(one.hard), _list(one.left)) for pk, one in played.tenants().items()
            },
        }
        rows = _ask(self.process, told)
        return {
            pk: (kind, code, {name: Amount(*taken) for name, taken in room.items()})
            for pk, kind, code, room in rows
        }


def _list(amount: Amount | None) -> list[int]:
    assert amount is not None
    return [amount.cpu, amount.memory, amount.gpu, amount.pods, amount.nodeports]


def _ask(process: subprocess.Popen[str], told: Any) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(told) + "\n")
    process.stdin.flush()
    line = process.stdout.readline()
    assert line, "0d1432e has ended"
    return json.loads(line)


READ = f"""
import django, pickle
django.setup()
from datetime import datetime
from jobs.engine.queue_rows import read_queue
queue = read_queue(datetime.fromisoformat("{NOW.isoformat()}"))
print(pickle.dumps(queue.queued).hex())
"""


@contextmanager
def upgraded(old: Old, home: Path) -> Iterator[Upgraded]:
    environment = {
        **{k: v for k, v in os.environ.items() if k not in ("DATABASE_URL", "TESTS_WITH_SERVERS")},
        "DJANGO_SETTINGS_MODULE": "portal.settings",
        "HOMEPORT_HOME": str(home),
    }
    script = str(Path(__file__).with_name("old_queue.py"))
    with subprocess.Popen(
        [old.python, script],
        cwd=old.checkout,
        env=environment,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            wanted = asked()
            ids = _ask(process, wanted)
            # It has read its rows when it has answered: from now on the database is today's.
            _ask(process, {"now": NOW.isoformat(), "queue": [], "nodes": {}, "tenants": {}})
            run(environment, "manage.py", "migrate", "-v", "0")
            queued = pickle.loads(bytes.fromhex(run(environment, "-c", READ).split()[-1]))
            assert len(queued) == len(ids) == 50
            by_id = {one.workload_id: one for one in queued}
            yield Upgraded(process, dict(zip(ids, wanted, strict=True)), by_id)
        finally:
            process.kill()


@dataclass
class Played:
    """The cluster on a virtual clock, the same for both: forty GPUs, nearly all of them taken at first."""

    upgraded: Upgraded
    now: datetime = NOW
    started: list[str] = field(default_factory=list)
    reservations: tuple[Reservation, ...] = ()

    def __post_init__(self) -> None:
        self.waiting = dict(self.upgraded.queued)
        self.free = {f"node{i}": WHOLE for i in range(NODES)}
        self.running: dict[str, RunningWorkload] = {}
        self.admitted: dict[str, list[tuple[datetime, Amount]]] = {}
        self.events: list[tuple[datetime, str]] = [(NOW, "")]
        self._tenant_of = {
            one["namespace"]: self.upgraded.queued[pk].tenant_id
            for pk, one in self.upgraded.asked.items()
        }
        names = list(QUOTAS)
        for number in range(2 * NODES):
            gpus = 4 if number % 2 else 3
            held = Amount(4_000 * gpus, 32 * gpus * GIB, gpus, 1)
            ends = NOW + timedelta(seconds=1_500 * (number + 1))
            ends_by = ends + timedelta(minutes=20) if number % 3 else None
            on = {f"node{number // 2}": held}
            tenant = self._tenant_of[names[1 + number % 4]]
            self._run(f"before{number}", tenant, on, held, ends, ends_by)

    def _run(
        self,
        pk: str,
        tenant_id: str,
        on: Mapping[str, Amount],
        held: Amount,
        ends: datetime,
        ends_by: datetime | None,
    ) -> None:
        for name, amount in on.items():
            self.free[name] -= amount
        room = tuple((name, size_of(amount)) for name, amount in on.items())
        self.running[pk] = RunningWorkload(
            pk, tenant_id, room, size_of(held), seconds_of(self.now), seconds_of(ends_by)
        )
        heapq.heappush(self.events, (ends, pk))

    def tenants(self) -> dict[str, QuotaHeadroom]:
        found = {}
        for name, gpus in QUOTAS.items():
            tenant_id = self._tenant_of[name]
            hard = Amount(400_000, 4096 * GIB, gpus, 100, 20)
            left = hard
            for one in self.running.values():
                if one.namespace == tenant_id:
                    left -= amount_of(one.total)
            found[tenant_id] = QuotaHeadroom(hard, left)
        return found

    def after(self, off: Collection[str] = (), behind: Collection[str] = ()) -> Any:
        """Today's look, without some of its rules.

        Args:
            behind: those that 0d1432e holds up behind one of their namespace, which may not overtake when that is off.
        """
        rules = RULES
        if AGING in off:
            rules = replace(rules, aging_s=10**9)
        if RESERVATION in off:
            rules = replace(rules, reserves=False)
        queue = [
            one
            for one in self.waiting.values()
            if OVERTAKING not in off or one.workload_id not in behind
        ]
        nodes = [NodeCapacity(name, WHOLE, free) for name, free in self.free.items()]
        snapshot = QueueSnapshot(
            queue,
            self.tenants(),
            nodes,
            tuple(self.running.values()),
            () if RESERVATION in off else self.reservations,
            admitted=self.admitted,
        )
        return look(snapshot, self.now, rules=rules)

    def start(self, pk: str, on: Mapping[str, Amount], ends_by: datetime | None) -> None:
        one = self.waiting.pop(pk)
        held = total_of(one.requests)
        ends = self.now + timedelta(seconds=self.upgraded.asked[pk]["runs_s"])
        self._run(pk, one.tenant_id, on, held, ends, ends_by)
        self.admitted.setdefault(one.tenant_id, []).append((self.now, held))
        self.started.append(pk)

    def go_on(self) -> bool:
        """To the next moment at which something ends or is due; False: there is none, or nobody waits."""
        if not self.events or not self.waiting:
            return False
        self.now = self.events[0][0]
        while self.events and self.events[0][0] == self.now:
            _, pk = heapq.heappop(self.events)
            if pk in self.running:
                for name, size in self.running.pop(pk).nodes:
                    self.free[name] += amount_of(size)
        return True


@dataclass
class Told:
    """What differed in one play: by workload the rules, and lines for people."""

    rules: dict[str, set[str]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)


def play(made: Upgraded, *, by_old: bool) -> tuple[Played, Told]:
    """To the end, as one of both decides; the other is asked of each state as well."""
    played, told = Played(made), Told()
    while played.go_on():
        is_over = False
        while not is_over:
            before, looked = made.before(played), played.after()
            _compare(played, before, looked, told)
            if by_old:
                now = [(pk, room) for pk, (kind, _, room) in before.items() if kind == "now"]
                for pk, room in now:
                    lasts_s = played.waiting[pk].lasts_s
                    lasts = None if lasts_s is None else timedelta(seconds=lasts_s)
                    played.start(pk, room, lasts and played.now + lasts)
                is_over = len(now) < 10
            else:
                starts = [one for one in looked.decisions if one.fit.kind == "now"]
                for one in starts:
                    played.start(one.queued.workload_id, one.nodes, one.ends_by)
                played.reservations = tuple(looked.reservations)
                if looked.look_at is not None and looked.look_at > played.now:
                    heapq.heappush(played.events, (looked.look_at, ""))
                is_over = len(starts) < 10
    return played, told


def _compare(played: Played, before: Mapping[str, Any], looked: Any, told: Told) -> None:
    def started(found: Any) -> set[str]:
        return {one.queued.workload_id for one in found.decisions if one.fit.kind == "now"}

    was = {pk for pk, (kind, _, _) in before.items() if kind == "now"}
    never = {one.queued.workload_id for one in looked.decisions if one.fit.kind == "never"}
    assert never >= {pk for pk, (kind, _, _) in before.items() if kind == "never"}
    now = started(looked)
    if was == now:
        return
    behind = {pk for pk, (_, code, _) in before.items() if code == "queue"}
    every = (AGING, RESERVATION, OVERTAKING)
    ways = [set(off) for count in (1, 2, 3) for off in combinations(every, count)]
    without = [(off, started(played.after(off, behind))) for off in ways]
    for pk in sorted(was ^ now, key=lambda pk: played.waiting[pk].queued_at):
        rules = next((off for off, found in without if (pk in found) == (pk in was)), None)
        name, verb = played.waiting[pk].name, "starts" if pk in now else "waits"
        assert rules is not None, f"{name} {verb} after the upgrade by no known rule"
        told.rules.setdefault(pk, set()).update(rules)
        hours = (played.now - NOW).total_seconds() / 3600
        told.lines.append(f"{hours:5.2f} h: {name:10} {verb:6} now: {', '.join(sorted(rules))}")


@pytest.mark.parametrize("old", [FIRST], ids=str, indirect=True)
def test_each_difference_in_the_order_of_starts_has_its_rule(old: Old, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with upgraded(old, home) as made:
        for pk, one in made.asked.items():
            assert made.queued[pk].name == one["name"]
        (old_play, old_told), (new_play, told) = (play(made, by_old=way) for way in (True, False))
    assert old_play.waiting.keys() == new_play.waiting.keys(), "who never starts"
    assert "maps-15" in {made.queued[pk].name for pk in new_play.waiting}
    print("\n".join(["asked of the same states, as the upgraded one plays:", *told.lines]))
    print("\n".join(["asked of the same states, as 0d1432e plays:", *old_told.lines]))
    print("place before -> after:")
    moved, rules = 0, set[str]()
    for place, pk in enumerate(new_play.started):
        was = old_play.started.index(pk)
        # Who is in another place without a rule of its own gave way to, or follows, those that have one.
        own = told.rules.get(pk, set()) | old_told.rules.get(pk, set())
        rules |= own
        if was != place:
            moved += 1
            assert own or rules, f"{made.queued[pk].name} has moved before any rule applied"
            print(
                f"{was + 1:3} -> {place + 1:3} {made.queued[pk].name:10} {', '.join(sorted(own)) or 'follows'}"
            )
    assert moved
    assert rules == {AGING, RESERVATION, OVERTAKING}, "each rule is seen"
