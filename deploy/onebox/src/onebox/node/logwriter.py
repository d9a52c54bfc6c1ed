"""Container output to a log file in the CRI format, at the speed of a flood.

A record is `2026-11-20T16:00:00.123456789Z stdout F text`; a line longer than 16 KiB becomes
several records of which all but the last carry P instead of F. Format:
https://github.com/kubernetes/design-proposals-archive/blob/main/node/kubelet-cri-logging.md
Bytes are kept as they are. The clock is read once per chunk, so records of one chunk share a stamp.
"""

from __future__ import annotations

import os
import time

LINE_BYTES = 16 * 1024
ROTATE_BYTES = 10 * 1024 * 1024
KEPT_FILES = 5


class LogWriter:
    """The log of one run of a container.

    Rotation renames the file to `path.1` (and so on up to `path.4`) between two records and opens
    a new one, so a reader that holds the old file can finish it. A full disk loses output rather
    than stops the program; the log says how much, as soon as it can be written again.
    """

    def __init__(self, path: str, rotate_bytes: int = ROTATE_BYTES) -> None:
        self._path = path
        self._rotate_bytes = rotate_bytes
        self._rest = {"stdout": b"", "stderr": b""}
        self._last_ns = 0
        self._lost_bytes = 0
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._fd = -1
        self._size = 0
        self._open()

    def write(self, stream: str, chunk: bytes) -> None:
        """Append what a program wrote to "stdout" or "stderr"; an unfinished line waits."""
        data = self._rest[stream] + chunk if self._rest[stream] else chunk
        end = data.rfind(b"\n") + 1
        head, rest = data[:end], data[end:]
        records = []
        if head and _all_short(head):
            full = self._prefix(stream, b"F")
            records.append(full + head[:-1].replace(b"\n", b"\n" + full) + b"\n")
        elif head:
            records.append(self._split_long(head, stream))
        while len(rest) > LINE_BYTES:
            records.append(self._prefix(stream, b"P") + rest[:LINE_BYTES] + b"\n")
            rest = rest[LINE_BYTES:]
        self._rest[stream] = rest
        if records:
            self._append(b"".join(records))

    def finish(self) -> None:
        """Write lines that never got their newline, and close the file."""
        for stream, rest in self._rest.items():
            if rest:
                self._append(self._prefix(stream, b"F") + rest + b"\n")
        self._rest.clear()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _split_long(self, head: bytes, stream: str) -> bytes:
        """Return the records of lines of which some are too long for one record."""
        full, partial = self._prefix(stream, b"F"), self._prefix(stream, b"P")
        lines = []
        for line in head[:-1].split(b"\n"):
            if len(line) <= LINE_BYTES:
                lines.append(full + line)
                continue
            starts = range(0, len(line), LINE_BYTES)
            pieces = [line[start : start + LINE_BYTES] for start in starts]
            lines.extend(partial + piece for piece in pieces[:-1])
            lines.append(full + pieces[-1])
        return b"\n".join(lines) + b"\n"

    def _prefix(self, stream: str, tag: bytes) -> bytes:
        now_ns = max(self._last_ns, time.time_ns())
        self._last_ns = now_ns
        seconds, nanoseconds = divmod(now_ns, 1_000_000_000)
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
        return b"%s.%09dZ %s %s " % (stamp.encode(), nanoseconds, stream.encode(), tag)

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o640)
        self._size = os.fstat(self._fd).st_size

    def _append(self, records: bytes) -> None:
        try:
            if self._fd < 0:
                self._open()
            if self._size >= self._rotate_bytes:
                self._rotate()
            if self._lost_bytes:
                text = b"[%d bytes of output were lost: the disk was full]\n" % self._lost_bytes
                self._write_whole(self._prefix("stderr", b"F") + text)
                self._lost_bytes = 0
            self._write_whole(records)
        except OSError:
            self._lost_bytes += len(records)

    def _write_whole(self, records: bytes) -> None:
        view = memoryview(records)
        before = self._size
        try:
            while view:
                written = os.write(self._fd, view)
                self._size += written
                view = view[written:]
        except OSError:
            # Half a record would make the next one unreadable.
            os.ftruncate(self._fd, before)
            self._size = before
            raise

    def _rotate(self) -> None:
        os.close(self._fd)
        self._fd = -1
        for number in range(KEPT_FILES - 1, 0, -1):
            older = f"{self._path}.{number}"
            newer = f"{self._path}.{number - 1}" if number > 1 else self._path
            if os.path.exists(newer):
                os.rename(newer, older)
        self._open()


def _all_short(head: bytes) -> bool:
    """Whether no line exceeds LINE_BYTES, found in steps of almost that size."""
    start = 0
    while start < len(head):
        newline = head.rfind(b"\n", start, start + LINE_BYTES + 1)
        if newline < 0:
            return False
        start = newline + 1
    return True
