"""The kernel's side of answering system calls: `seccomp` user notification.

https://www.kernel.org/doc/html/latest/userspace-api/seccomp_filter.html#userspace-notification
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import struct
from typing import NamedTuple

from onebox.node import syscalls

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER = 1
_NEW_LISTENER = 1 << 3
# Once taken up, a call is not interrupted by signals: what was done for it is not done twice.
_WAIT_KILLABLE = 1 << 5

_RECEIVE, _SEND, _ADD_FD, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40182103, 0x40082104
_SYNC_WAKE_UP = 1
_CONTINUE = 1
_ADD_FD_SEND = 1 << 1

_NOTIFICATION = struct.Struct("=QIIiI7Q")
_RESPONSE = struct.Struct("=QqiI")
_ADDITION = struct.Struct("=QIIII")
_ZEROES = bytes(_NOTIFICATION.size)


class Call(NamedTuple):
    """A system call that waits for its answer.

    Args:
        tid: the thread that made it.
        args: its six arguments, as they lie in registers.
    """

    id: int
    tid: int
    number: int
    args: tuple[int, ...]


def install_filter(program: bytes) -> int:
    """Install a filter for this process and all its children; return the listener's descriptor.

    Raises:
        OSError: the kernel or whoever runs us refuses (EBUSY: there is a listener already).
    """
    body = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(body))
    block = ctypes.create_string_buffer(header, len(header))
    number = _SECCOMP[os.uname().machine]
    try:
        flags = _NEW_LISTENER | _WAIT_KILLABLE
        return syscalls.raw("seccomp", number, _SET_MODE_FILTER, flags, block)
    except OSError as error:
        if error.errno != errno.EINVAL:  # before Linux 5.19
            raise
    return syscalls.raw("seccomp", number, _SET_MODE_FILTER, _NEW_LISTENER, block)


class Listener:
    """Takes calls and answers them."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self._buffer = bytearray(_NOTIFICATION.size)
        with contextlib.suppress(OSError):
            fcntl.ioctl(fd, _SET_FLAGS, _SYNC_WAKE_UP)  # faster, since Linux 6.6

    def receive(self) -> Call | None:
        """Take the call that waits; None where it no longer does."""
        self._buffer[:] = _ZEROES
        try:
            fcntl.ioctl(self.fd, _RECEIVE, self._buffer)
        except OSError:  # its process was killed meanwhile
            return None
        call_id, tid, _flags, number, _arch, _ip, *args = _NOTIFICATION.unpack(self._buffer)
        return Call(call_id, tid, number, tuple(args))

    def let_through(self, call: Call) -> None:
        """Let the kernel do the call as it was made."""
        self._send(_RESPONSE.pack(call.id, 0, 0, _CONTINUE))

    def answer(self, call: Call, value: int) -> None:
        """Answer a call; a negative value is an error number."""
        result, error = (value, 0) if value >= 0 else (0, value)
        self._send(_RESPONSE.pack(call.id, result, error, 0))

    def hand_over(self, call: Call, fd: int, *, closes_on_exec: bool) -> None:
        """Answer a call with a copy of a descriptor of ours."""
        flags = os.O_CLOEXEC if closes_on_exec else 0
        try:
            fcntl.ioctl(self.fd, _ADD_FD, _ADDITION.pack(call.id, _ADD_FD_SEND, fd, 0, flags))
        except OSError as error:
            if error.errno != errno.ENOENT:  # such as EMFILE: its table is full
                self.answer(call, -(error.errno or errno.EMFILE))

    def _send(self, response: bytes) -> None:
        with contextlib.suppress(OSError):  # nobody waits any more
            fcntl.ioctl(self.fd, _SEND, response)
