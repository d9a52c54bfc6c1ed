# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""Keeps the live copy of a flood at a rate that whoever reads it can follow, and counts the rest.

A kubelet keeps few megabytes of a container's output: who reads slower than a program writes loses
lines, and is not told (https://kubernetes.io/docs/concepts/cluster-administration/logging/#log-rotation).
So of a flood only a part goes to stdout, whole lines in a row, and a line of ours in each gap says
how many are missing. The archive has them. The program is not slowed.
"""

from collections import deque
from typing import Deque

from jobs.pod.protocol.notices import gap_line

RATE_BYTES_PER_S = 4 * 1024**2
BURST_BYTES = 16 * 1024**2
RESUME_BYTES = 1024**2  # a gap ends when so much may go out, so that gaps are few
HELD_BYTES = 256 * 1024  # of a flood that ends in a gap the newest lines are shown


class RateLimit:
    """Decides what of the output goes out. Pure: the clock (seconds) is given."""

    def __init__(self, now_s: float) -> None:
        self._left_bytes = float(BURST_BYTES)
        self._at_s = now_s
        self._is_skipping = False
        self._skipped_lines = 0
        self._held: Deque[bytes] = deque()
        self._held_bytes = 0
        self._at_line_start = True  # of what went out
        self._lost_line_start = True  # of what was skipped

    def feed(self, data: bytes, now_s: float) -> bytes:
        """What to write now."""
        earned = (now_s - self._at_s) * RATE_BYTES_PER_S
        self._left_bytes = min(float(BURST_BYTES), self._left_bytes + earned)
        self._at_s = now_s
        if self._is_skipping:
            self._hold(data)
            out = self._resume() if self._left_bytes >= RESUME_BYTES else b""
        elif self._left_bytes >= len(data):
            out = data
        else:
            out = self._begin_gap(data)
        self._left_bytes -= len(out)
        if out:
            self._at_line_start = out.endswith(b"\n")
        return out

    def finish(self) -> bytes:
        """The newest lines of a gap that nothing follows."""
        if not self._is_skipping:
            return b""
        return self._resume() or gap_line(self._skipped_lines + 1)

    def _begin_gap(self, data: bytes) -> bytes:
        """The rest of the line that is going out; a line without end is cut."""
        end = 0 if self._at_line_start else data.find(b"\n") + 1
        self._is_skipping = True
        self._skipped_lines = 0
        self._hold(data[end:])
        return data[:end]

    def _hold(self, data: bytes) -> None:
        """Keeps the newest of what does not go out, from a beginning of a line on."""
        if data:
            self._held.append(data)
        self._held_bytes += len(data)
        while self._held_bytes > HELD_BYTES and len(self._held) > 1:
            old = self._held.popleft()
            self._held_bytes -= len(old)
            self._skipped_lines += old.count(b"\n")
            self._lost_line_start = old.endswith(b"\n")

    def _resume(self) -> bytes:
        """The line about the gap, and what was held."""
        data = b"".join(self._held)
        if not self._lost_line_start:
            end = data.find(b"\n") + 1
            if not end:  # still in the middle of one line
                return b""
            self._skipped_lines += 1
            data = data[end:]
        self._held.clear()
        self._held_bytes = 0
        self._is_skipping, self._lost_line_start = False, True
        if not self._skipped_lines:
            return data
        line_break = b"" if self._at_line_start else b"\n"
        return line_break + gap_line(self._skipped_lines) + data
