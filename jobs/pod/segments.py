# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""The log on the volume: segment files, as they are found there.

A state folder holds `000001.log`, `000002.log`, ... and `starts`, which says of each where in the
log of the attempt it begins. `exit.json` says how the last container ended that could say it, and where its log did.
"""

import contextlib
import errno
import json
import os
import re
import stat
import time
from typing import Any, BinaryIO, Dict, List, NamedTuple, Tuple

READ_BYTES = 256 * 1024
MAX_EXIT_BYTES = 64 * 1024


class Segment(NamedTuple):
    """One closed piece of the log; `start` is its place in the whole log of the attempt."""

    number: int
    start: int
    size: int
    path: str
    closed_at: float
    in_ring: bool  # beyond the first half of what is kept: may be dropped for newer ones


def segment_path(folder: str, number: int) -> str:
    return os.path.join(folder, f"{number:06d}.log")


def attempt_folders(parent: str, attempt: int) -> List[str]:
    """The state folders of one attempt: one for each pod that tried it."""
    try:
        names = os.listdir(parent)
    except OSError:
        return []
    return [os.path.join(parent, n) for n in sorted(names) if n.startswith(f"{attempt}-")]


def kept_segments(folders: List[str]) -> Tuple[List[Segment], int, int]:
    """What is on the volume: segments by number, the last number ever begun, where it ended.

    A segment's place is in the file `starts`, written before the segment itself: earlier ones may
    have been dropped, or lost while the volume was full.
    """
    found = []
    last_number = end = 0
    for folder in folders:
        sizes = _segment_sizes(folder)
        for number, start in _read_starts(folder).items():
            size = sizes.get(number, 0)
            if size:
                path = segment_path(folder, number)
                found.append(Segment(number, start, size, path, time.monotonic(), False))
            last_number, end = max(last_number, number), max(end, start + size)
        last_number = max([last_number, *sizes])
    found.sort(key=lambda segment: segment.number)
    return found, last_number, end


def read_exits(folders: List[str]) -> List[Dict[str, Any]]:
    """What containers noted about their ends, the newest last; who was killed noted nothing."""
    found = []
    for folder in folders:
        try:
            with open_plain(os.path.join(folder, "exit.json")) as file:
                fields = json.loads(file.read(MAX_EXIT_BYTES).decode())
        except (OSError, ValueError):
            continue
        if isinstance(fields, dict):
            found.append(fields)
    return sorted(found, key=lambda fields: number_in(fields, "ended_at"))


def number_in(fields: Dict[str, Any], name: str) -> float:
    """A number from 0 on; 0 where it is none, for users may have written it."""
    value = fields.get(name)
    return float(value) if isinstance(value, (int, float)) and 0 <= value < 2**53 else 0.0


def ends_line(segments: List[Segment]) -> bool:
    """Whether the last segment ends with a line break."""
    if not segments:
        return True
    try:
        with open_plain(segments[-1].path) as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"
    except OSError:
        return True


def _segment_sizes(folder: str) -> Dict[int, int]:
    """Segment files by number: their bytes; 0 for what is no regular file."""
    sizes = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if re.match(r"^\d{6,9}\.log$", entry.name):
                about = entry.stat(follow_symlinks=False)
                number = int(entry.name[:-4])
                sizes[number] = about.st_size if stat.S_ISREG(about.st_mode) else 0
    return sizes


def _read_starts(folder: str) -> Dict[int, int]:
    try:
        with open(os.path.join(folder, "starts")) as file:
            lines = file.read().splitlines()
    except (OSError, ValueError):
        return {}
    rows = [re.match(r"^(\d{1,9}) (\d{1,18})$", line) for line in lines]
    return {int(row.group(1)): int(row.group(2)) for row in rows if row}


def open_plain(path: str) -> BinaryIO:
    """A regular file for reading; a link or a device is refused, for users may put them there.

    Raises:
        OSError: absent, a link, or not a regular file.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(errno.EINVAL, "not a regular file", path)
    return os.fdopen(fd, "rb")
