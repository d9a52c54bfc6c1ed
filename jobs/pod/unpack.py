"""Unpacks an archive that a user made, and believes nothing that it says.

Every member is checked by us: `tarfile.extractall` and its filters have been wrong often enough
(CVE-2025-4517, CVE-2024-12718), and the filters are absent in Debian 12's Python. Nothing is
written outside the target, nothing but regular files and folders is made, and what an archive
declares (sizes, counts) limits nothing: bytes are counted as they come.
"""

import io
import lzma
import os
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

from jobs.pod.decompress import PIECE_BYTES, decompressed
from jobs.pod.errors import PodError
from jobs.pod.protocol import codes

MAX_RATIO = 100
BIG_BYTES = 100 * 1024**2  # smaller results are harmless whatever their ratio
# Extended tar headers are read into memory, and searched in quadratic time (CVE-2024-6232).
MAX_HEADER_BYTES = 16 * 1024
MAX_HEADERS_BYTES = 8 * 1024**2
_APPLE_FOLDER = "__MACOSX"  # resource forks that macOS adds to zip files
# Those that `zipfile` reads in every version of Python.
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
_DEFLATE64 = 9
# Of a tar file, headers and padding of the most members come on top of what they hold.
_TAR_OVERHEAD_BYTES = 2 * 1024 * codes.MAX_MEMBERS


@dataclass(frozen=True)
class Member:
    """One entry of an archive, checked: `parts` are plain names below the target."""

    parts: tuple[str, ...]
    is_folder: bool
    is_executable: bool


