"""The descriptors of the sandbox's programs: output pipes, waiting for many, closing all others."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
from collections.abc import Callable, Sequence

from onebox.node import syscalls

# Fewer wake-ups in a flood; the kernel's default is 64 KiB.
_PIPE_BYTES = 256 * 1024
_F_SETPIPE_SZ = 1031


def keep_only(fds: Sequence[int]) -> list[int]:
    """Close every descriptor but 0, 1, 2 and the given ones; return their new numbers."""
    order = sorted(range(len(fds)), key=lambda index: fds[index])
    moved = [0] * len(fds)
    for position, index in enumerate(order):
        # Sorted, a target is never above its source, so nothing still needed is overwritten.
        target = 3 + position
        if fds[index] != target:
            os.dup2(fds[index], target, inheritable=False)
        moved[index] = target
    syscalls.close_from(3 + len(fds))
    return moved


class OutputPipe:
    """A pipe for a program's output, large where the user's allowance for pipes permits."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe2(os.O_CLOEXEC)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.read_end, _F_SETPIPE_SZ, _PIPE_BYTES)


class Watcher:
    """Calls a function for every descriptor that becomes readable; closes those it forgets."""

    def __init__(self) -> None:
        self._poll = select.poll()
        self._readers: dict[int, Callable[[], None]] = {}

    def watch(self, fd: int, reader: Callable[[], None]) -> None:
        """Call `reader` whenever there is something to read (or the end)."""
        self._readers[fd] = reader
        self._poll.register(fd, select.POLLIN)

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor and close it."""
        del self._readers[fd]
        self._poll.unregister(fd)
        os.close(fd)

    def wait(self, timeout_ms: float | None) -> None:
        """Wait for what is watched, or the time, and call the readers."""
        for fd, _events in self._poll.poll(timeout_ms):
            reader = self._readers.get(fd)
            if reader is not None:
                reader()
