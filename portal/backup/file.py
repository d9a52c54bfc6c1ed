"""The file of a backup: a zip whose comment is the SHA-256 of all bytes before that.

So any tool lists and unpacks it, while a byte that is missing or another one is noticed before
anything is taken from it. Each member's SHA-256 stands in `backup.json`, written last.
"""

import hashlib
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Self

from portal.backup import BackupError
from portal.progress import Progress
from portal.storage.waiting import put_on_disk

ABOUT = "backup.json"
_MARK = b"homeport-backup sha256 "
_DIGEST_CHARS = 64
_CHUNK_BYTES = 1024**2
_LEVEL = 1  # rows pack well at any level, and logs are packed already

Say = Callable[[str], object]


class BackupWriter:
    """A file that comes to be: under its name only when it is complete and was read back."""

    def __init__(self, path: Path) -> None:
        """
        Raises:
            BackupError: there is something under that name, or it cannot be written there.
        """
        self.path = path
        self.unfinished = path.with_name(path.name + ".unfinished")
        self._digests: dict[str, str] = {}
        if path.exists():
            raise BackupError(f"{path} exists; name a file that does not")
        try:
            self.unfinished.unlink(missing_ok=True)
            handle = os.open(self.unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except OSError as error:
            raise BackupError(f"{path} cannot be written: {error.strerror}") from error
        self._file = os.fdopen(handle, "w+b")
        self._zip = zipfile.ZipFile(
            self._file, "w", zipfile.ZIP_DEFLATED, allowZip64=True, compresslevel=_LEVEL
        )

    @contextmanager
    def member(self, name: str) -> Iterator[Callable[[bytes], object]]:
        """Takes the bytes of one member, in pieces."""
        digest = hashlib.sha256()
        with self._zip.open(name, "w", force_zip64=True) as file:

            def write(data: bytes) -> None:
                digest.update(data)
                file.write(data)

            yield write
        self._digests[name] = digest.hexdigest()

    def add(self, name: str, file: IO[bytes], told: Progress | None = None) -> int:
        """A member from an open file; its bytes."""
        size = 0
        with self.member(name) as write:
            while chunk := file.read(_CHUNK_BYTES):
                write(chunk)
                size += len(chunk)
                if told is not None:
                    told.add(len(chunk))
        return size

    def count(self, prefix: str) -> int:
        """How many members have a name that begins so."""
        return sum(name.startswith(prefix) for name in self._digests)

    def finish(self, about: dict[str, Any], say: Say) -> None:
        """Writes what the file says of itself, reads everything back, and gives it its name.

        Raises:
            BackupError: what was read back is not what was written.
        """
        text = json.dumps({**about, "digests": self._digests}, indent=1, sort_keys=True)
        with self._zip.open(ABOUT, "w") as file:
            file.write(text.encode())
        self._zip.comment = _MARK + b"0" * _DIGEST_CHARS
        self._zip.close()
        self._file.flush()
        digest = _digest_of(self._file, "Closing the file", lambda _: None)
        self._file.seek(-_DIGEST_CHARS, os.SEEK_END)
        self._file.write(digest.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        with BackupReader(self.unfinished, say, "Reading it back") as reader:
            reader.check_members(say)
        os.rename(self.unfinished, self.path)
        put_on_disk(self.path.parent)

    def close(self) -> None:
        """Leaves nothing unfinished behind."""
        self._zip.fp = None  # or it would end the zip when it is collected
        self._file.close()
        self.unfinished.unlink(missing_ok=True)


class BackupReader:
    """A backup that was found whole."""

    def __init__(self, path: Path, say: Say, what: str = "Reading the backup") -> None:
        """
        Raises:
            BackupError: there is none, it is cut or altered, or no backup at all.
        """
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise BackupError(f"{path} cannot be read: {error.strerror}") from error
        try:
            _check(self._file, path, say, what)
            self._zip = zipfile.ZipFile(self._file)
            self.about: dict[str, Any] = json.loads(self._zip.read(ABOUT))
        except (zipfile.BadZipFile, KeyError, ValueError) as error:
            self._file.close()
            raise BackupError(f"{path} is not a backup of Homeport: {error}") from error
        except BackupError:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def names(self, prefix: str = "") -> list[str]:
        """The members whose name begins so."""
        return [name for name in self.about["digests"] if name.startswith(prefix)]

    def size_bytes(self, name: str) -> int:
        return self._zip.getinfo(name).file_size

    def chunks(self, name: str) -> Iterator[bytes]:
        """The bytes of one member.

        Raises:
            BackupError: at the end, when they are not those that were written.
        """
        digest = hashlib.sha256()
        with self._zip.open(name) as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                yield chunk
        if digest.hexdigest() != self.about["digests"].get(name):
            raise BackupError(f"{name} in the backup is not what was kept")

    def read(self, name: str) -> bytes:
        """A small member; see `chunks`."""
        return b"".join(self.chunks(name))

    def check_members(self, say: Say) -> None:
        """Raises BackupError: a member is not what was written."""
        told = Progress("Checking it", sum(map(self.size_bytes, self.names())), say)
        for name in self.names():
            for chunk in self.chunks(name):
                told.add(len(chunk))


def _check(file: IO[bytes], path: Path, say: Say, what: str) -> None:
    file.seek(0, os.SEEK_END)
    tail = min(file.tell(), len(_MARK) + _DIGEST_CHARS)
    file.seek(-tail, os.SEEK_END)
    kept = file.read()
    file.seek(0)
    if not kept.startswith(_MARK):
        raise BackupError(
            f"{path} is not a backup of Homeport, or its end is missing; "
            "copy it again from where it was kept"
        )
    if _digest_of(file, what, say).encode() != kept[len(_MARK) :]:
        raise BackupError(
            f"{path} is not as it was made: its digest differs; "
            "copy it again from where it was kept, or take an older one"
        )


def _digest_of(file: IO[bytes], what: str, say: Say) -> str:
    """Of everything but the digest itself."""
    left = file.seek(0, os.SEEK_END) - _DIGEST_CHARS
    file.seek(0)
    told, digest = Progress(what, left, say), hashlib.sha256()
    while left > 0:
        chunk = file.read(min(left, _CHUNK_BYTES))
        digest.update(chunk)
        told.add(len(chunk))
        left -= len(chunk)
    return digest.hexdigest()


def unpack(reader: BackupReader, name: str, target: Path, told: Progress) -> None:
    """One member as a file of mode 0600 that did not exist.

    Raises:
        BackupError, OSError
    """
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        for chunk in reader.chunks(name):
            file.write(chunk)
            told.add(len(chunk))
        file.flush()
        os.fsync(file.fileno())
