"""Reads and writes the memory of another process."""

from __future__ import annotations

import ctypes
import errno
import os

_PAGE_BYTES = 4096
_FIRST_BYTES = 256
PATH_BYTES = 4096


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


_libc = ctypes.CDLL(None, use_errno=True)
_read = _libc.process_vm_readv
_write = _libc.process_vm_writev
for _call in (_read, _write):
    _call.argtypes = (
        *(ctypes.c_int, ctypes.c_void_p, ctypes.c_ulong),
        *(ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong),
    )
    _call.restype = ctypes.c_ssize_t


class UnreadableError(OSError):
    """The memory is not there, or may not be looked at, or its process is gone."""


class Memory:
    """One reader and writer; not for several threads."""

    def __init__(self) -> None:
        self._page = ctypes.create_string_buffer(_PAGE_BYTES)
        self._here, self._there = _Vector(), _Vector()
        self._here_at = ctypes.addressof(self._here)
        self._there_at = ctypes.addressof(self._there)
        self._page_at = ctypes.addressof(self._page)

    def read(self, tid: int, address: int, size: int) -> bytes:
        """Return `size` bytes.

        Raises:
            UnreadableError: they are not all there, or the process is gone.
        """
        target = ctypes.create_string_buffer(size)
        if self._move(_read, tid, ctypes.addressof(target), address, size) != size:
            raise UnreadableError(errno.EFAULT, os.strerror(errno.EFAULT))
        return target.raw

    def write(self, tid: int, address: int, data: bytes) -> None:
        """Write bytes.

        Raises:
            UnreadableError: that memory cannot be written, or the process is gone.
        """
        source = ctypes.create_string_buffer(data, len(data))
        if self._move(_write, tid, ctypes.addressof(source), address, len(data)) != len(data):
            raise UnreadableError(errno.EFAULT, os.strerror(errno.EFAULT))

    def read_string(self, tid: int, address: int) -> bytes:
        """Return the bytes up to a zero, as the kernel reads a path.

        Raises:
            OSError: ENAMETOOLONG.
            UnreadableError: as `read`.
        """
        found = b""
        size = _FIRST_BYTES
        while len(found) < PATH_BYTES:
            # Never over the end of a page: the next one may not be there.
            part = min(size, _PAGE_BYTES - address % _PAGE_BYTES)
            got = self._move(_read, tid, self._page_at, address, part)
            text = self._page.raw[:got]
            end = text.find(b"\0")
            if end >= 0:
                return found + text[:end]
            found += text
            address += got
            size = _PAGE_BYTES
        raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))

    def _move(
        self, call: ctypes._NamedFuncPointer, tid: int, here: int, there: int, size: int
    ) -> int:
        self._here.base, self._here.size = here, size
        self._there.base, self._there.size = there, size
        moved: int = call(tid, self._here_at, 1, self._there_at, 1, 0)
        if moved <= 0:
            code = ctypes.get_errno() or errno.EFAULT
            raise UnreadableError(code, os.strerror(code))
        return moved
