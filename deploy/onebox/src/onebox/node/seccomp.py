"""The system calls that no container may make, as a seccomp filter.

This is what `seccompProfile: RuntimeDefault` asks for: what container runtimes refuse to programs
without capabilities (https://docs.docker.com/engine/security/seccomp/), written as a list of what is
refused: new namespaces and mounts, kernel modules, keys, tracing of the kernel, io_uring, and
AF_VSOCK, which no network namespace fences in. Refused calls fail with EPERM; clone3, whose flags a
filter cannot see, with ENOSYS, upon which the C library falls back to clone. So do all calls of
another architecture (32-bit programs).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import NamedTuple

_PR_SET_SECCOMP = 22
_MODE_FILTER = 2
_RET_ALLOW = 0x7FFF0000
_RET_ERRNO = 0x00050000

# struct seccomp_data: nr, arch, instruction_pointer, args[6]; the low half of args[0] at 16.
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_FIRST_ARGUMENT = 0, 4, 16
_LOAD_WORD, _RETURN = 0x20, 0x06
_JUMP_EQUAL, _JUMP_GREATER_OR_EQUAL, _JUMP_ANY_BIT = 0x15, 0x35, 0x45
_X32_CALLS = 0x40000000
_ANY_NEW_NAMESPACE = 0x7E020000
_AF_VSOCK = 40

_CLONE3 = 435
# fsopen and its kin, io_uring, open_tree, move_mount, mount_setattr, quotactl_fd: one number
# on every architecture.
_REFUSED_EVERYWHERE = (*range(425, 434), 442, 443)


class _Calls(NamedTuple):
    audit_id: int
    clone: int
    socket: int
    refused: tuple[int, ...]


_ARCHITECTURES = {
    "x86_64": _Calls(
        audit_id=0xC000003E,
        clone=56,
        socket=41,
        # syslog, pivot_root, chroot, acct, settimeofday, mount, umount2, swapon, swapoff, reboot,
        # iopl, ioperm, init_module, delete_module, quotactl, clock_settime, kexec_load, add_key,
        # request_key, keyctl, unshare, perf_event_open, open_by_handle_at, setns, finit_module,
        # kexec_file_load, bpf, userfaultfd
        refused=(
            *(103, 155, 161, 163, 164, 165, 166, 167, 168, 169, 172, 173, 175, 176, 179, 227),
            *(246, 248, 249, 250, 272, 298, 304, 308, 313, 320, 321, 323),
        ),
    ),
    "aarch64": _Calls(
        audit_id=0xC00000B7,
        clone=220,
        socket=198,
        # the same, without iopl and ioperm, which that architecture has not
        refused=(
            *(116, 41, 51, 89, 170, 40, 39, 224, 225, 142, 105, 106, 60, 112),
            *(104, 217, 218, 219, 97, 241, 265, 268, 273, 294, 280, 282),
        ),
    ),
}


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _refuse(code: int) -> bytes:
    return _instruction(_RETURN, _RET_ERRNO | code)


def build_filter(machine: str) -> bytes:
    """Return the filter program for a machine type as uname gives it.

    Raises:
        KeyError: there is no table for that type.
    """
    table = _ARCHITECTURES[machine]
    refused = (*table.refused, *_REFUSED_EVERYWHERE)
    load_number = _instruction(_LOAD_WORD, _OFFSET_NUMBER)
    load_argument = _instruction(_LOAD_WORD, _OFFSET_FIRST_ARGUMENT)
    allow = _instruction(_RETURN, _RET_ALLOW)
    parts = [
        _instruction(_LOAD_WORD, _OFFSET_ARCH),
        _instruction(_JUMP_EQUAL, table.audit_id, if_true=1),
        _refuse(errno.ENOSYS),
        load_number,
        _instruction(_JUMP_GREATER_OR_EQUAL, _X32_CALLS, if_false=1),
        _refuse(errno.ENOSYS),
        _instruction(_JUMP_EQUAL, _CLONE3, if_false=1),
        _refuse(errno.ENOSYS),
    ]
    for number in refused:
        parts.append(_instruction(_JUMP_EQUAL, number, if_false=1))
        parts.append(_refuse(errno.EPERM))
    parts += [
        _instruction(_JUMP_EQUAL, table.clone, if_false=4),
        load_argument,
        _instruction(_JUMP_ANY_BIT, _ANY_NEW_NAMESPACE, if_false=1),
        _refuse(errno.EPERM),
        allow,
        _instruction(_JUMP_EQUAL, table.socket, if_false=3),
        load_argument,
        _instruction(_JUMP_EQUAL, _AF_VSOCK, if_false=1),
        _refuse(errno.EPERM),
        allow,
    ]
    return b"".join(parts)


def forbid_dangerous_calls() -> None:
    """Install the filter in this process, for ever and for all its children.

    Without privilege this takes "no new privileges" first. A kernel built without seccomp is left
    as it is; the trial at the sandbox's start notices that and says so.
    """
    program = build_filter(os.uname().machine)
    body = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // 8, ctypes.addressof(body))
    block = ctypes.create_string_buffer(header, len(header))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_SECCOMP, ctypes.c_ulong(_MODE_FILTER), block, 0, 0) < 0:
        code = ctypes.get_errno()
        if code != errno.EINVAL:
            raise OSError(code, f"install the seccomp filter: {os.strerror(code)}")
