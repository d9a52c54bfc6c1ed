"""What is inside an upload, as its table of contents says; nothing is ever unpacked here.

The pod that unpacks a bundle checks every member itself (`jobs/pod/fetch.py`); this is only for
people, so that a wrong archive is noticed before the training starts.
"""

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

MAX_NAMES = 200
MAX_MEMBERS = 10_000
# Listing a compressed tar means decompressing it; beyond this the list is cut.
MAX_READ_BYTES = 256 * 1024**2
MAX_NAME_LENGTH = 300


@dataclass(frozen=True)
class Listing:
    """The first files of an archive in their order; `total` counts all that were seen."""

    files: tuple[tuple[str, int], ...]  # path, bytes
    total: int
    is_archive: bool
    is_cut: bool
    # The one folder that holds everything, which is taken off when the code is unpacked.
    top_folder: str

    def as_json(self) -> dict[str, Any]:
        return {
            "files": [{"path": path, "size_bytes": size} for path, size in self.files],
            "total": self.total,
            "is_archive": self.is_archive,
            "is_cut": self.is_cut,
            "top_folder": self.top_folder,
        }


class BrokenArchiveError(ValueError):
    """It says that it is an archive and cannot be read as one."""


def list_bundle(file: IO[bytes], name: str, size_bytes: int) -> Listing:
    """The listing of an upload; the file is left at its beginning.

    Raises:
        BrokenArchiveError: damaged or cut off.
    """
    file.seek(0)
    try:
        if zipfile.is_zipfile(file):
            return _listing(_zip_members(file))
        file.seek(0)
        if _is_tar_name(name):
            return _listing(_tar_members(file))
        return Listing(((name, size_bytes),), 1, False, False, "")
    except (
        zipfile.BadZipFile,
        tarfile.TarError,
        EOFError,
        OSError,
        zlib.error,
        UnicodeError,
        ValueError,
        NotImplementedError,
    ) as error:
        raise BrokenArchiveError(f"{name} cannot be read as an archive: {error}") from error
    finally:
        file.seek(0)


def _is_tar_name(name: str) -> bool:
    endings = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
    return name.lower().endswith(endings)


def _zip_members(file: IO[bytes]) -> Iterator[tuple[str, int, bool]]:
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if not member.is_dir():
                yield member.filename, member.file_size, False


def _tar_members(file: IO[bytes]) -> Iterator[tuple[str, int, bool]]:
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for member in archive:
            # Going on would read past this member's data.
            is_last = member.offset_data + member.size > MAX_READ_BYTES
            if not member.isdir() or is_last:
                yield member.name, member.size, is_last
            if is_last:
                return


def _listing(members: Iterator[tuple[str, int, bool]]) -> Listing:
    files: list[tuple[str, int]] = []
    tops: set[str] = set()
    total, is_cut, has_top_file = 0, False, False
    for path, size, is_last in members:
        clean = path.removeprefix("./")
        total += 1
        top, slash, _rest = clean.partition("/")
        tops.add(top)
        has_top_file = has_top_file or not slash
        if len(files) < MAX_NAMES:
            files.append((clean[:MAX_NAME_LENGTH], size))
        is_cut = is_last or total >= MAX_MEMBERS
        if is_cut:
            break
    lone = next(iter(tops)) if len(tops) == 1 and not has_top_file else ""
    return Listing(tuple(files), total, True, is_cut, lone)
