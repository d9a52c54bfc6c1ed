"""A line that has no end yet: a progress bar, a prompt, a line in two halves. It is seen as far as it has come."""

from typing import Any

import pytest

from jobs.logs import text
from jobs.logs.lines import LineReader
from jobs.pod.protocol.notices import UNFINISHED
from tests.jobs.logs.fakes import stamp
from tests.jobs.logs.served import World, a_job, frame, lines
from tests.jobs.pod.pods import FakeDoor, Pod

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
