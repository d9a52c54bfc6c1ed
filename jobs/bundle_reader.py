"""Reads the table of contents of an archive, as a program of its own with limits of its own.

`bundle_listing.py` starts it (`python -I -S bundle_reader.py`): whatever an archive costs, it costs
this process alone, which ends itself. The request comes as JSON on standard input (`path`, `name`,
`kind`), the answer as JSON on standard output: what was seen, or `broken` with a sentence.

Only the standard library and the reader that unpacks in pods are imported, so that it starts in
some 40 ms.
"""

import json
import os
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Started by path and isolated: nothing but the standard library would be found.
sys.path.append(str(Path(__file__).resolve().parents[1]))

from jobs.pod import unpack
from jobs.pod.errors import PodError
from jobs.pod.protocol import codes

MEMORY_BYTES = 256 * 1024**2
CPU_S = 4
MAX_NAMES = 200
MAX_NAME_LENGTH = 300
# Listing a compressed tar means decompressing it; beyond this the list is cut.
MAX_READ_BYTES = 256 * 1024**2


class _OutOfTimeError(Exception):
    """The processor time is used up."""


class Contents:
    """The first files in their order; `total` counts all that were seen."""

    def __init__(self) -> None:
        self.files: list[tuple[str, int]] = []
        self.total = 0
        self.is_cut = False
        self._member_count = 0
        self._top: str | None = None
        self._has_lone_top = True

    def add(self, path: str, size_bytes: int, *, is_folder: bool) -> bool:
        """Counts a member; whether more are wanted."""
        self._member_count += 1
        if not is_folder:
            clean = path.removeprefix("./")
            self.total += 1
            top, slash, _rest = clean.partition("/")
            self._has_lone_top = self._has_lone_top and bool(slash) and self._top in (None, top)
            self._top = top
            if len(self.files) < MAX_NAMES:
                self.files.append((clean[:MAX_NAME_LENGTH], size_bytes))
        self.is_cut = self._member_count >= codes.MAX_MEMBERS
        return not self.is_cut

    def as_json(self) -> dict[str, Any]:
        top = self._top if self._has_lone_top and self._top else ""
        return {
            "files": self.files,
            "total": self.total,
            "is_archive": True,
            "is_cut": self.is_cut,
            "top_folder": top[:MAX_NAME_LENGTH],
        }


def limit_this_process() -> None:
    """Bounds memory, time and everything else that listing does not need.

    A pattern that is searched for minutes hears no signal: then the hard limit ends the process.
    """

    def out_of_time(_number: int, _frame: object) -> None:
        raise _OutOfTimeError

    signal.signal(signal.SIGXCPU, out_of_time)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    os.nice(5)  # the portal has the processor first


def read_contents(path: str, kind: str) -> dict[str, Any]:
    """What an archive of kind `zip` or `tar` holds; cut where it asks for too much.

    Raises:
        PodError: damaged.
    """
    found = Contents()
    members = _zip_members(path) if kind == "zip" else _tar_members(path)
    try:
        with unpack.broken_in_words():
            for name, size_bytes, is_folder, is_last in members:
                if not found.add(name, size_bytes, is_folder=is_folder):
                    break
                if is_last:
                    found.is_cut = True
                    break
    except PodError as error:
        if error.reason == codes.BUNDLE_BROKEN:
            raise
        found.is_cut = True
    except (MemoryError, _OutOfTimeError):
        found.is_cut = True
    return found.as_json()


def _zip_members(path: str) -> Iterator[tuple[str, int, bool, bool]]:
    with open(path, "rb") as file:
        for name, size_bytes in unpack.read_directory(file):
            yield name, size_bytes, name.endswith("/"), False


def _tar_members(path: str) -> Iterator[tuple[str, int, bool, bool]]:
    for _archive, info in unpack.read_tar(path):
        # Going on would read past this member's data.
        is_last = info.offset_data + info.size > MAX_READ_BYTES
        yield info.name, info.size, info.isdir(), is_last


def main() -> None:
    """Answers the one request."""
    limit_this_process()
    asked = json.load(sys.stdin.buffer)
    answer: dict[str, Any] = {"is_archive": False}
    try:
        kind = unpack.kind_of(asked["path"], asked["name"])
        if kind != "plain":
            answer = read_contents(asked["path"], kind)
    except PodError as error:
        answer = {"broken": str(error)}
    except (MemoryError, _OutOfTimeError):
        answer = Contents().as_json() | {"is_cut": True}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
