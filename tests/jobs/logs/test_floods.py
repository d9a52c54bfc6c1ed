"""Floods: what the runner left out counts as left out, and nobody is waited for once we are late."""

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.logs.cursor import ArchivedPlace, Position
from jobs.logs.lines import Batch, LineReader
from jobs.logs.tail import LATE_S, Key, Tail
from jobs.logs.viewer import Viewer
from jobs.pod.protocol.notices import gap_line
from tenants import sockets
from tests.jobs.logs.fakes import FakeLog, Recorder, stamp, until

KEY = Key("u-alice", "m-abc123-worker-0", "main")


def batch_of(*texts: bytes) -> Batch:
    reader = LineReader()
    reader.feed(b"".join(stamp(n) + b" " + text + b"\n" for n, text in enumerate(texts)))
    (batch,) = reader.take()
    return batch


@given(st.lists(st.one_of(st.none(), st.integers(1, 10**9)), min_size=1, max_size=20))
def test_a_batch_stands_for_its_lines_and_for_those_left_out(gaps: list[int | None]) -> None:
    texts = [b"a line" if gap is None else gap_line(gap).rstrip(b"\n") for gap in gaps]
    batch = batch_of(*texts)
    assert batch.count == len(gaps)
    assert batch.stands_for == sum(1 if gap is None else gap for gap in gaps)


def test_a_program_that_only_talks_about_gaps_is_shown_as_it_is() -> None:
    batch = batch_of(b"see [homeport] 5 lines were skipped here", b"[homeport] many lines")
    assert batch.stands_for == batch.count == 2


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 10**6))
def test_a_viewer_that_loses_the_line_about_a_gap_is_told_of_the_gap(gap: int) -> None:
    async def send(_text: str) -> None:
        await asyncio.Event().wait()

    viewer = Viewer(send, {})
    viewer.put_batch("worker-0", batch_of(gap_line(gap).rstrip(b"\n")), ArchivedPlace(1, 0))
    for _ in range(10):
        viewer.put_batch("worker-0", batch_of(b"x" * 60_000), ArchivedPlace(1, 0))
    queued = sum(1 for item in viewer._items)
    assert viewer._skipped["worker-0"] == gap + 10 - queued


async def _pauses(age_s: list[float]) -> int:
    """How often a tail waits for a watcher when batches are of these ages."""
    tail, watcher = Tail(FakeLog(), KEY, None), Recorder()
    watcher.wants_pause = True  # it keeps up, but has enough for the moment
    tail.add(watcher)
    waited, wait = 0, tail._drained.wait

    async def counted() -> bool:
        nonlocal waited
        waited += 1
        return await wait()

    tail._drained.wait = counted  # type: ignore[method-assign]
    for age in age_s:
        tail._last = Position(int((time.time() - age) * 1e9), 1)
        await tail._pace()
    return waited


async def test_watchers_are_waited_for_while_lines_come_as_early_as_before() -> None:
    assert await _pauses([0.0, 0.1, 0.2]) == 3
    # An old log that is read now, and a node whose clock is wrong.
    assert await _pauses([9000.0, 8000.0, 7000.0]) == 3
    assert await _pauses([-500.0, -500.0, -499.5]) == 3


async def test_nobody_is_waited_for_once_lines_come_late() -> None:
    assert await _pauses([0.0, LATE_S + 0.5, LATE_S + 0.5]) == 1
    assert await _pauses([-500.0, -500.0 + LATE_S + 0.5]) == 1


class _Transport:
    is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True


class _ClosedByKeepalive:
    """uvicorn's protocol after its own keepalive has sent a close frame to a full buffer."""

    def __init__(self) -> None:
        self.transport = _Transport()

    def resume_writing(self) -> None:
        pass

    async def send(self, message: dict[str, Any]) -> None:
        raise RuntimeError(f"Unexpected ASGI message {message['type']!r}")


async def test_a_stuck_viewer_that_the_server_closed_first_is_let_go_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sockets, "ABORT_S", 0.01)
    protocol, socket = _ClosedByKeepalive(), sockets.UserSocket()
    socket.base_send = protocol.send
    await socket.give_up()
    await until(lambda: protocol.transport.is_aborted)
