"""Streams one container run's log as the kubelet does: tail, since, timestamps, limit, follow."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from onebox.node.inotify import FolderWatcher
from onebox.node.logfiles import (
    BLOCK_BYTES,
    STAMP_BYTES,
    TAG_AT,
    TEXT_AT,
    LogFile,
    open_run,
    seek_since,
    seek_tail,
    stamp,
)

# A chatty program's records are gathered for so long before they are passed on.
GATHER_S = 0.005


@dataclass(frozen=True)
class LogOptions:
    """What a reader asked for (PodLogOptions)."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since: datetime | None = None
    limit_bytes: int | None = None


@dataclass(frozen=True)
class LogRun:
    """The run whose log is read.

    Args:
        path: the newest file of the run.
        is_over: tells that the run has ended and wrote its last record.
        changed: an event that is set when `is_over` may have changed; the reader clears it.
        close: ends the subscription of `changed`.
    """

    path: Path
    is_over: Callable[[], bool]
    changed: asyncio.Event
    close: Callable[[], None]


async def read_log(
    run: LogRun, options: LogOptions, watcher: FolderWatcher
) -> AsyncGenerator[bytes, None]:
    """Yield the log as text chunks; memory stays bounded however slowly they are taken."""
    reader = _Reader(run, options, watcher)
    left = options.limit_bytes
    try:
        async for chunk in reader.chunks():
            if left is not None:
                chunk = chunk[:left]
                left -= len(chunk)
            if chunk:
                yield chunk
            if left == 0:
                return
    finally:
        reader.close()
        run.close()


class _Reader:
    """Walks through the files of a run, and on with the program while it writes."""

    def __init__(self, run: LogRun, options: LogOptions, watcher: FolderWatcher) -> None:
        self._run = run
        self._options = options
        self._watcher = watcher
        self._formatter = _Formatter(options)
        self._file: LogFile | None = None
        self._queue: list[LogFile] = []
        self._offset = 0

    def close(self) -> None:
        for file in [*self._queue, *([self._file] if self._file else [])]:
            file.close()
        self._queue, self._file = [], None

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        self._open_at_start()
        while True:
            self._run.changed.clear()
            if self._options.follow:
                # Armed before reading: what is written after the read wakes us.
                self._watcher.arm(self._run.path.parent, self._run.changed)
            is_over = self._run.is_over()
            async for chunk in self._available():
                yield chunk
            if is_over or not self._options.follow:
                return
            await self._run.changed.wait()
            await asyncio.sleep(GATHER_S)

    def _open_at_start(self) -> None:
        self._queue = open_run(self._run.path)
        if not self._queue:
            return
        index = 0
        if self._options.tail_lines is not None:
            index, self._offset = seek_tail(self._queue, self._options.tail_lines)
        for file in self._queue[:index]:
            file.close()
        self._queue = self._queue[index:]
        self._file = self._queue.pop(0)
        if self._options.since is not None:
            self._skip_to(stamp(self._options.since))

    def _skip_to(self, since: bytes) -> None:
        """Move on to the first record at or after a time."""
        while self._file is not None:
            self._offset = max(self._offset, seek_since(self._file, since))
            if self._offset < self._file.size or not self._queue:
                return
            self._next_file()

    async def _available(self) -> AsyncGenerator[bytes, None]:
        """Yield what is there now, over all newer files."""
        while True:
            if self._file is None and not self._find_newer():
                return
            data = self._read()
            if not data and not self._queue:
                if not self._find_newer():
                    return
                # Written after our last read and before the rotation.
                data = self._read()
            if not data:
                self._next_file()
                continue
            self._offset += len(data)
            text = self._formatter.feed(data)
            if text:
                yield text
            await asyncio.sleep(0)

    def _read(self) -> bytes:
        assert self._file is not None
        return os.pread(self._file.fd, BLOCK_BYTES, self._offset)

    def _next_file(self) -> None:
        assert self._file is not None
        self._file.close()
        self._file = self._queue.pop(0)
        self._offset = 0

    def _find_newer(self) -> bool:
        """Queue files that appeared after the present one; True when there are any."""
        found = open_run(self._run.path)
        inodes = [file.inode for file in found]
        present = self._file.inode if self._file is not None else None
        # Not among them: so many rotations happened that it was removed; all are newer then.
        first_new = inodes.index(present) + 1 if present in inodes else 0
        for file in found[:first_new]:
            file.close()
        self._queue = found[first_new:]
        if self._file is None and self._queue:
            self._file, self._offset = self._queue.pop(0), 0
            return True
        return bool(self._queue)


class _Formatter:
    """Turns records into text; keeps an unfinished record for the next block."""

    def __init__(self, options: LogOptions) -> None:
        self._timestamps = options.timestamps
        self._pending = b""
        self._at_line_start = True

    def feed(self, data: bytes) -> bytes:
        *records, self._pending = (self._pending + data).split(b"\n")
        parts: list[bytes] = []
        for record in records:
            if len(record) < TEXT_AT:
                continue
            if self._timestamps and self._at_line_start:
                parts.append(record[:STAMP_BYTES] + b" ")
            is_whole = record[TAG_AT : TAG_AT + 1] == b"F"
            parts.append(record[TEXT_AT:])
            if is_whole:
                parts.append(b"\n")
            self._at_line_start = is_whole
        return b"".join(parts)
