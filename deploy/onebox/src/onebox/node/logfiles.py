"""Where container logs lie and how to find a place in them; blocking but short reads.

The sandbox writes CRI records of fixed layout: a 30-character time, a space, "stdout" or
"stderr", a space, F (a whole line or its last part) or P (a part), a space, the text. A full
file `N.log` is renamed to `N.log.1`, that one to `N.log.2`, and so on; N is the restart count.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

STAMP_BYTES = 30
TAG_AT = 38
TEXT_AT = 40
OLDEST_ROTATION = 9
BLOCK_BYTES = 64 * 1024


def log_path(folder: Path, container: str, restart_count: int) -> Path:
    """Name the newest log file of one run of a container."""
    return folder / container / f"{restart_count}.log"


def drop_old_runs(path: Path) -> None:
    """Remove the logs of runs before the previous one, when the run of `path` begins."""
    current = int(path.stem)
    for file in path.parent.iterdir():
        number = file.name.partition(".")[0]
        if number.isdigit() and int(number) < current - 1:
            file.unlink(missing_ok=True)


@dataclass
class LogFile:
    """One open file of a run; closed by `close`, whatever it is called by then."""

    fd: int
    inode: int

    def close(self) -> None:
        """Close the file."""
        os.close(self.fd)

    @property
    def size(self) -> int:
        """Present size in bytes."""
        return os.fstat(self.fd).st_size


def open_run(path: Path) -> list[LogFile]:
    """Open the files of a run, oldest first, each once even if a rotation happens meanwhile."""
    files: list[LogFile] = []
    for name in [path, *(Path(f"{path}.{n}") for n in range(1, OLDEST_ROTATION + 1))]:
        with contextlib.suppress(FileNotFoundError):
            fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            inode = os.fstat(fd).st_ino
            if any(known.inode == inode for known in files):
                os.close(fd)
            else:
                files.append(LogFile(fd, inode))
    return files[::-1]


def stamp(moment: datetime) -> bytes:
    """Write a time as log records have it, so that times compare as bytes."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%f").encode() + b"000Z"


def seek_tail(files: list[LogFile], lines: int) -> tuple[int, int]:
    """Find where the last `lines` lines begin: (index of the file, offset in it)."""
    left = lines
    for index in range(len(files) - 1, -1, -1):
        offset, left = _seek_tail_in(files[index], left)
        if left < 0:
            return index, offset
    return 0, 0


def _seek_tail_in(file: LogFile, left: int) -> tuple[int, int]:
    """Go back over whole lines of one file.

    Returns:
        (offset, -1) when the place is in this file, (0, lines still wanted) otherwise.
    """
    end = file.size
    pending = b""
    while end > 0:
        start = max(0, end - BLOCK_BYTES)
        data = os.pread(file.fd, end - start, start) + pending
        # Unless at the beginning of the file, the first record of the block may be cut.
        cut = 0 if start == 0 else data.find(b"\n") + 1
        position = len(data)
        while position > cut:
            begin = data.rfind(b"\n", 0, position - 1) + 1
            if begin < cut:
                break
            if data[begin + TAG_AT : begin + TAG_AT + 1] == b"F":
                if left == 0:
                    return start + position, -1
                left -= 1
            position = begin
        pending = data[:position]
        end = start
    return 0, left


def seek_since(file: LogFile, since: bytes) -> int:
    """Find the offset of the first record at or after a time, by bisection; the end if none."""
    low, high = 0, file.size
    while high - low > BLOCK_BYTES:
        middle = (low + high) // 2
        block = os.pread(file.fd, BLOCK_BYTES, middle)
        begin = block.find(b"\n") + 1
        if begin == 0 or len(block) < begin + STAMP_BYTES:
            break
        if block[begin : begin + STAMP_BYTES] < since:
            low = middle + begin
        else:
            high = middle
    return _scan_since(file, since, low)


def _scan_since(file: LogFile, since: bytes, offset: int) -> int:
    pending = b""
    while True:
        block = os.pread(file.fd, BLOCK_BYTES, offset + len(pending))
        data = pending + block
        begin = 0
        while (end := data.find(b"\n", begin)) >= 0:
            if data[begin : begin + STAMP_BYTES] >= since:
                return offset + begin
            begin = end + 1
        offset += begin
        pending = data[begin:]
        if not block:
            return offset


def tail_text(path: Path, lines: int, size_bytes: int) -> str:
    """Read the end of a run's log as plain text (for a termination message)."""
    files = open_run(path)
    try:
        index, offset = seek_tail(files, lines)
        records = b""
        for file in files[index:]:
            records += os.pread(file.fd, max(0, file.size - offset), offset)
            offset = 0
    finally:
        for file in files:
            file.close()
    text = b"".join(plain_text(record) for record in records.split(b"\n"))
    return text[-size_bytes:].decode(errors="replace")


def plain_text(record: bytes) -> bytes:
    """Give the text of one record, with its newline when the line ends here."""
    if len(record) < TEXT_AT:
        return b""
    is_whole = record[TAG_AT : TAG_AT + 1] == b"F"
    return record[TEXT_AT:] + (b"\n" if is_whole else b"")
