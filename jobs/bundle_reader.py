"""Reads the table of contents of an archive, as a program of its own with limits of its own.

`bundle_listing.py` starts it (`python -I -S bundle_reader.py`): whatever an archive costs, it costs
this process alone, which ends itself. The request comes as JSON on standard input (`path`, `name`,
`kind`), the answer as JSON on standard output: what was seen, or `broken` or `refused` with a sentence and the pod's `reason`.

Only the standard library and the reader that unpacks in pods are imported, so that it starts in
some 40 ms.
"""

import codecs
import json
import os
import resource
import signal
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
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
MAX_ODD = 5
BEGIN_BYTES = 4096  # of a script, that are looked at
_SHELL_SCRIPTS = (".sh", ".bash", ".ksh", ".zsh")
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
        self.odd_scripts: list[tuple[str, str]] = []
        self._top: str | None = None
        self._has_lone_top = True

    def add(self, member: unpack.Member, size_bytes: int) -> None:
        if not member.is_folder:
            clean = "/".join(member.parts)
            self.total += 1
            top, slash, _rest = clean.partition("/")
            self._has_lone_top = self._has_lone_top and bool(slash) and self._top in (None, top)
            self._top = top
            if len(self.files) < MAX_NAMES:
                self.files.append((clean[:MAX_NAME_LENGTH], size_bytes))

    def inspect_script(self, path: str, begins: bytes) -> None:
        """Notes a script that no shell can start as it is."""
        if (oddity := oddity_of(path, begins)) and len(self.odd_scripts) < MAX_ODD:
            self.odd_scripts.append((path[:MAX_NAME_LENGTH], oddity))

    def as_json(self) -> dict[str, Any]:
        top = self._top if self._has_lone_top and self._top else ""
        return {
            "files": self.files,
            "total": self.total,
            "is_archive": True,
            "is_cut": self.is_cut,
            "odd_scripts": self.odd_scripts,
            "top_folder": top[:MAX_NAME_LENGTH],
        }


def oddity_of(path: str, begins: bytes) -> str:
    """`crlf` or `bom`: why a shell or the kernel does not read a script's lines as they are meant; "": it does."""
    has_mark = begins.startswith(codecs.BOM_UTF8)
    is_started = begins.removeprefix(codecs.BOM_UTF8).startswith(b"#!")
    if not is_started and not path.endswith(_SHELL_SCRIPTS):
        return ""
    return "crlf" if b"\r\n" in begins else "bom" if has_mark else ""


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
    """What an archive of kind `zip` or `tar` holds; cut where it costs too much, or why no pod unpacks it.

    Raises:
        PodError: damaged.
    """
    found, tree = Contents(), unpack.Tree()
    members = _zip_members(path) if kind == "zip" else _tar_members(path)
    try:
        with unpack.broken_in_words():
            for read, begin, size_bytes, is_last in members:
                try:
                    member = read()
                    if member is not None:
                        tree.add(member)
                except PodError as error:
                    return _refused(error)
                if member is None:
                    continue
                if not member.is_folder:
                    # Of others nothing is read; that of a zip has a header of its own, which is looked at.
                    count = BEGIN_BYTES if _may_be_script(member.parts[-1]) else 0
                    found.inspect_script("/".join(member.parts), begin(count))
                found.add(member, size_bytes)
                if is_last:
                    found.is_cut = True
                    break
    except PodError as error:
        if error.reason == codes.BUNDLE_BROKEN:
            raise
        return _refused(error)
    except (MemoryError, _OutOfTimeError):
        found.is_cut = True
    return found.as_json()


def _refused(error: PodError) -> dict[str, Any]:
    return {"refused": str(error), "reason": error.reason}


# Of each member: what reads it, what gives so many bytes of its content, its size in bytes, and whether it is the last.
_Members = Iterator[tuple[Callable[[], "unpack.Member | None"], Callable[[int], bytes], int, bool]]


def _zip_members(path: str) -> _Members:
    for archive, info in unpack.read_zip(path):
        begin = partial(_begin_zipped, archive, info)
        yield partial(unpack.zip_member, info), begin, info.file_size, False


def _begin_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo, count: int) -> bytes:
    with unpack.open_zipped(archive, info) as content:
        return content.read(count)


def _tar_members(path: str) -> _Members:
    unpacked_bytes, packed_bytes = 0, os.path.getsize(path)
    # What promises more than that is read until it is seen to be damaged or too large, which is not far.
    is_short = unpack.most_tar_bytes(packed_bytes) <= MAX_READ_BYTES
    for archive, info in unpack.read_tar(path):
        unpacked_bytes += info.size
        # Going on would read past this member's data.
        is_last = not is_short and info.offset_data + info.size > MAX_READ_BYTES
        if is_last:
            unpack.check_declared(unpacked_bytes, packed_bytes)
        yield partial(unpack.tar_member, info), partial(_begin, archive, info), info.size, is_last


def _begin(archive: tarfile.TarFile, info: tarfile.TarInfo, count: int) -> bytes:
    content = archive.extractfile(info)
    return content.read(count) if content else b""


def _may_be_script(name: str) -> bool:
    return "." not in name or name.endswith((*_SHELL_SCRIPTS, ".py", ".pl", ".rb", ".R"))


def main() -> None:
    """Answers the one request."""
    limit_this_process()
    asked = json.load(sys.stdin.buffer)
    answer: dict[str, Any] = {"is_archive": False}
    try:
        kind = unpack.kind_of(asked["path"], asked["name"])
        if kind != "plain":
            answer = read_contents(asked["path"], kind)
        else:
            with open(asked["path"], "rb") as file:
                oddity = oddity_of(asked["name"], file.read(BEGIN_BYTES))
            answer["odd_scripts"] = [(asked["name"], oddity)] if oddity else []
    except PodError as error:
        answer = {"broken": str(error), "reason": error.reason}
    except (MemoryError, _OutOfTimeError):
        answer = Contents().as_json() | {"is_cut": True}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
