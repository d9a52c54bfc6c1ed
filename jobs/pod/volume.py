# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""The log on the volume, as the runner writes it: segments up to a limit, whatever the volume does."""

import contextlib
import errno
import os
import time
from collections import deque
from typing import Deque, Dict, List, Optional, Tuple

from jobs.pod.files import remove
from jobs.pod.protocol import codes
from jobs.pod.segments import Segment, segment_path
from jobs.pod.shipping import Shipper

VOLUME_RETRY_S = 30
FULL_BELOW_BYTES = 1024 * 1024  # programs write in pieces: the last one that fits is not known


def is_full(folder: str) -> bool:
    """Whether next to nothing can be written there any more; False when it cannot be told."""
    try:
        room = os.statvfs(folder)
    except OSError:
        return False
    return room.f_bavail * room.f_frsize < FULL_BELOW_BYTES


class LogVolume:
    """Writes the log to segment files; keeps the first half and the newest half of what may stay.

    Used by the main thread only. `position` is where the next byte of the log belongs, counted over
    all pods of the attempt, whether it can be kept or not.
    """

    def __init__(self, folder: str, limits: Dict[str, int], shipper: Shipper) -> None:
        self._folder = folder
        self._half_bytes = max(1, int(limits["log_archive_bytes"]) // 2)
        # Small enough that dropping one does not drop most of what is kept.
        self._segment_bytes = min(int(limits["segment_bytes"]), max(1, self._half_bytes // 2))
        self._segment_s = float(limits["segment_s"])
        self._shipper = shipper
        self._fd: Optional[int] = None
        self._number = 0
        self._start = self._size = 0
        self._opened_at = 0.0
        self._retry_at = 0.0
        self._head_bytes = self._ring_bytes = 0
        self._ring: Deque[Segment] = deque()
        self.position = 0
        self.problem: Optional[Tuple[str, str]] = None

    @property
    def last_number(self) -> int:
        """Of the segment that was begun last; 0 when there was none."""
        return self._number

    @property
    def skipped_bytes(self) -> int:
        """Bytes of the log that are not kept, exactly."""
        return self.position - self._head_bytes - self._ring_bytes - self._size

    def resume(self, segments: List[Segment], last_number: int, end: int) -> None:
        """Goes on where earlier pods of this attempt stopped."""
        self._number, self.position = last_number, end
        for segment in segments:
            self._shipper.assume_sent(segment.number)
            self._keep(segment)

    def write(self, data: bytes) -> None:
        """Appends to the log; never fails: `problem` tells why bytes are skipped.

        What comes at once is cut at the segments' size: a burst in one segment larger than the half
        that is kept of the beginning would leave nothing of it.
        """
        view = memoryview(data)
        while view:
            used = self._size if self._fd is not None else 0
            piece = view[: max(1, self._segment_bytes - used)]
            self._append(piece)
            view = view[len(piece) :]

    def _append(self, view: memoryview) -> None:
        start = self.position
        self.position += len(view)
        if self._fd is None and not self._open(start):
            return
        try:
            while view and self._fd is not None:
                written = os.write(self._fd, view)
                self._size += written
                view = view[written:]
        except OSError as error:
            self._fail(error)
            self.close()
            return
        if self._size >= self._segment_bytes:
            self.close()

    def tick(self) -> None:
        """Closes a segment that is old enough; called about once a second."""
        if self._fd is not None and time.monotonic() - self._opened_at >= self._segment_s:
            self.close()

    def _open(self, start: int) -> bool:
        if time.monotonic() < self._retry_at:
            return False
        number = self._number + 1
        try:
            with open(os.path.join(self._folder, "starts"), "a") as file:
                # A line break first: what a full volume cut off must not run into this line.
                file.write(f"\n{number} {start}\n")
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            self._fd = os.open(segment_path(self._folder, number), flags, 0o644)
        except OSError as error:
            self._fail(error)
            return False
        self._number, self._start, self._size = number, start, 0
        self._opened_at = time.monotonic()
        return True

    def close(self) -> None:
        """Ends the segment that is being written, if there is one."""
        if self._fd is None:
            return
        fd, self._fd = self._fd, None
        path = segment_path(self._folder, self._number)
        size, self._size = self._size, 0
        try:
            os.close(fd)
        except OSError as error:
            self._fail(error)
        if self.problem is not None:
            # A file system of the network may refuse what it has taken.
            with contextlib.suppress(OSError):
                size = min(size, os.stat(path).st_size)
        if size:
            self._keep(Segment(self._number, self._start, size, path, time.monotonic(), False))
        else:
            remove(path)

    def _keep(self, segment: Segment) -> None:
        if not self._ring and self._head_bytes + segment.size <= self._half_bytes:
            self._head_bytes += segment.size
            self._shipper.add(segment)
            return
        self._ring.append(segment)
        self._ring_bytes += segment.size
        while self._ring_bytes > self._half_bytes and len(self._ring) > 1:
            dropped = self._ring.popleft()
            self._ring_bytes -= dropped.size
            self._shipper.drop(dropped.number)
            remove(dropped.path)
        self._shipper.add(segment._replace(in_ring=True))

    def _fail(self, error: OSError) -> None:
        self._retry_at = time.monotonic() + VOLUME_RETRY_S
        if self.problem is not None:
            return
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            self.problem = (
                codes.VOLUME_FULL,
                "the log volume is full; while it is, the output is live only and is not kept",
            )
        else:
            text = (
                f"the log volume cannot be written ({error.strerror or error}); "
                "while that lasts, the output is live only and is not kept"
            )
            self.problem = (codes.VOLUME_NOT_WRITABLE, text)
