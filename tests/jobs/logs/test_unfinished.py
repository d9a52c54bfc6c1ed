"""A line that has no end yet: a progress bar, a prompt, a line in two halves. It is seen as far as it has come."""

import json
import random
import threading
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from jobs.logs import tail, text
from jobs.logs.cursor import LivePlace, Place, Position
from jobs.logs.hub import get_hub
from jobs.logs.lines import Batch, LineReader, parse_time
from jobs.logs.rows import MAX_LINE_BYTES
from jobs.logs.sources import ReplicaSource
from jobs.pod.protocol.notices import UNFINISHED
from tests.jobs.logs.fakes import FakeLog, Recorder, stamp, texts, until
from tests.jobs.logs.served import LEFT_OUT, World, a_job, frame, lines
from tests.jobs.pod.pods import FakeDoor, Pod
from tests.tools.waiting import wait_for

BAR = """
import sys, time
for i in range(8):
    sys.stdout.write("\\rEpoch 1/3 %d/8" % i)
    sys.stdout.flush()
    time.sleep(0.4)
print()
sys.stdout.write("name? "); sys.stdout.flush(); time.sleep(1.6); print("ada")
print("whole")
"""
STATES = b"".join(b"\rEpoch 1/3 %d/8" % i for i in range(8))


def of_a_kubelet(output: bytes) -> bytes:
    """Whole lines behind their times."""
    rows = output.split(b"\n")[:-1]
    return b"".join(stamp(60 * 10**9 + n) + b" " + row + b"\n" for n, row in enumerate(rows))


@pytest.fixture
def printed(tmp_path: Any) -> Any:
    """What a runner writes to its own output of the bar."""
    door = FakeDoor()
    pod = Pod(tmp_path, door)
    pod.python(BAR)
    process = pod.start()
    assert process.stdout is not None
    seen = list(iter(process.stdout.readline, b""))
    process.wait(10)
    yield seen, door.log()
    pod.close()
    door.close()


def test_pieces_come_while_a_line_is_open_and_the_archive_has_the_bytes(printed: Any) -> None:
    rows, archive = printed
    output = b"".join(row for row in rows)
    assert archive == STATES + b"\nname? ada\nwhole\n"
    assert output.replace(UNFINISHED + b"\n", b"") == archive
    assert output.count(UNFINISHED) >= 2
    ends = [row.endswith(UNFINISHED + b"\n") for row in rows]
    assert ends[-1] is False, "a line that has ended is whole"


@pytest.mark.parametrize("piece_bytes", [1, 100_000])
def test_a_reader_shows_the_latest_state_and_then_the_line(piece_bytes: int) -> None:
    one = b"\r10%" + UNFINISHED + b"\n\r20%\r30%" + UNFINISHED + b"\n\r40%\nend\n"
    data = of_a_kubelet(one)
    reader, shown = LineReader(), []
    for at in range(0, len(data), piece_bytes):
        reader.feed(data[at : at + piece_bytes])
        for batch in reader.take():
            shown.append((batch.is_unfinished, batch.encoded))
    states = [encoded for is_open, encoded in shown if is_open]
    finished = "".join(encoded for is_open, encoded in shown if not is_open)
    if piece_bytes < 100_000:
        assert [("10%" in s, "30%" in s) for s in states] == [(True, False), (False, True)]
    assert "40%" in finished
    assert "10%" not in finished
    assert "homeport unfinished" not in finished + "".join(states)
    assert finished.count('"t"') == 2


@pytest.mark.django_db(transaction=True)
async def test_who_watches_sees_each_state_in_place_of_the_one_before(world: World) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    first = b"\r10%" + UNFINISHED + b"\n"
    log.write(of_a_kubelet(b"begins\n" + first))
    async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as socket:
        assert await lines(socket, 1) == ["begins"]
        told = await frame(socket, "unfinished")
        assert [line["text"] for line in told["lines"]] == ["10%"]
        assert "cursor" not in told, "nobody goes on behind it"
        log.write(stamp(61 * 10**9) + b" \r55%" + UNFINISHED + b"\n")
        assert (await frame(socket, "unfinished"))["lines"][0]["text"] == "55%"
        found = text.job_text(job, text.LogRequest(("worker", 0)))
        assert b"".join([chunk async for chunk in found]) == b"begins\n\r10%\r55%\n"
        async with world.open(f"/ws/jobs/{job.pk}/logs/", job.owner) as other:
            assert await lines(other, 1) == ["begins"]
            assert (await frame(other, "unfinished"))["lines"][0]["text"] == "55%"
        log.write(stamp(62 * 10**9) + b" \r100%\n")
        log.write(stamp(63 * 10**9) + b" over\n")
        assert await lines(socket, 2) == ["100%", "over"]
    found = text.job_text(job, text.LogRequest(("worker", 0), has_times=True))
    assert b"".join([chunk async for chunk in found]).splitlines()[-1].endswith(b" over")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("piece_bytes", [1, 50, 100_000])
