"""Lets a process make a call itself with another path: chdir and exec cannot be done for it.

A filter's answer cannot change a call's arguments, so the thread is stopped in the moment in which
it leaves the call (ptrace), gets the path into its memory and its registers, and goes back to the
call. The path lies far below its stack, where nothing is kept.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
from collections.abc import Callable, Mapping
from typing import NamedTuple

from onebox.node.plain.answers import Arguments
from onebox.node.plain.memory import Memory

_SEIZE, _INTERRUPT, _DETACH, _GET_REGISTERS, _SET_REGISTERS = 0x4206, 0x4207, 17, 0x4204, 0x4205
_NT_PRSTATUS = 1
_WALL = 0x40000000
_FAR_BYTES, _NEAR_BYTES = 64 * 1024, 512


class _Layout(NamedTuple):
    """Where registers lie in what ptrace gives, in words of 8 bytes."""

    words: int
    arguments: tuple[int, ...]
    number: int
    origin: int | None
    program: int
    stack: int
    instruction_bytes: int


_LAYOUTS = {
    "x86_64": _Layout(27, (14, 13, 12, 7, 9, 8), 10, 15, 16, 19, 2),
    "aarch64": _Layout(34, (0, 1, 2, 3, 4, 5), 8, None, 32, 31, 4),
}

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request: int, tid: int, address: int = 0, data: int = 0) -> None:
    if _libc.ptrace(request, tid, address, data) < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"ptrace: {os.strerror(code)}")


def seize(tid: int) -> None:
    """Prepare a thread that waits in a call; it stops as soon as that is answered.

    Raises:
        OSError: it cannot be traced, such as when a debugger does so already.
    """
    _ptrace(_SEIZE, tid)
    _ptrace(_INTERRUPT, tid)


def redirect(tid: int, number: int, make: Callable[[int], Arguments], memory: Memory) -> int | None:
    """Make a seized thread, whose call has just been answered, repeat it with other arguments.

    Args:
        make: given an address, returns the bytes to write there and, by argument, the new values.

    Returns:
        None; or the wait status of a thread that ended instead.

    Raises:
        OSError: its memory could not be written; the call fails with that error.
    """
    _tid, status = os.waitpid(tid, _WALL)
    if not os.WIFSTOPPED(status):
        return status
    layout = _LAYOUTS[os.uname().machine]
    try:
        registers = _registers(tid, layout)
        try:
            changes = _write(tid, registers[layout.stack], make, memory)
        except OSError as error:
            registers[layout.arguments[0] if layout.origin is None else layout.number] = (
                -(error.errno or errno.EFAULT)
            ) & ((1 << 64) - 1)
        else:
            for argument, value in changes.items():
                registers[layout.arguments[argument]] = value
            registers[layout.number] = number
            registers[layout.program] -= layout.instruction_bytes
            if layout.origin is not None:
                registers[layout.origin] = (1 << 64) - 1  # nothing for the kernel to restart
        _set_registers(tid, layout, registers)
    finally:
        stopped_by = os.WSTOPSIG(status)
        _ptrace(
            _DETACH, tid, 0, 0 if stopped_by in (signal.SIGTRAP, signal.SIGSTOP) else stopped_by
        )
    return None


def _write(
    tid: int,
    stack: int,
    make: Callable[[int], Arguments],
    memory: Memory,
) -> Mapping[int, int]:
    size = len(make(0)[0])
    # Far away first: a signal that comes right now gets its frame near the stack's end.
    for distance in (_FAR_BYTES, _NEAR_BYTES):
        address = (stack - distance - size) & ~15
        data, changes = make(address)
        try:
            memory.write(tid, address, data)
        except OSError:
            if distance == _NEAR_BYTES:
                raise
        else:
            return changes
    raise AssertionError("unreachable")


class _Vector(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


def _registers(tid: int, layout: _Layout) -> list[int]:
    buffer = ctypes.create_string_buffer(layout.words * 8)
    vector = _Vector(ctypes.addressof(buffer), len(buffer))
    _ptrace(_GET_REGISTERS, tid, _NT_PRSTATUS, ctypes.addressof(vector))
    return list(struct.unpack(f"={layout.words}Q", buffer.raw))


def _set_registers(tid: int, layout: _Layout, registers: list[int]) -> None:
    buffer = ctypes.create_string_buffer(
        struct.pack(f"={layout.words}Q", *registers), layout.words * 8
    )
    vector = _Vector(ctypes.addressof(buffer), len(buffer))
    _ptrace(_SET_REGISTERS, tid, _NT_PRSTATUS, ctypes.addressof(vector))
