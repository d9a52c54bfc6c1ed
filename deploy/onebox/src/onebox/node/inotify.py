"""Tells waiting tasks that something in a folder changed, without polling (inotify(7))."""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import os
import struct
from pathlib import Path

log = logging.getLogger(__name__)

_IN_MODIFY = 0x2
_IN_MOVED_TO = 0x80
_IN_CREATE = 0x100
_IN_ONESHOT = 0x80000000
_IN_IGNORED = 0x8000
_IN_Q_OVERFLOW = 0x4000
_HEADER = struct.Struct("iIII")
# Only when the kernel has no watch left for us.
FALLBACK_POLL_S = 0.5


class FolderWatcher:
    """One inotify instance for all folders. Watches fire once, so an unread log costs nothing."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = int(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        if self._fd < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"inotify is not available: {os.strerror(code)}")
        self._waiting: dict[int, set[asyncio.Event]] = {}
        asyncio.get_running_loop().add_reader(self._fd, self._read)

    def close(self) -> None:
        """Stop watching."""
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)

    def arm(self, folder: Path, event: asyncio.Event) -> None:
        """Set `event` at the next change in `folder`, once; look for changes after this call."""
        mask = _IN_MODIFY | _IN_MOVED_TO | _IN_CREATE | _IN_ONESHOT
        watch = self._libc.inotify_add_watch(self._fd, os.fsencode(folder), ctypes.c_uint32(mask))
        if watch >= 0:
            self._waiting.setdefault(watch, set()).add(event)
            return
        code = ctypes.get_errno()
        if code == errno.ENOENT:
            event.set()
            return
        log.warning("cannot watch %s (%s), looking every half second", folder, os.strerror(code))
        asyncio.get_running_loop().call_later(FALLBACK_POLL_S, event.set)

    def _read(self) -> None:
        try:
            data = os.read(self._fd, 64 * 1024)
        except BlockingIOError:
            return
        offset = 0
        while offset < len(data):
            watch, mask, _, length = _HEADER.unpack_from(data, offset)
            offset += _HEADER.size + length
            if mask & _IN_Q_OVERFLOW:
                self._tell_all()
            elif not mask & _IN_IGNORED:
                self._tell(watch)

    def _tell(self, watch: int) -> None:
        for event in self._waiting.pop(watch, ()):
            event.set()

    def _tell_all(self) -> None:
        for watch in list(self._waiting):
            self._tell(watch)