async def test_as_text_it_is_the_bytes_of_the_program(world: World, piece_bytes: int) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.piece_bytes = piece_bytes
    log.write(
        of_a_kubelet(b"a" + UNFINISHED + b"\nb\nc" + UNFINISHED + b"\nd" + UNFINISHED + b"\n")
    )
    found = text.job_text(job, text.LogRequest(None))
    assert b"".join([chunk async for chunk in found]) == b"worker-0 | ab\nworker-0 | cd\n"


# What tqdm and Keras write for a short run, each piece as it is flushed.
BARS = json.loads((Path(__file__).parent / "bars.json").read_text())


@pytest.mark.parametrize("bar", BARS)
def test_of_a_real_bar_each_state_is_seen_and_its_last_one_stays(bar: str) -> None:
    """Each piece is told, as when a second lies between two."""
    pieces = BARS[bar]
    reader = LineReader()
    states, finished = [], []
    for number, piece in enumerate(pieces):
        end = "" if piece.endswith("\n") else UNFINISHED.decode() + "\n"
        at = stamp(60 * 10**9 + number) + b" "
        rows = (piece + end).encode().removesuffix(b"\n").split(b"\n")
        reader.feed(b"".join(at + row + b"\n" for row in rows))
        for batch in reader.take():
            rows = [row["text"] for row in json.loads(batch.encoded)]
            states += rows if batch.is_unfinished else []
            finished += [] if batch.is_unfinished else rows
    for batch in reader.finish():
        finished += [row["text"] for row in json.loads(batch.encoded)]
    shown = [*states, *finished]
    assert [any(f"{step}/5" in row for row in shown) for step in range(1, 6)] == [True] * 5
    assert "5/5" in finished[-1]
    assert not [row for row in shown if "\r" in row or "\b" in row or "homeport" in row]
    assert len(finished) <= "".join(pieces).count("\n") + 1


