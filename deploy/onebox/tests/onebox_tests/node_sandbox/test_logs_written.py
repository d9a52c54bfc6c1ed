"""The log of a container: format, long lines, rotation, full disks, floods."""

from __future__ import annotations

import asyncio
import os
import re
import resource
import signal
from pathlib import Path

from onebox.node.logwriter import KEPT_FILES, LINE_BYTES, LogWriter

from .bench import DEADLINE_S, PYTHON, log_text, parent_of, until

RECORD = re.compile(
    rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z (stdout|stderr) ([FP]) ([^\n]*)\n", re.DOTALL
)


def records(path: Path) -> list[tuple[bytes, bytes, bytes]]:
    data = path.read_bytes()
    found = [(m[1], m[2], m[3]) for m in RECORD.finditer(data)]
    assert b"".join(m[0] for m in RECORD.finditer(data)) == data
    return found


def test_lines_become_records(tmp_path):
    path = tmp_path / "new" / "0.log"
    log = LogWriter(str(path))
    log.write("stdout", b"one\ntwo\n\nthr")
    log.write("stderr", b"oops\n")
    log.write("stdout", b"ee\nlast")
    log.finish()
    assert records(path) == [
        (b"stdout", b"F", b"one"),
        (b"stdout", b"F", b"two"),
        (b"stdout", b"F", b""),
        (b"stderr", b"F", b"oops"),
        (b"stdout", b"F", b"three"),
        (b"stdout", b"F", b"last"),
    ]


def test_stamps_never_go_back(tmp_path):
    path = tmp_path / "0.log"
    log = LogWriter(str(path))
    for number in range(100):
        log.write("stdout", b"%d\n" % number)
    log.finish()
    stamps = [line.split(b" ")[0] for line in path.read_bytes().splitlines()]
    assert stamps == sorted(stamps)


def test_long_lines_are_split_whatever_the_chunks(tmp_path):
    lines = [b"x" * size for size in (0, 1, LINE_BYTES - 1, LINE_BYTES, LINE_BYTES + 1, 50_000)]
    data = b"\n".join([*lines, b"y" * 100_000])
    for chunk_bytes in (1 << 20, 65_536, 1000):
        path = tmp_path / f"{chunk_bytes}.log"
        log = LogWriter(str(path))
        for start in range(0, len(data), chunk_bytes):
            log.write("stdout", data[start : start + chunk_bytes])
        log.finish()
        joined, whole = [], b""
        for _stream, tag, text in records(path):
            assert len(text) <= LINE_BYTES
            whole += text
            if tag == b"F":
                joined.append(whole)
                whole = b""
        assert joined == [*lines, b"y" * 100_000]


def test_bytes_are_kept_as_they_are(tmp_path):
    path = tmp_path / "0.log"
    data = bytes(range(256)).replace(b"\n", b"") + "grüß\r dich".encode()
    log = LogWriter(str(path))
    log.write("stdout", data + b"\n")
    log.finish()
    assert records(path) == [(b"stdout", b"F", data)]


def test_rotation_keeps_five_files_and_whole_records(tmp_path):
    path = tmp_path / "0.log"
    log = LogWriter(str(path), rotate_bytes=10_000)
    for number in range(2000):
        log.write("stdout", b"line %06d of some length\n" % number)
    log.finish()
    names = sorted(entry.name for entry in tmp_path.iterdir())
    assert names == ["0.log", *(f"0.log.{n}" for n in range(1, KEPT_FILES))]
    files = [tmp_path / f"0.log.{n}" for n in range(KEPT_FILES - 1, 0, -1)] + [path]
    texts = [text for file in files for _stream, _tag, text in records(file)]
    numbers = [int(text.split()[1]) for text in texts]
    assert numbers == list(range(numbers[0], 2000))
    assert all(file.stat().st_size < 11_000 for file in files)


def test_a_reader_that_holds_the_old_file_can_finish_it(tmp_path):
    path = tmp_path / "0.log"
    log = LogWriter(str(path), rotate_bytes=1000)
    log.write("stdout", b"first\n" * 30)
    with path.open("rb") as held:
        log.write("stdout", b"second\n")
        assert held.read().count(b"first") == 30
        assert b"second" in path.read_bytes()


def test_a_full_disk_loses_output_and_says_how_much(tmp_path):
    path = tmp_path / "0.log"
    log = LogWriter(str(path))
    log.write("stdout", b"before\n")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    old = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 100, hard))
        log.write("stdout", b"lost, all of it\n" * 50)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    finally:
        signal.signal(signal.SIGXFSZ, old)
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    log.write("stdout", b"after\n")
    log.finish()
    texts = [text for _stream, _tag, text in records(path)]
    assert texts[0] == b"before"
    assert texts[2] == b"after"
    assert re.fullmatch(rb"\[\d+ bytes of output were lost: the disk was full\]", texts[1])


async def test_both_streams_reach_the_log_before_the_end_is_reported(bench, pod):
    script = "echo out; echo err >&2; printf unfinished"
    ended, _text = await bench.run(pod, "/bin/sh", "-c", script)
    assert ended.code == 0
    found = set(records(bench.last_log))
    assert found == {
        (b"stdout", b"F", b"out"),
        (b"stderr", b"F", b"err"),
        (b"stdout", b"F", b"unfinished"),
    }


async def test_output_appears_while_the_program_runs(bench, pod):
    await bench.start(pod, "/bin/sh", "-c", "echo now; exec sleep 100")
    await until(lambda: log_text(bench.last_log) == "now\n", "the line")


async def test_a_flood_is_written_whole(bench, pod):
    program = """
import os
block = b"".join(b"%07d %s\\n" % (n, b"x" * 90) for n in range(1000))
for _ in range(100):
    view = memoryview(block)
    while view:
        view = view[os.write(1, view):]
"""
    await bench.run(pod, PYTHON, "-I", "-S", "-c", program)
    folder = bench.last_log.parent
    files = sorted(folder.glob(bench.last_log.name + "*"))
    total = sum(len(records(file)) for file in files)
    assert total == 100_000


async def test_a_flood_waits_for_its_log(bench, pod):
    """While the pod's init does not read, the program stops; nothing is lost."""
    volume = bench.volume("progress")
    program = """
import os
for number in range(4000):
    os.write(1, b"%d %s\\n" % (number, b"x" * 1000))
    if number % 100 == 0:
        open("/progress/at", "w").write(str(number))
open("/progress/done", "w").close()
"""
    script = 'until [ -e /progress/go ]; do sleep 0.02; done; exec "$0" -I -S -c "$1"'
    container = await bench.start(
        pod,
        "/bin/sh",
        "-c",
        script,
        PYTHON,
        program,
        mounts=(bench.mount("progress", "/progress"),),
    )
    init = parent_of(parent_of(container.pid))
    os.kill(init, signal.SIGSTOP)
    (volume / "go").touch()
    await until((volume / "at").exists, "the first line")
    await asyncio.sleep(0.3)
    assert not (volume / "done").exists()
    os.kill(init, signal.SIGCONT)
    assert (await asyncio.wait_for(container.wait(), DEADLINE_S)).code == 0
    lines = log_text(bench.last_log).splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(4000))
