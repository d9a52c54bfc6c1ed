"""The queue in front of a websocket: bounded, exact about what it drops."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.logs.cursor import ArchivedPlace, LivePlace, Place, Position, read
from jobs.logs.lines import Batch, Line, encode
from jobs.logs.source import NextStep, Shown, choose
from jobs.logs.state import ReplicaLogState
from jobs.logs.viewer import QUEUE_BYTES, Viewer
from jobs.rules.archives import Run


def batch(count: int, size: int = 100, at: int = 1) -> Batch:
    lines = [Line("", "x" * size)] * count
    return Batch(encode(lines), count, Position(at, 1), Position(at, count), "")


def place(at: int) -> Place:
    return LivePlace(1, Position(at, 1))


class Wire:
    """What a websocket was given; `open` lets it through."""

    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []
        self.open = asyncio.Event()
        self.open.set()

    async def send(self, text: str) -> None:
        await self.open.wait()
        self.frames.append(json.loads(text))

    @property
    def line_count(self) -> int:
        return sum(len(frame["lines"]) for frame in self.frames if frame["type"] == "lines")

    @property
    def skipped(self) -> int:
        return sum(frame["count"] for frame in self.frames if frame["type"] == "skipped")


async def run_to_the_end(viewer: Viewer) -> None:
    viewer.close()
    async with asyncio.timeout(5):
        await viewer.run()


async def test_frames_come_in_order_with_a_cursor_over_all_replicas() -> None:
    wire = Wire()
    viewer = Viewer(wire.send, {"ps-0": ArchivedPlace(1, 7)})
    viewer.put(type="state", replica="", state="running", reason="")
    viewer.put_batch("worker-0", batch(2), place(5))
    viewer.put_batch("ps-0", batch(1), ArchivedPlace(1, 9))
    viewer.put(type="end")
    await run_to_the_end(viewer)
    assert [frame["type"] for frame in wire.frames] == ["state", "lines", "lines", "end"]
    assert [len(frame.get("lines", ())) for frame in wire.frames] == [0, 2, 1, 0]
    assert read(wire.frames[1]["cursor"]) == {"ps-0": ArchivedPlace(1, 7), "worker-0": place(5)}
    assert read(wire.frames[2]["cursor"]) == {"ps-0": ArchivedPlace(1, 9), "worker-0": place(5)}
    assert wire.frames[1]["lines"][0] == {"t": "", "text": "x" * 100}


async def test_viewers_of_one_replica_share_their_frames() -> None:
    texts: list[str] = []

    async def keep(text: str) -> None:
        texts.append(text)

    shared = batch(3)
    for _ in range(2):
        viewer = Viewer(keep, {})
        viewer.put_batch("worker-0", shared, place(1))
        await run_to_the_end(viewer)
    assert texts[0] is texts[1]


async def test_a_slow_viewer_loses_the_oldest_lines_and_is_told_how_many() -> None:
    wire = Wire()
    viewer = Viewer(wire.send, {})
    for number in range(100):
        viewer.put_batch("worker-0", batch(100), place(number))
    viewer.put(type="state", replica="", state="running", reason="")
    assert viewer._queued_bytes <= QUEUE_BYTES
    await run_to_the_end(viewer)
    assert wire.frames[0] == {"type": "skipped", "replica": "worker-0", "count": wire.skipped}
    assert wire.skipped + wire.line_count == 100 * 100
    assert read(wire.frames[-2]["cursor"]) == {"worker-0": place(99)}
    assert wire.frames[-1]["type"] == "state"


async def test_how_far_a_line_has_come_is_no_line_that_is_skipped() -> None:
    wire = Wire()
    viewer = Viewer(wire.send, {})
    bar = Batch(encode([Line("", "5%")]), 1, Position(1, 1), Position(1, 1), "", is_unfinished=True)
    viewer.put_batch("worker-1", bar, place(1))
    for number in range(100):
        viewer.put_batch("worker-0", batch(100), place(number))
    await run_to_the_end(viewer)
    assert {frame["replica"] for frame in wire.frames if frame["type"] == "skipped"} == {"worker-0"}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 900), st.booleans()), max_size=60))
def test_sent_and_skipped_lines_always_add_up(steps: list[tuple[str, int, bool]]) -> None:
    async def main() -> None:
        wire = Wire()
        viewer = Viewer(wire.send, {})
        task = asyncio.create_task(viewer.run())
        sums: dict[str, int] = {}
        for number, (replica, count, reads) in enumerate(steps):
            name = f"{replica}-0"
            viewer.put_batch(name, batch(count), place(number))
            viewer.put(type="state", replica=name, state=str(number), reason="")
            sums[name] = sums.get(name, 0) + count
            assert viewer._queued_bytes <= QUEUE_BYTES + 200_000
            (wire.open.set if reads else wire.open.clear)()
            await asyncio.sleep(0)
        wire.open.set()
        viewer.close()
        await asyncio.wait_for(task, 5)
        for name, total in sums.items():
            own = [frame for frame in wire.frames if frame["replica"] == name]
            places = [read(frame["cursor"])[name] for frame in own if frame["type"] == "lines"]
            assert places == sorted(places, key=lambda at: at.position.time_ns)
            sent = sum(len(frame.get("lines", ())) for frame in own)
            assert sent + sum(frame.get("count", 0) for frame in own) == total
        states = [frame["state"] for frame in wire.frames if frame["type"] == "state"]
        assert states == [str(number) for number in range(len(steps))]

    asyncio.run(main())


async def test_those_who_can_wait_are_told_when_there_is_room() -> None:
    wire = Wire()
    wire.open.clear()
    viewer = Viewer(wire.send, {})
    told: list[int] = []
    viewer.on_room.add(lambda: told.append(1))
    task = asyncio.create_task(viewer.run())
    for number in range(14):
        viewer.put_batch("worker-0", batch(100), place(number))
    await asyncio.sleep(0)
    assert viewer.wants_pause
    waiting = asyncio.create_task(viewer.room())
    await asyncio.sleep(0.01)
    assert not waiting.done()
    wire.open.set()
    await asyncio.wait_for(waiting, 1)
    assert told == [1]
    assert not viewer.is_slow
    viewer.close()
    await task
    assert wire.skipped == 0


async def test_of_many_who_wait_each_puts_when_there_is_room_and_no_line_is_lost() -> None:
    wire = Wire()

    async def send_slowly(text: str) -> None:
        await asyncio.sleep(0.001)
        await wire.send(text)

    viewer = Viewer(send_slowly, {})

    async def put(replica: str) -> None:
        for number in range(4):
            await viewer.room()
            viewer.put_batch(replica, batch(900), place(number))

    running = asyncio.create_task(viewer.run())
    async with asyncio.timeout(5):
        await asyncio.gather(*(put(f"worker-{index}") for index in range(5)))
        viewer.close()
        await running
    assert (wire.line_count, wire.skipped) == (20 * 900, 0)


async def test_there_is_room_again_once_lines_were_dropped() -> None:
    viewer = Viewer(Wire().send, {})
    for count in (1300, 500, 500):
        viewer.put_batch("worker-0", batch(count), place(1))
    assert viewer.is_slow
    await asyncio.wait_for(viewer.room(), 1)


async def test_a_viewer_that_lost_lines_does_not_slow_others_until_it_caught_up() -> None:
    wire = Wire()
    wire.open.clear()
    viewer = Viewer(wire.send, {})
    task = asyncio.create_task(viewer.run())
    for number in range(60):
        viewer.put_batch("worker-0", batch(100), place(number))
    assert viewer.is_slow
    assert not viewer.wants_pause
    wire.open.set()
    while viewer.is_slow:
        await asyncio.sleep(0.001)
    viewer.close()
    await task


# --- where lines come from ------------------------------------------------------------------------


def seen(**changes: Any) -> ReplicaLogState:
    fields: dict[str, Any] = {
        "name": "worker-0",
        "role": "worker",
        "index": 0,
        "attempt": 1,
        "pod": "pod",
        "pod_id": "uid",
        "state": "running",
        "reason": "",
        "has_archive": False,
        "is_archived": False,
        **changes,
    }
    return ReplicaLogState(**fields)


NEW = Shown(None, None, None)
OVER = Shown(LivePlace(1, Position(1, 1)), ("uid", "over"), None)
GONE = Shown(LivePlace(1, Position(1, 1)), ("uid", "gone"), None)
READ = Shown(ArchivedPlace(1, 5), None, (1, Run()))
WATCHING = Shown(LivePlace(1, Position(1, 1)), None, None)
AGAIN = Run("uid", 1)  # its container has started again
FULL = {"has_archive": True, "is_archived": True}
ENDED = {"state": "succeeded"}


@pytest.mark.parametrize(
    ("replica", "shown", "job_is_final", "job_is_cleaned", "step"),
    [
        (seen(pod="", state="pending"), NEW, False, False, NextStep.WAIT),
        (seen(state="starting"), NEW, False, False, NextStep.WAIT),
        (seen(), NEW, False, False, NextStep.FOLLOW),
        (seen(), WATCHING, False, False, NextStep.FOLLOW),
        (seen(**ENDED), NEW, False, False, NextStep.FOLLOW),
        (seen(**ENDED, **FULL), NEW, False, False, NextStep.READ),
        (seen(**ENDED, **FULL), WATCHING, False, False, NextStep.FOLLOW),
        (seen(**ENDED, **FULL), OVER, False, False, NextStep.WAIT),
        (seen(**ENDED, **FULL), OVER, True, False, NextStep.DONE),
        (seen(), OVER, True, False, NextStep.DONE),
        (seen(**ENDED), GONE, True, False, NextStep.WAIT),
        (seen(**ENDED, has_archive=True), GONE, True, False, NextStep.READ),
        (seen(**ENDED, **FULL), GONE, True, False, NextStep.READ),
        (seen(**ENDED, **FULL), READ, True, False, NextStep.DONE),
        (seen(**ENDED, **FULL), READ, False, False, NextStep.WAIT),
        (seen(run=AGAIN), READ, False, False, NextStep.FOLLOW),
        (seen(run=AGAIN, has_archive=True), NEW, False, False, NextStep.FOLLOW),
        (seen(run=AGAIN, **FULL), NEW, False, False, NextStep.READ),
        (seen(run=AGAIN, **FULL), WATCHING, False, False, NextStep.FOLLOW),
        (seen(attempt=2, pod_id="other"), READ, False, False, NextStep.FOLLOW),
        (seen(pod_id="other"), OVER, False, False, NextStep.FOLLOW),
        (seen(pod_id="other", state="starting"), GONE, False, False, NextStep.WAIT),
        (seen(**ENDED), GONE, True, True, NextStep.DONE),
        (seen(**ENDED, has_archive=True), Shown(None, None, (1, Run())), True, True, NextStep.DONE),
        (seen(pod="", state="pending"), NEW, True, False, NextStep.DONE),
        (seen(pod="", state="stopped"), NEW, True, True, NextStep.DONE),
        (seen(pod="", state="stopped", **FULL), NEW, True, True, NextStep.READ),
        (seen(is_past=True, **FULL), NEW, False, False, NextStep.READ),
        (seen(is_past=True, has_archive=True), GONE, False, False, NextStep.READ),
        (seen(is_past=True, may_be_archived=True), NEW, True, False, NextStep.WAIT),
        (seen(is_past=True), NEW, False, False, NextStep.DONE),
        (seen(is_past=True, **FULL), OVER, False, False, NextStep.DONE),
        (seen(is_past=True, **FULL), READ, False, False, NextStep.DONE),
    ],
)
def test_the_next_lines_come_from_where_they_are(
    replica: ReplicaLogState, shown: Shown, job_is_final: bool, job_is_cleaned: bool, step: NextStep
) -> None:
    found = choose(replica, shown, job_is_final=job_is_final, job_is_cleaned=job_is_cleaned)
    assert found is step