@pytest.mark.parametrize("columns", [4_000, 21_000])
def test_a_wide_bar_is_shown_whole_and_kept_once(columns: int) -> None:
    """In signs of three bytes, 600 states, a mark behind each tenth."""
    reader, shown = LineReader(), []
    for number in range(600):
        bar = "\u2588" * (columns * number // 600) + "." * (columns - columns * number // 600)
        piece = f"\r{number:3}/600 {bar}".encode()
        head = b"" if number % 10 else stamp(60 * 10**9 + number) + b" "
        reader.feed(head + piece + (UNFINISHED + b"\n" if number % 10 == 9 else b""))
        for batch in reader.take():
            assert batch.is_unfinished
            [row] = json.loads(batch.encoded)
            shown.append(row["text"])
        assert len(reader._partial) < MAX_LINE_BYTES * 2
    reader.feed(stamp(61 * 10**9) + b" \n")
    [batch] = reader.take()
    [row] = json.loads(batch.encoded)
    assert row["text"].startswith("599/600 ")
    assert len(row["text"]) == columns + len("599/600 ")
    assert {f"{number:3}/600" for number in range(9, 600, 10)} <= {text[:7] for text in shown}


@pytest.mark.parametrize("piece_bytes", [7, 1_000, 64 * 1024])
def test_a_line_without_end_is_one_line_wherever_it_is_cut(piece_bytes: int) -> None:
    part = b"x" * 20_000
    data = of_a_kubelet((part + UNFINISHED + b"\n") * 5 + part + b"\nnext\n")
    reader, rows = LineReader(), []
    for at in range(0, len(data), piece_bytes):
        reader.feed(data[at : at + piece_bytes])
        rows += _finished(reader)
    assert [text[:5] for text in rows] == ["xxxxx", "next"]
    assert rows[0].endswith(" of this line were cut")
    assert rows[0].count("[homeport]") == 1


def _finished(reader: LineReader) -> list[str]:
    whole = [batch for batch in reader.take() if not batch.is_unfinished]
    return [row["text"] for batch in whole for row in json.loads(batch.encoded)]


def test_a_line_of_100_mb_without_an_end_costs_no_memory() -> None:
    chunk = random.Random(1).randbytes(32 * 1024).replace(b"\n", b"n").replace(b"\r", b"r")
    reader = LineReader()
    shown_bytes = 0
    tracemalloc.start()
    try:
        reader.feed(stamp(60 * 10**9) + b" ")
        for number in range(100 * 32):
            end = UNFINISHED + b"\n" + stamp(61 * 10**9 + number) + b" "
            reader.feed(chunk + (end if number % 100 == 99 else b""))
            for batch in reader.take():
                shown_bytes += len(batch.encoded)
        [row] = [row for batch in reader.finish() for row in json.loads(batch.encoded)]
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(row["text"]) < MAX_LINE_BYTES + 200
    assert peak_bytes < 4 * 1024**2
    assert shown_bytes < 1024**2, "no viewer is sent more"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("piece_bytes", [7, 64 * 1024])
@pytest.mark.parametrize("part_bytes", [20_000, 65_500, 65_490])
async def test_as_text_a_line_without_end_has_all_its_bytes(
    world: World, part_bytes: int, piece_bytes: int
) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.piece_bytes = piece_bytes
    part = b"x" * part_bytes
    log.write(of_a_kubelet((part + UNFINISHED + b"\n") * 2 + part + b"\nnext\n"))
    found = text.job_text(job, text.LogRequest(("worker", 0)))
    came = b"".join([chunk async for chunk in found])
    assert (len(came), came[-6:]) == (part_bytes * 3 + 6, b"\nnext\n")


def test_a_line_of_100_mb_costs_a_runner_no_memory(tmp_path: Path) -> None:
    door = FakeDoor()
    pod = Pod(tmp_path, door)
    done = tmp_path / "done"
    pod.python(
        "import os, pathlib, time\n"
        "for _ in range(100): os.write(1, b'x' * 2**20)\n"
        f"pathlib.Path({str(done)!r}).touch(); time.sleep(600)"
    )
    process = pod.start()
    assert process.stdout is not None
    threading.Thread(target=process.stdout.read, daemon=True).start()
    try:
        wait_for("all is written", done.exists, timeout_s=90)
        status = Path(f"/proc/{process.pid}/status").read_text()
        peak_kib = int(status.partition("VmHWM:")[2].split()[0])
        print(f"VmHWM {peak_kib} KiB")
        assert peak_kib < 100 * 1024
    finally:
        pod.close()
        door.close()


@pytest.mark.parametrize("has_ended", [True, False])
async def test_a_connection_cut_in_an_open_line_doubles_nothing(
    monkeypatch: pytest.MonkeyPatch, has_ended: bool
) -> None:
    """Cut anywhere, and then behind a line or a piece of one that had been seen."""
    monkeypatch.setattr(tail, "RETRY_FIRST_S", 0.0005)
    monkeypatch.setattr(tail, "RETRY_MOST_S", 0.001)
    monkeypatch.setattr(tail, "FLUSH_S", 0)
    mark = UNFINISHED + b"\n"
    rows = [b"a", b"b\r1%" + mark[:-1], b"\rb 2%", b"c", b"\r3%" + mark[:-1], b"\r4%" + mark[:-1]]
    data = b"".join(stamp(10**10 + n * 10**8) + b" " + row + b"\n" for n, row in enumerate(rows))
    data += stamp(11 * 10**9) + b" \r5%\n" if has_ended else b""
    ends = [at for at in range(len(data) + 1) if data[:at].endswith(b"\n")]
    for first in range(0, len(data) + 1, 5):
        for second in ends:
            log = FakeLog()
            log.piece_bytes = 11
            log.write(data)
            log.cuts = [(first, "error"), (second, "error")]
            log.end()
            recorder, one = Recorder(), tail.Tail(log, tail.Key("u", "pod", "main"), None)
            one.add(recorder)
            await one.run()
            finished = [batch for batch in recorder.batches if not batch.is_unfinished]
            assert texts(finished) == ["a", "b 2%", "c", "5%" if has_ended else "4%"], (
                first,
                second,
            )
            places = [batch.last for batch in recorder.batches]
            assert places == sorted(places), (first, second)


def test_an_open_line_behind_a_place_moves_it_nowhere() -> None:
    place = LivePlace(1, Position(parse_time(stamp(62 * 10**9).decode()), 1), "4abcdefabcdef")
    piece = b"\r10%" + UNFINISHED + b"\n"
    reader = LineReader(place.position)
    reader.feed(stamp(61 * 10**9) + b" " + piece)
    assert not list(reader.take()), "it is older, and was seen"
    reader.feed(stamp(61 * 10**9 + 1) + b" \r20%\n")
    assert not list(reader.take())
    reader = LineReader(place.position)
    reader.feed(stamp(63 * 10**9) + b" " + piece)
    [batch] = reader.take()
    assert (batch.is_unfinished, batch.last) == (True, place.position)
    viewer: Any = FakeViewer()
    source = ReplicaSource(viewer, Any, "worker-0", place)  # type: ignore[arg-type]
    source.batch_came(batch)
    assert (source._place, viewer.count) == (place, 1)


class FakeViewer:
    count = 0

    def put_batch(self, replica: str, batch: Batch, place: Place) -> None:
        self.count += 1


@pytest.mark.django_db(transaction=True)
async def test_who_comes_while_only_an_open_line_is_new_misses_none_before_it(
    world: World,
) -> None:
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.write(of_a_kubelet(b"one\ntwo\n"))
    path = f"/ws/jobs/{job.pk}/logs/"
    async with world.open(path, job.owner) as first:
        assert await lines(first, 2) == ["one", "two"]
    await until(lambda: log.open_count == 0)
    cursor = f"worker-0.l.1.{parse_time(stamp(60 * 10**9 + 1).decode())}.1."
    log.write(stamp(61 * 10**9) + b" \r10%" + UNFINISHED + b"\n")
    async with world.open(f"{path}?cursor={cursor}", job.owner):
        tails = (await get_hub())._tails
        await until(lambda: any(one.ring() for one in tails.values()))
        async with world.open(path, job.owner) as newcomer:
            assert await lines(newcomer, 2) == ["one", "two"]


@pytest.mark.parametrize("end", [b"ada\n", b"\n"])
def test_a_prompt_that_is_asked_again_is_shown_again(end: bytes) -> None:
    piece = b"name? " + UNFINISHED + b"\n"
    reader, shown = LineReader(), []
    for number, row in enumerate((piece, piece[6:], end, piece, end)):
        reader.feed(stamp(60 * 10**9 + number) + b" " + row)
        shown += [(texts([batch])[0], batch.is_unfinished) for batch in reader.take()]
    line = "name? " + end.decode().strip()
    assert shown == [("name? ", True), (line, False)] * 2


MARKED = UNFINISHED + b"\n"
# What a program writes behind 1,500 lines, and the texts of it: pieces come each second.
BEHIND = {
    "open": (b"".join(b"\r%d%%" % n + MARKED for n in range(1200)), ["1199%"]),
    "long": (b"\r%" * 9 + (b"\r12%" + MARKED) * 11_000, ["12%"]),
    "ended": ((b"\r9%" + MARKED) * 1200 + b"\r100%\n", ["100%"]),
    "between": ((b"\r9%" + MARKED) * 30 + b"\r100%\nend\n", ["100%", "end"]),
    "at the edge": ((b"a" + MARKED) * 3 + b"\n" + b"x\n" * 19, ["aaa", *"x" * 19]),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("kind", BEHIND)
async def test_the_newest_lines_are_lines_of_the_program(world: World, kind: str) -> None:
    output, behind = BEHIND[kind]
    every = [str(n) for n in range(1500)] + behind
    job = await a_job(world)
    log = world.cluster.pods["pod-worker-0"]
    log.write(of_a_kubelet(b"".join(b"%d\n" % n for n in range(1500)) + output))
    is_open = output.endswith(MARKED)

    async def seen(socket: Any) -> list[str]:
        said, *shown = await lines(socket, 1001 - is_open)
        assert said == LEFT_OUT
        if is_open:
            shown.append((await frame(socket, "unfinished"))["lines"][0]["text"])
        return shown

    for count in (1, 20, 1000):
        request = text.LogRequest(("worker", 0), tail_lines=count, says_cut=True)
        found = b"".join([chunk async for chunk in text.job_text(job, request)]).decode()
        said, *rows = found.split("\n")[:-1]
        assert f"these are the newest {count:,} lines" in said
        assert [row.rpartition("\r")[2] for row in rows] == every[-count:]
    path = f"/ws/jobs/{job.pk}/logs/"
    async with world.open(path, job.owner) as first:
        assert await seen(first) == every[-1000:]
    await until(lambda: log.open_count == 0)
    cursor = f"worker-0.l.1.{parse_time(stamp(60 * 10**9 + 1490).decode())}.1."
    async with world.open(f"{path}?cursor={cursor}", job.owner) as back:
        assert (await lines(back, 9 + len(behind) - is_open))[:9] == every[1491:1500]
        async with world.open(path, job.owner) as newcomer:
            assert await seen(newcomer) == every[-1000:]
