"""Packs a folder of code: chooses its files, and makes the same archive from the same files.

Nothing but names, contents and whether a file may be executed is in the archive, so that equal code
has an equal SHA-256 and is sent only once. All lies in one folder, which the pod takes off again:
else it would take off a lone folder of the user's own.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import stat
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Callable

from .exits import REFUSED, ClientError
from .ignore import Ignored, rules_above
from .sanitize import one_line

# What the pod takes (jobs/pod/unpack.py); said here before anything is sent.
MAX_FILES = 10_000
MAX_BYTES = 2 * 1024**3
MAX_PATH_BYTES = 1000
MAX_NAME_BYTES = 255
TOP = "code"
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True)
class Entry:
    """One file to send: its path in the archive ("/" between parts) and where it is."""

    path: str
    source: Path
    size_bytes: int


@dataclass
class Selection:
    """The files of a folder that are sent, by path, and what is not."""

    entries: list[Entry] = field(default_factory=list)
    ignored_count: int = 0  # files and whole folders that ignore files left out
    warnings: list[str] = field(default_factory=list)

    @property
    def size_bytes(self) -> int:
        return sum(entry.size_bytes for entry in self.entries)


def select(folder: Path) -> Selection:
    """The files of a folder that are sent.

    Raises:
        ClientError: no file is left, there are too many, or one cannot be sent.
    """
    root = folder.resolve()
    found = Selection()
    ignored, above = rules_above(root)
    for entry in _walk(root, root, ignored, above, found):
        found.entries.append(entry)
        if len(found.entries) > MAX_FILES:
            raise _refuse(
                f"{folder} has more than {MAX_FILES:,} files to send.",
                "Name what is no code in .homeportignore; data belongs on the data volume.",
            )
    found.warnings += ignored.warnings
    if not found.entries:
        raise _refuse(
            f"{folder} has no file to send"
            + (f"; {found.ignored_count} are ignored." if found.ignored_count else "."),
            "Look into its .gitignore and .homeportignore.",
        )
    if found.size_bytes > MAX_BYTES:
        raise _refuse(
            f"{folder} has {found.size_bytes:,} bytes to send; {_largest(found)}.",
            "Name what is no code in .homeportignore; data belongs on the data volume.",
        )
    found.entries.sort(key=lambda entry: entry.path.encode())
    return found


def _largest(found: Selection) -> str:
    rows = sorted(found.entries, key=lambda entry: -entry.size_bytes)[:3]
    return "the largest are " + ", ".join(f"{row.path} ({row.size_bytes:,})" for row in rows)


def _walk(
    root: Path, folder: Path, ignored: Ignored, path: str, found: Selection
) -> Iterator[Entry]:
    """Files below a folder; `path` is the folder's own, relative to where the rules begin."""
    here = ignored.inside(folder, path)
    try:
        rows = sorted(os.scandir(folder), key=lambda row: os.fsencode(row.name))
    except OSError as error:
        raise _refuse(f"{folder} cannot be read: {error.strerror}.", _STEP) from error
    for row in rows:
        row_path = path + row.name
        is_folder = row.is_dir(follow_symlinks=False)
        if here.leaves_out(row_path, is_folder=is_folder):
            found.ignored_count += 1
        elif is_folder:
            yield from _walk(root, Path(row.path), here, f"{row_path}/", found)
        else:
            entry = _entry(root, Path(row.path), found)
            if entry is not None:
                yield entry


def _entry(root: Path, source: Path, found: Selection) -> Entry | None:
    """The entry of something that is no folder; None, and a warning, for what is not sent."""
    path = _checked(source.relative_to(root).as_posix())
    status = source.lstat()
    if stat.S_ISLNK(status.st_mode):
        # A copy of a file next to it is what was meant; what lies elsewhere may be anything.
        target = Path(os.path.realpath(source))
        inside = root in target.parents
        if not inside or not target.is_file():
            where = "outside of the folder" if not inside else "to no file"
            found.warnings.append(f"{path} is a link {where} and is not sent")
            return None
        status = target.stat()
    if not stat.S_ISREG(status.st_mode):
        found.warnings.append(f"{path} is no plain file and is not sent")
        return None
    return Entry(path, source, status.st_size)


_STEP = "Correct it, or name it in .homeportignore."


def _checked(path: str) -> str:
    """The path itself, if a pod will take it."""
    shown = one_line(ascii(path)[1:-1])
    try:
        size = len(path.encode())
    except UnicodeEncodeError:
        raise _refuse(f"The name of {shown} is not UTF-8.", _STEP) from None
    if _CONTROLS.search(path) or "\\" in path:
        raise _refuse(f"The name of {shown} has characters that pods do not take.", _STEP)
    if size > MAX_PATH_BYTES or any(len(p.encode()) > MAX_NAME_BYTES for p in path.split("/")):
        raise _refuse(f"The name of {shown[:80]}... is too long.", _STEP)
    return path


def _refuse(text: str, next_step: str) -> ClientError:
    return ClientError(text, next_step, REFUSED)


def pack(
    selection: Selection, file: BinaryIO, moved: Callable[[int], None] = lambda done: None
) -> tuple[str, int]:
    """Writes the archive; its SHA-256 and its size. `moved` hears how many bytes were read.

    Raises:
        ClientError: a file cannot be read, or changed while it was.
    """
    done = 0
    with (
        gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in selection.entries:
            _add(archive, entry)
            done += entry.size_bytes
            moved(done)
    file.seek(0)
    return sha256_of(file)


def _add(archive: tarfile.TarFile, entry: Entry) -> None:
    info = tarfile.TarInfo(f"{TOP}/{entry.path}")
    try:
        with entry.source.open("rb") as content:
            status = os.fstat(content.fileno())
            info.size = status.st_size
            info.mode = 0o755 if status.st_mode & 0o100 else 0o644
            # addfile takes exactly `size` bytes: a file that grows is cut, as of this moment.
            archive.addfile(info, content)
    except OSError as error:
        why = error.strerror or "it became shorter while it was read"
        raise _refuse(f"{entry.path} cannot be read: {why}.", _STEP) from error


def sha256_of(file: BinaryIO) -> tuple[str, int]:
    """SHA-256 and size of a file; it is left at its beginning."""
    digest, size_bytes = hashlib.sha256(), 0
    while chunk := file.read(1024**2):
        digest.update(chunk)
        size_bytes += len(chunk)
    file.seek(0)
    return digest.hexdigest(), size_bytes
