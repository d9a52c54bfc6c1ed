"""Reading logs: tail, since, limits, rotation while following, slow readers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onebox.node.inotify import FolderWatcher
from onebox.node.logfiles import drop_old_runs, tail_text
from onebox.node.logs import LogOptions, LogRun, read_log
from onebox.node.logserver import LogRefusedError, parse_options
from onebox.node.logwriter import LogWriter


@pytest.fixture
async def watcher():
    made = FolderWatcher()
    yield made
    made.close()


def run_of(path: Path, is_over: Callable[[], bool] = lambda: True) -> LogRun:
    return LogRun(path, is_over, asyncio.Event(), lambda: None)


def stamped(index: int, text: str, tag: str = "F") -> str:
    return f"2026-11-20T12:00:{index:02d}.000000000Z stdout {tag} {text}\n"


@pytest.fixture
def ten_lines(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    (tmp_path / "0.log.1").write_text("".join(stamped(i, f"line {i}") for i in range(6)))
    path.write_text("".join(stamped(i, f"line {i}") for i in range(6, 10)))
    return path


async def read(path: Path, watcher: FolderWatcher, **options) -> str:
    chunks = [chunk async for chunk in read_log(run_of(path), LogOptions(**options), watcher)]
    return b"".join(chunks).decode()


async def test_the_whole_log_goes_over_rotated_files(ten_lines: Path, watcher: FolderWatcher):
    text = await read(ten_lines, watcher)
    assert text.splitlines() == [f"line {i}" for i in range(10)]


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 9, 10, 50])
async def test_tail_counts_lines_back_over_rotated_files(
    ten_lines: Path, watcher: FolderWatcher, count: int
):
    text = await read(ten_lines, watcher, tail_lines=count)
    assert text.splitlines() == [f"line {i}" for i in range(10)][10 - min(count, 10) :]


@pytest.mark.parametrize("second", [0, 3, 6, 9, 10])
async def test_since_finds_its_place(ten_lines: Path, watcher: FolderWatcher, second: int):
    since = datetime(2026, 11, 20, 12, 0, second, tzinfo=UTC)
    text = await read(ten_lines, watcher, since=since)
    assert text.splitlines() == [f"line {i}" for i in range(second, 10)]


async def test_since_bisects_a_long_file(tmp_path: Path, watcher: FolderWatcher):
    path = tmp_path / "0.log"
    filler = "x" * 900
    path.write_text("".join(stamped(i // 100, f"{i} {filler}") for i in range(6000)))
    since = datetime(2026, 11, 20, 12, 0, 41, tzinfo=UTC)
    text = await read(path, watcher, since=since)
    assert text.splitlines()[0].split()[0] == "4100"


async def test_parts_of_a_long_line_are_joined(tmp_path: Path, watcher: FolderWatcher):
    path = tmp_path / "0.log"
    path.write_text(stamped(1, "a", "P") + stamped(2, "b", "P") + stamped(3, "c") + stamped(4, "d"))
    assert await read(path, watcher) == "abc\nd\n"
    assert await read(path, watcher, tail_lines=2) == "abc\nd\n"
    assert await read(path, watcher, tail_lines=1) == "d\n"
    first = (await read(path, watcher, timestamps=True)).splitlines()[0]
    assert first == "2026-11-20T12:00:01.000000000Z abc"


async def test_limit_bytes_cuts(ten_lines: Path, watcher: FolderWatcher):
    assert await read(ten_lines, watcher, limit_bytes=9) == "line 0\nli"


async def test_following_loses_no_line_over_many_rotations(tmp_path: Path, watcher: FolderWatcher):
    path = tmp_path / "0.log"
    writer = LogWriter(str(path), rotate_bytes=4000)
    over = False
    run = run_of(path, lambda: over)
    lines: list[bytes] = []

    async def follow() -> None:
        pending = b""
        async for chunk in read_log(run, LogOptions(follow=True), watcher):
            *whole, pending = (pending + chunk).split(b"\n")
            lines.extend(whole)

    reading = asyncio.create_task(follow())
    for index in range(600):
        writer.write("stdout", b"line %d\n" % index)
        if index % 20 == 0:
            await asyncio.sleep(0.003)
    writer.finish()
    over = True
    run.changed.set()
    async with asyncio.timeout(10):
        await reading
    assert lines == [b"line %d" % i for i in range(600)]


async def test_an_idle_follower_wakes_for_a_new_line_without_polling(
    tmp_path: Path, watcher: FolderWatcher
):
    path = tmp_path / "0.log"
    writer = LogWriter(str(path))
    stream = read_log(run_of(path, lambda: False), LogOptions(follow=True), watcher)
    loop = asyncio.get_running_loop()
    loop.call_later(0.2, lambda: writer.write("stdout", b"hello\n"))
    async with asyncio.timeout(5):
        assert await anext(stream) == b"hello\n"
    await stream.aclose()
    writer.finish()


def test_only_the_previous_run_is_kept(tmp_path: Path):
    for name in ("0.log", "0.log.1", "1.log", "2.log", "2.log.1"):
        (tmp_path / name).touch()
    drop_old_runs(tmp_path / "3.log")
    assert {p.name for p in tmp_path.iterdir()} == {"2.log", "2.log.1"}


def test_the_end_of_a_log_as_text(ten_lines: Path):
    assert tail_text(ten_lines, lines=2, size_bytes=100) == "line 8\nline 9\n"
    assert tail_text(ten_lines.parent / "absent.log", lines=2, size_bytes=100) == ""


def test_bad_parameters_are_named():
    with pytest.raises(LogRefusedError, match="tailLines"):
        parse_options({"tailLines": "-1"})
    with pytest.raises(LogRefusedError, match="sinceTime"):
        parse_options({"sinceTime": "yesterday"})
