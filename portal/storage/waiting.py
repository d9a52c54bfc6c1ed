"""Bytes on their way into a store: in a file that no key leads to, until they are put in their place.

Puts on disk what it has put in place: the file, and the folders that name it. Everything here blocks.
"""

import contextlib
import hashlib
import os
import secrets
import time
from pathlib import Path

from portal import room

_STALE_S = 86_400  # an upload that began a day ago is dead


class Waiting:
    """Bytes that are coming: in a file that no key leads to, hashed and counted as they come.

    Args:
        size_bytes: how many are announced; 0: nobody says.

    Raises:
        NoRoomError: they do not fit beside the reserve; `write` raises it too, for others write
            at the same time.
    """

    def __init__(self, waiting_room: Path, size_bytes: int = 0) -> None:
        room.check(size_bytes)
        waiting_room.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path = waiting_room / secrets.token_hex(16)
        self._file = self.path.open("xb")
        self._digest = hashlib.sha256()
        self.size_bytes = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, data: bytes) -> None:
        room.check(len(data))
        self._file.write(data)
        self._digest.update(data)
        self.size_bytes += len(data)

    def flush(self) -> None:
        """Whoever opens `path` now sees all that came."""
        self._file.flush()

    def move(self, target: Path) -> None:
        """Puts the file in its place, durably."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        _make_durably(target.parent)
        os.replace(self.path, target)
        put_on_disk(target.parent)

    def abort(self) -> None:
        """Forgets what came; harmless when it was moved."""
        # What does not fit on a full disk any more is tried again by `close`.
        with contextlib.suppress(OSError):
            self._file.close()
        self.path.unlink(missing_ok=True)


def put_on_disk(folder: Path) -> None:
    """The names in it, which are not part of the files that they name."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _make_durably(folder: Path) -> None:
    if not folder.is_dir():
        _make_durably(folder.parent)
        folder.mkdir(exist_ok=True)
        put_on_disk(folder.parent)


def remove_stale(waiting_room: Path) -> None:
    """Removes what interrupted uploads left there more than a day ago."""
    for path in waiting_room.glob("*"):
        if time.time() - path.stat().st_mtime > _STALE_S:
            path.unlink(missing_ok=True)