def kind_of(path: str, name: str) -> str:
    """`zip`, `tar` or `plain`, by the name's ending; by content where the name has none."""
    lower = name.lower()
    if lower.endswith(".zip"):
        return "zip"
    if lower.endswith(
        (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz", ".tbz2", ".tar.xz", ".txz", ".taz")
    ):
        return "tar"
    if "." in lower:
        return "plain"
    with open(path, "rb") as file:
        start = file.read(4)
        if start in (b"PK\x03\x04", b"PK\x05\x06"):
            return "zip"
        file.seek(0)
        try:
            block = _Counted(decompressed(file), os.path.getsize(path)).read(512)
        except PodError:
            return "plain"
    return "tar" if block[257:262] == b"ustar" else "plain"


def unpack(path: str, kind: str, target: str) -> int:
    """Unpacks a `zip` or `tar` file into an empty folder; returns the number of files.

    Raises:
        PodError: the archive holds what an honest one does not, is damaged or of a kind that we cannot
            read, or has more than we unpack; nothing of it is used.
        OSError: the target cannot be written.
    """
    writer = _Writer(target)
    with broken_in_words():
        (_unpack_zip if kind == "zip" else _unpack_tar)(path, writer)
    return writer.file_count


@contextmanager
def broken_in_words() -> Iterator[None]:
    """Makes a `PodError` of what the libraries raise for a damaged archive."""
    try:
        yield
    except (zipfile.BadZipFile, tarfile.TarError, zlib.error, EOFError, struct.error) as error:
        raise _broken(f"the archive is damaged or incomplete ({error})") from error
    except (NotImplementedError, lzma.LZMAError, RecursionError, ValueError) as error:
        raise _broken(f"the archive cannot be read ({error})") from error


def check_name(name: str, is_folder: bool) -> tuple[str, ...]:
    """The parts of a member's name; empty for the target itself.

    Raises:
        PodError: it could lead out of the target, or no honest file has such a name.
    """
    shown = repr(name[:120])
    if re.search(r"[\x00-\x1f\x7f\x80-\x9f]", name):
        raise _unsafe(f"{shown} has control characters in its name")
    if name.startswith("/") or re.match(r"[A-Za-z]:[\\/]", name):
        raise _unsafe(f"{shown} has an absolute path")
    if "\\" in name:
        raise _unsafe(f"{shown} has a backslash in its name; separate folders by /")
    try:
        raw = name.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _unsafe(f"{shown} has a name that is not UTF-8") from error
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts:
        raise _unsafe(f"{shown} leads out of the folder (..)")
    if len(raw) > codes.MAX_MEMBER_NAME_BYTES or any(
        len(part.encode()) > codes.MAX_NAME_PART_BYTES for part in parts
    ):
        raise _unsafe(f"{shown} has too long a name")
    if not parts and not is_folder:
        raise _unsafe(f"{shown} is no name for a file")
    return parts


class Tree:
    """The files and folders of an archive, each once."""

    def __init__(self) -> None:
        self.folders: set[tuple[str, ...]] = {()}
        self.files: set[tuple[str, ...]] = set()
        self._member_count = 0

    def add(self, member: Member) -> list[tuple[str, ...]]:
        """Takes in one member; the folders that are new with it, from above.

        Raises:
            PodError: it is there already or lies below a file, or there are more than we unpack.
        """
        self._member_count += 1
        if self._member_count > codes.MAX_MEMBERS:
            raise _too_large(f"the archive has more than {codes.MAX_MEMBERS} members")
        shown = repr("/".join(member.parts)[:120])
        if member.parts in self.files or (not member.is_folder and member.parts in self.folders):
            raise _unsafe(f"{shown} is in the archive twice")
        inner = member.parts if member.is_folder else member.parts[:-1]
        made = []
        for depth in range(1, len(inner) + 1):
            folder = inner[:depth]
            if folder in self.files:
                raise _unsafe(f"{shown} lies below a file")
            if folder not in self.folders:
                made.append(folder)
                self.folders.add(folder)
                if len(self.folders) > codes.MAX_MEMBERS:
                    raise _too_large(f"the archive has more than {codes.MAX_MEMBERS} folders")
        if not member.is_folder:
            self.files.add(member.parts)
        return made


class _Writer:
    """Makes files and folders below one folder, each once, and counts."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._tree = Tree()
        self._left_bytes = codes.MAX_UNPACKED_BYTES

    @property
    def file_count(self) -> int:
        return len(self._tree.files)

    def add(self, member: Member, content: IO[bytes] | None, size: int) -> None:
        """Writes one member; `size` is what the archive promises and has to keep."""
        for folder in self._tree.add(member):
            os.mkdir(os.path.join(self._target, *folder), 0o755)
        if member.is_folder or content is None:
            return
        shown = repr("/".join(member.parts)[:120])
        path = os.path.join(self._target, *member.parts)
        mode = 0o755 if member.is_executable else 0o644
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
        with os.fdopen(fd, "wb") as file:
            left = size
            while left > 0:
                piece = content.read(min(PIECE_BYTES, left))
                if not piece:
                    raise _broken(f"the archive ends in the middle of {shown}")
                left -= len(piece)
                self._left_bytes -= len(piece)
                if self._left_bytes < 0:
                    raise _too_many_bytes()
                file.write(piece)


def _unsafe(text: str) -> PodError:
    return PodError(codes.BUNDLE_UNSAFE, text)


def _broken(text: str) -> PodError:
    return PodError(codes.BUNDLE_BROKEN, text)


def _too_large(text: str) -> PodError:
    return PodError(codes.BUNDLE_TOO_LARGE, text)


def _too_many_bytes() -> PodError:
    most = codes.MAX_UNPACKED_BYTES // 1024**3
    return _too_large(f"the archive unpacks to more than {most} GiB")


def _check_size(unpacked_bytes: int, packed_bytes: int) -> None:
    """
    Raises:
        PodError: bundle_too_large, more than we unpack; bundle_unsafe, more than any code is larger than its archive.
    """
    if unpacked_bytes > codes.MAX_UNPACKED_BYTES:
        raise _too_many_bytes()
    if unpacked_bytes > BIG_BYTES and unpacked_bytes > MAX_RATIO * max(1, packed_bytes):
        raise _unsafe(
            f"the archive unpacks to more than {MAX_RATIO} times its size, as no code does"
        )


# --- zip ------------------------------------------------------------------------------------------


def _unpack_zip(path: str, writer: _Writer) -> None:
    for archive, info in read_zip(path):
        member = zip_member(info)
        if member is None:
            continue
        if member.is_folder:
            writer.add(member, None, 0)
            continue
        with open_zipped(archive, info) as content:
            writer.add(member, content, info.file_size)
            if content.read(1):  # also checks the CRC
                raise _unsafe(f"{info.filename[:120]!r} is longer than it says")


def read_zip(path: str) -> Iterator[tuple[zipfile.ZipFile, zipfile.ZipInfo]]:
    """The entries of a zip file in the order of its directory.

    Raises:
        PodError: more entries, or more in them, than we unpack; and what `broken_in_words` knows.
    """
    with open(path, "rb") as file:
        _check_directory(file)
        with zipfile.ZipFile(file) as archive:
            infos = archive.infolist()
            _check_size(sum(info.file_size for info in infos), os.path.getsize(path))
            for info in infos:
                yield archive, info


def zip_member(info: zipfile.ZipInfo) -> Member | None:
    """What an entry is; None: what macOS adds, which is left out. A backslash separates folders, too.

    Zip files that Windows makes may have them (`Compress-Archive` of older versions, .NET before 4.6.1), though
    APPNOTE.TXT, section 4.4.17.1, asks for slashes.

    Raises:
        PodError: no honest file is so, or it is compressed or encrypted in a way that is not read here.
    """
    # `filename` is cut at a NUL; the name as it was written tells the truth.
    name = info.orig_filename.replace("\\", "/")
    shown = repr(info.orig_filename[:120])
    is_folder = name.endswith("/")
    parts = check_name(name, is_folder)
    if parts[:1] == (_APPLE_FOLDER,):
        return None
    if info.flag_bits & 0x1:
        raise _broken(f"{shown} is encrypted; create the archive without a password")
    mode = info.external_attr >> 16 if info.create_system == 3 else 0  # 3: Unix
    if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _unsafe(f"{shown} is a link or a device; only files are unpacked")
    if info.compress_type not in _ZIP_METHODS and not is_folder:
        is_64 = info.compress_type == _DEFLATE64
        method = "Deflate64" if is_64 else f"method {info.compress_type}"
        raise _broken(f"{shown} is compressed by {method}, which is not read here; use Deflate")
    return Member(parts, is_folder, bool(mode & 0o111) and not is_folder)


def open_zipped(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> IO[bytes]:
    """The content of an entry, whose own header has to say what the directory says.

    Raises:
        PodError: it would begin in front of the file; and what `broken_in_words` knows.
    """
    if info.header_offset < 0:
        raise _broken("the beginning of the zip file is missing")
    return archive.open(info)


def _check_directory(file: IO[bytes]) -> None:
    """Counts the entries of a zip file one by one, before `zipfile` reads all of its directory into memory.

    Raises:
        PodError: no zip file, or damaged, or more entries than we unpack.

    Format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, sections 4.3.12 to 4.3.16.
    """
    file.seek(0, os.SEEK_END)
    size = file.tell()
    tail_at = max(0, size - 65_557)  # the longest comment and the record itself
    file.seek(tail_at)
    tail = file.read()
    at = tail.rfind(b"PK\x05\x06")
    if at < 0 or len(tail) - at < 22:
        raise _broken("this is not a zip file, or its end is missing")
    directory_bytes = struct.unpack("<L", tail[at + 12 : at + 16])[0]
    end = tail_at + at
    file.seek(max(0, end - 76))
    record = file.read(76)
    if record[56:60] == b"PK\x06\x07":  # a zip64 file: its own record holds, whatever this one says
        if record[:4] != b"PK\x06\x06":
            raise _broken("the directory of the zip file cannot be found")
        directory_bytes = struct.unpack("<Q", record[40:48])[0]
        end -= 76
    position, count = end - directory_bytes, 0
    while 0 <= position < end:
        count += 1
        if count > codes.MAX_MEMBERS:
            raise _too_large(f"the archive has more than {codes.MAX_MEMBERS} members")
        file.seek(position)
        header = file.read(46)
        if len(header) < 46 or header[:4] != b"PK\x01\x02":
            raise _broken("the directory of the zip file is damaged")
        position += 46 + sum(struct.unpack("<HHH", header[28:34]))  # name, extra fields, comment
    file.seek(0)


# --- tar ------------------------------------------------------------------------------------------


def _unpack_tar(path: str, writer: _Writer) -> None:
    for archive, info in read_tar(path):
        member = tar_member(info)
        if member is None:
            continue
        content = None if member.is_folder else archive.extractfile(info)
        writer.add(member, content, info.size)


def read_tar(path: str) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The members of a tar file in their order; each can be read before the next is asked for.

    Raises:
        PodError, and what `broken_in_words` knows.
    """
    with open(path, "rb") as file:
        counted = _Counted(decompressed(file), os.path.getsize(path))
        with tarfile.open(
            fileobj=counted, mode="r|", tarinfo=_CheckedInfo, bufsize=PIECE_BYTES
        ) as archive:
            is_empty = True
            for info in archive:
                is_empty = False
                yield archive, info
            if is_empty and counted.is_short:
                raise _broken("this is not a tar file")
            if counted.is_cut:  # in the middle of a header, where `tarfile` sees just an end
                raise _broken("the archive ends too early")


def check_declared(unpacked_bytes: int, packed_bytes: int) -> None:
    """Like `_check_size`, of what the headers of a tar file have promised so far, for who cannot read all of it.

    Raises:
        PodError: its members are larger than we unpack, or too large for such an archive.
    """
    if unpacked_bytes > codes.MAX_UNPACKED_BYTES:
        raise _too_many_bytes()
    _check_size(unpacked_bytes - _TAR_OVERHEAD_BYTES, packed_bytes)


def most_tar_bytes(packed_bytes: int) -> int:
    """How much of a tar file is read before `read_tar` stops it as too large for its archive."""
    return max(BIG_BYTES, MAX_RATIO * max(1, packed_bytes)) + _TAR_OVERHEAD_BYTES


def tar_member(info: tarfile.TarInfo) -> Member | None:
    parts = check_name(info.name, info.isdir())
    if parts[:1] == (_APPLE_FOLDER,):
        return None
    if info.isdir():
        return Member(parts, True, False)
    if not info.isreg() or info.issparse():
        raise _unsafe(f"{info.name[:120]!r} is a link or a device; only files are unpacked")
    return Member(parts, False, bool(info.mode & 0o111))


class _CheckedInfo(tarfile.TarInfo):
    """Refuses headers that `tarfile` would read into memory whatever their size."""

    def _proc_member(self, archive: tarfile.TarFile) -> Any:
        extended = (
            tarfile.XHDTYPE,
            tarfile.XGLTYPE,
            tarfile.SOLARIS_XHDTYPE,
            tarfile.GNUTYPE_LONGNAME,
            tarfile.GNUTYPE_LONGLINK,
        )
        if self.type in extended:
            total = getattr(archive, "header_bytes", 0) + self.size
            archive.header_bytes = total  # type: ignore[attr-defined]
            if self.size > MAX_HEADER_BYTES or total > MAX_HEADERS_BYTES:
                raise _unsafe("the archive has absurdly long headers")
        if self.type == tarfile.GNUTYPE_SPARSE:
            self._refuse_sparse()
        return super()._proc_member(archive)  # type: ignore[misc]

    def _refuse_sparse(self, *_: Any) -> None:
        raise _unsafe(f"{self.name[:120]!r} is a sparse file; only plain files are unpacked")

    # The three ways of a pax header to describe one; the last reads an endless map into memory.
    _proc_gnusparse_00 = _proc_gnusparse_01 = _proc_gnusparse_10 = _refuse_sparse


class _Counted(io.RawIOBase):
    """Reads pieces as they come; stops the archive that unpacks to too much."""

    def __init__(self, pieces: Iterator[bytes], packed_bytes: int) -> None:
        self._pieces = pieces
        self._packed_bytes = packed_bytes
        self._waiting = b""
        self._count = 0
        self._is_over = False

    @property
    def is_short(self) -> bool:
        """Whether not even one block came."""
        return self._count < tarfile.BLOCKSIZE

    @property
    def is_cut(self) -> bool:
        """Whether the end came in the middle of a block."""
        return self._is_over and self._count % tarfile.BLOCKSIZE != 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Exactly `size` bytes, fewer only at the end."""
        found = [self._waiting]
        length = len(self._waiting)
        while size < 0 or length < size:
            piece = next(self._pieces, None)
            if piece is None:
                self._is_over = True
                break
            self._count += len(piece)
            _check_size(self._count - _TAR_OVERHEAD_BYTES, self._packed_bytes)
            found.append(piece)
            length += len(piece)
        data = b"".join(found)
        if size < 0:
            size = len(data)
        self._waiting = data[size:]
        return data[:size]
