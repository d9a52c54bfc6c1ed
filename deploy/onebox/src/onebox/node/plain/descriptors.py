"""Copies of other processes' descriptors."""

from __future__ import annotations

import errno
import os

from onebox.node import syscalls
from onebox.node.plain.calls import numbers


class BorrowRefused(Exception):  # noqa: N818 - a state of affairs: do it another way
    """The engine around us does not let descriptors be copied, as Docker's own profile does."""


def borrow(tid: int, fd: int) -> int:
    """Return our own copy of a descriptor of a thread's process.

    Raises:
        OSError: EBADF, or the process is gone.
        BorrowRefused: that is not allowed here.
    """
    process = os.pidfd_open(process_of(tid))
    try:
        number = numbers(os.uname().machine)["pidfd_getfd"]
        return syscalls.raw("pidfd_getfd", number, process, fd & 0xFFFFFFFF, 0)
    except OSError as error:
        if error.errno in (errno.EPERM, errno.ENOSYS):
            raise BorrowRefused from error
        raise
    finally:
        os.close(process)


def process_of(tid: int) -> int:
    """Return the process that a thread belongs to."""
    with open(f"/proc/{tid}/status") as file:
        for line in file:
            if line.startswith("Tgid:"):
                return int(line.split()[1])
    return tid
