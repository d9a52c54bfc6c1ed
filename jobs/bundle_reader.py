"""Reads the table of contents of an archive, as a program of its own with limits of its own.

`bundle_listing.py` starts it (`python -I -S bundle_reader.py`): whatever an archive costs, it costs
this process alone, which ends itself. The request comes as JSON on standard input (`path`, `name`,
`kind`), the answer as JSON on standard output: what was seen, or `broken` or `refused` with a sentence.

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
from itertools import islice
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
        self._member_count = 0
        self._top: str | None = None
        self._has_lone_top = True

    def add(self, member: unpack.Member, size_bytes: int) -> bool:
        """Counts a member; whether more are wanted."""
        self._member_count += 1
        if not member.is_folder:
            clean = "/".join(member.parts)
            self.total += 1
            top, slash, _rest = clean.partition("/")
            self._has_lone_top = self._has_lone_top and bool(slash) and self._top in (None, top)
            self._top = top
            if len(self.files) < MAX_NAMES:
                self.files.append((clean[:MAX_NAME_LENGTH], size_bytes))
        self.is_cut = self._member_count >= codes.MAX_MEMBERS
        return not self.is_cut

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
    """What an archive of kind `zip` or `tar` holds; cut where it asks for too much, or why no pod unpacks it.

    Raises:
        PodError: damaged.
    """
    found, tree = Contents(), unpack.Tree()
    members = _zip_members(path) if kind == "zip" else _tar_members(path)
    try:
        with unpack.broken_in_words():
            for read, begin, size_bytes, is_last in members:
                member, refusal = _checked(read, tree)
                if refusal:
                    return {"refused": refusal}
                if member is None:
                    continue
                if kind == "tar" and not member.is_folder:
                    found.inspect_script("/".join(member.parts), begin())
                if not found.add(member, size_bytes):
                    break
                if is_last:
                    found.is_cut = True
                    break
            if kind == "zip" and not found.is_cut:
                _inspect_zip(path, found)
    except PodError as error:
        if error.reason == codes.BUNDLE_BROKEN:
            raise
        found.is_cut = True
    except (MemoryError, _OutOfTimeError):
        found.is_cut = True
    return found.as_json()


def _checked(
    read: Callable[[], "unpack.Member | None"], tree: unpack.Tree
) -> tuple["unpack.Member | None", str]:
    """A member as a pod sees it, None where it is left out there; and why no pod unpacks it.

    Raises:
        PodError: there are too many.
    """
    try:
        member = read()
        if member is not None:
            tree.add(member)
    except PodError as error:
        if error.reason == codes.BUNDLE_TOO_LARGE:
            raise
        return None, str(error)
    return member, ""


# Of each member: what reads it, what gives how its content begins, its bytes, and whether it is the last one.
_Members = Iterator[tuple[Callable[[], "unpack.Member | None"], Callable[[], bytes], int, bool]]


def _zip_members(path: str) -> _Members:
    with open(path, "rb") as file:
        for entry in unpack.read_directory(file):
            yield partial(unpack.zip_member, entry), bytes, entry.size_bytes, False


def _inspect_zip(path: str, found: Contents) -> None:
    """Looks at how files that may be scripts begin, at most as many as are listed."""
    with zipfile.ZipFile(path) as archive:
        for info in islice(archive.infolist(), MAX_NAMES):
            member = unpack.zip_member(unpack.entry_of(info))
            if member is None or member.is_folder or not _may_be_script(member.parts[-1]):
                continue
            with archive.open(info) as content:
                found.inspect_script("/".join(member.parts), content.read(BEGIN_BYTES))


def _may_be_script(name: str) -> bool:
    return "." not in name or name.endswith((*_SHELL_SCRIPTS, ".py", ".pl", ".rb", ".R"))


def _tar_members(path: str) -> _Members:
    for archive, info in unpack.read_tar(path):
        # Going on would read past this member's data.
        is_last = info.offset_data + info.size > MAX_READ_BYTES
        yield partial(unpack.tar_member, info), partial(_begin, archive, info), info.size, is_last


def _begin(archive: tarfile.TarFile, info: tarfile.TarInfo) -> bytes:
    content = archive.extractfile(info) if info.isreg() and not info.issparse() else None
    return content.read(BEGIN_BYTES) if content and _may_be_script(info.name) else b""


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
        answer = {"broken": str(error)}
    except (MemoryError, _OutOfTimeError):
        answer = Contents().as_json() | {"is_cut": True}
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main()
