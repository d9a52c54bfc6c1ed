"""Reads artifacts of a job as bytes and as files.

Everything blocks (object store): call it from a thread.
"""

import io
from collections.abc import Iterator
from typing import IO

from jobs.models import Artifact
from portal.storage import get_store
from portal.storage.store import READ_BYTES


class _ChunkStream(io.RawIOBase):
    """An iterator of bytes as a file to read."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._waiting = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while not self._waiting:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._waiting = chunk
        count = min(len(buffer), len(self._waiting))
        buffer[:count] = self._waiting[:count]
        self._waiting = self._waiting[count:]
        return count


def artifact_chunks(artifact: Artifact, start: int = 0) -> Iterator[bytes]:
    """The bytes of an artifact from a position on.

    Raises:
        portal.storage.ObjectMissingError: the store has lost it.
    """
    return get_store().open(artifact.storage_key, start)


def open_artifact(artifact: Artifact, start: int = 0) -> IO[bytes]:
    """An artifact from a position on as a binary file.

    Raises:
        portal.storage.ObjectMissingError: the store has lost it.
    """
    return io.BufferedReader(_ChunkStream(artifact_chunks(artifact, start)), READ_BYTES)
