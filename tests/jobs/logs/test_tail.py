"""One follow for all: cut, silent, restarted, ended, and never a line lost or twice."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jobs.logs import hub as hub_module
from jobs.logs import tail as tail_module
from jobs.logs.cursor import Position
from jobs.logs.hub import Hub
from jobs.logs.lines import Batch
from jobs.logs.tail import Key, Tail
from tests.jobs.logs.fakes import FakeLog, Recorder, stamp, texts, until

KEY = Key("u-alice", "m-abc123-worker-0", "main")


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail_module, "RETRY_FIRST_S", 0.0005)
    monkeypatch.setattr(tail_module, "RETRY_MOST_S", 0.001)


async def follow(log: FakeLog, start: Position | None = None) -> Recorder:
    """Follows to the end."""
    tail, recorder = Tail(log, KEY, start), Recorder()
    tail.add(recorder)
    async with asyncio.timeout(10):
        await tail.run()
    return recorder


def a_log() -> tuple[FakeLog, list[str]]:
    """Lines of one nanosecond, of one second, of many; in two languages."""
    log = FakeLog()
    log.lines(b"a", b"b", b"c", at=10**9, step=0)
    log.lines(b"d", "日本".encode(), b"", at=10**9 + 1)
    log.lines(b"f", b"f", at=10**9 + 3, step=0)
    log.lines(b"\x1b[1mg\x1b[m", b"10%\r20%", at=3 * 10**9, step=5 * 10**8)
    log.write(stamp(7 * 10**9) + b" end without a line break")
    log.end()
    return log, [
        "a",
        "b",
        "c",
        "d",
        "日本",
        "",
        "f",
        "f",
        "\x1b[1mg\x1b[m",
        "20%",
        "end without a line break",
    ]


@pytest.mark.parametrize("how", ["error", "end"])
async def test_a_connection_cut_at_any_byte_loses_and_doubles_nothing(
    quick: None, how: str
) -> None:
    size = len(a_log()[0].data)
    for cut in range(size + 1):
        log, expected = a_log()
        log.cuts = [(cut, how)]
        if how == "end":
            log.is_running = True  # the container goes on, only the follow ended
            asyncio.get_running_loop().call_later(0.002, log.end)
        recorder = await follow(log)
        assert recorder.texts == expected, cut
        assert recorder.outcome == "over"


async def test_many_cuts_in_a_row_lose_and_double_nothing(quick: None) -> None:
    for size in (1, 7, 40, 41, 42, 100):
        log, expected = a_log()
        # Each connection gets a little further than the second that it begins with.
        log.cuts = [(200 + size * number, "error") for number in range(12)]
        log.piece_bytes = size
        assert (await follow(log)).texts == expected


async def test_a_silent_follow_is_opened_again(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "SILENCE_S", 0.05)
    log, expected = a_log()
    log.cuts = [(100, "silent"), (150, "silent")]
    assert (await follow(log)).texts == expected
    assert len(log.opened) >= 3


async def test_lines_come_at_once_when_they_are_few(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "FLUSH_S", 3600)
    log = FakeLog()
    recorder, tail = Recorder(), Tail(log, KEY, None)
    tail.add(recorder)
    task = asyncio.create_task(tail.run())
    for number in range(5):
        tail._flushed_at = float("-inf")  # the last batch was long ago
        log.lines(b"%d" % number, at=number)
        await until(lambda number=number: len(recorder.batches) == number + 1)
    log.end()
    await task


async def test_lines_come_together_when_they_are_many(quick: None) -> None:
    log = FakeLog()
    recorder, tail = Recorder(), Tail(log, KEY, None)
    tail.add(recorder)
    task = asyncio.create_task(tail.run())
    started = time.monotonic()
    for number in range(300):
        log.lines(b"%d" % number, at=number)
        await asyncio.sleep(0.001)
    log.end()
    await task
    elapsed = time.monotonic() - started
    assert recorder.texts == [str(number) for number in range(300)]
    assert len(recorder.batches) <= elapsed / tail_module.FLUSH_S + 4


async def test_the_ring_keeps_the_newest_megabyte_and_knows_where_it_begins(quick: None) -> None:
    log = FakeLog()
    for number in range(300):
        log.write(b"".join(stamp(number * 100 + k) + b" " + b"x" * 80 + b"\n" for k in range(100)))
    log.end()
    tail, recorder = Tail(log, KEY, Position(0, 0)), Recorder()
    tail.add(recorder)
    await tail.run()
    assert len(recorder.texts) == 30_000
    ring = tail.ring()
    assert (
        tail_module.RING_BYTES * 0.8 < sum(batch.size for batch in ring) <= tail_module.RING_BYTES
    )
    before = recorder.batches[recorder.batches.index(ring[0]) - 1]
    assert tail.start == before.last


async def test_only_the_newest_lines_of_an_unseen_log_are_asked_for(quick: None) -> None:
    log = FakeLog()
    log.lines(*(b"%d" % number for number in range(1500)))
    log.end()
    recorder = await follow(log)
    assert recorder.texts == [str(number) for number in range(500, 1500)]
    assert [one for one in log.opened if one["follow"]] == [
        {"follow": True, "tail_lines": 1000, "since_time": None}
    ]


async def test_a_container_that_has_not_started_is_waited_for(quick: None) -> None:
    log, expected = a_log()
    log.is_running, log.has_started = True, False

    def start() -> None:
        log.has_started = True
        log.end()

    asyncio.get_running_loop().call_later(0.02, start)
    assert (await follow(log)).texts == expected


async def test_a_pod_that_is_gone_or_never_started_ends_the_tail(quick: None) -> None:
    log = FakeLog()
    log.has_started, log.phase = False, "Failed"
    assert (await follow(log)).outcome == "over"
    log.exists = False
    assert (await follow(log)).outcome == "gone"
    log = FakeLog()
    log.lines(b"a")
    log.cuts = [(len(log.data), "end")]
    asyncio.get_running_loop().call_later(0.01, log.vanish)
    recorder = await follow(log)
    assert (recorder.texts, recorder.outcome) == (["a"], "gone")


async def test_a_log_that_our_account_may_not_read_is_warned_of_once(
    quick: None, caplog: pytest.LogCaptureFixture
) -> None:
    log, expected = a_log()
    log.cuts = [(0, "forbidden")] * 3
    assert (await follow(log)).texts == expected
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [f"the log of {KEY.pod} cannot be read: web cannot get pods/log"]


async def test_a_container_that_is_started_again_in_its_pod_is_followed_on(quick: None) -> None:
    log = FakeLog()
    log.restart_policy = "Always"
    log.lines(b"first", at=1)
    log.end()
    tail, recorder = Tail(log, KEY, None), Recorder()
    tail.add(recorder)
    task = asyncio.create_task(tail.run())
    await until(lambda: log.gets > 2)
    log.data.clear()  # the kubelet shows the log of the new container
    log.is_running = True
    log.lines(b"second", at=2 * 10**9)
    await until(lambda: recorder.texts == ["first", "second"])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert recorder.outcome == "gone"


async def test_watchers_that_keep_up_are_waited_for_and_others_are_not(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tail_module, "PACE_S", 0.05)
    log = FakeLog()
    log.lines(*(b"x" * 1000 for _ in range(2000)))
    log.piece_bytes = 65536
    log.end()
    tail = Tail(log, KEY, Position(0, 0))
    quick_one, stuck = Recorder(), Recorder()
    stuck.wants_pause = True

    def give_up() -> None:
        stuck.gave_up += 1
        stuck.wants_pause = False

    stuck.give_up_pause = give_up  # type: ignore[method-assign]
    tail.add(quick_one)
    tail.add(stuck)
    started = time.monotonic()
    await tail.run()
    assert stuck.gave_up == 1
    assert time.monotonic() - started >= 0.05
    assert len(quick_one.texts) == 2000


# --- the hub --------------------------------------------------------------------------------------


@asynccontextmanager
async def a_hub(log: FakeLog) -> AsyncIterator[Hub]:
    hub = Hub(log)
    try:
        yield hub
    finally:
        await hub.close()


async def test_the_last_to_leave_ends_the_follow_after_a_while(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert hub_module.LINGER_S <= 10
    monkeypatch.setattr(hub_module, "LINGER_S", 0.1)
    log = FakeLog()
    async with a_hub(log) as hub:
        one, two = Recorder(), Recorder()
        tail = hub.join(KEY, one, None)
        assert hub.join(KEY, two, None) is tail
        await until(lambda: log.open_count == 1)
        hub.leave(KEY, tail, one)
        await asyncio.sleep(0.15)
        assert log.open_count == 1
        hub.leave(KEY, tail, two)
        three = Recorder()
        assert hub.join(KEY, three, None) is tail  # came back in time
        await asyncio.sleep(0.15)
        assert log.open_count == 1
        hub.leave(KEY, tail, three)
        await until(lambda: log.open_count == hub.tail_count == 0)
        assert hub.join(KEY, one, None) is not tail


async def test_an_ended_tail_is_not_joined(quick: None) -> None:
    log, expected = a_log()
    async with a_hub(log) as hub:
        one, two = Recorder(), Recorder()
        tail = hub.join(KEY, one, None)
        await until(lambda: one.outcome == "over")
        assert hub.join(KEY, two, None) is not tail
        await until(lambda: two.outcome == "over")
        assert one.texts == two.texts == expected


async def test_history_is_what_lies_between_two_lines(quick: None) -> None:
    log, expected = a_log()
    positions: list[Any] = [None]
    for number in range(1, len(expected) + 1):
        partial = FakeLog()
        partial.write(b"".join(line + b"\n" for line in log.data.split(b"\n")[:number]))
        partial.end()
        positions.append((await follow(partial)).batches[-1].last)
    async with a_hub(log) as hub:
        for first in range(len(positions)):
            for last in range(max(first, 1), len(positions)):
                found: list[Batch] = [
                    batch async for batch in hub.history(KEY, positions[first], positions[last])
                ]
                assert texts(found) == expected[first : last - 1]
