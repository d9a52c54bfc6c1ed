"""Run a command as in a plain container: `python plain_container.py [OPTION HOW] COMMAND...`

No user namespaces, no capability, none to be had by exec. --no-notification adds `busy`, as where
the container's engine answers calls itself, or `refused`, as where seccomp is not allowed;
--engine docker refuses what Docker's own profile does. --only-notification HOW leaves all rights.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import sys
from pathlib import Path

from onebox.node import syscalls
from onebox.node.plain.notify import install_filter

_PR_SET_SECUREBITS, _NOROOT_LOCKED = 28, 3
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_PIDFD_GETFD = 438
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000


def drop() -> None:
    """Lose everything that a plain container has not."""
    uid, gid = os.getuid(), os.getgid()
    syscalls.unshare(syscalls.CLONE_NEWUSER)
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    Path("/proc/sys/user/max_user_namespaces").write_text("0")
    ctypes.CDLL(None).prctl(_PR_SET_SECUREBITS, _NOROOT_LOCKED, 0, 0, 0)
    syscalls.drop_capability_bounds()
    syscalls.drop_capabilities()
    syscalls.forbid_new_privileges()


def hold_a_listener() -> None:
    """Take the one listener that a process tree can have, for a filter that asks nothing."""
    os.set_inheritable(install_filter(_program((0x06, 0, 0, _ALLOW))), True)


def refuse_seccomp() -> None:
    """Refuse seccomp(2) as an engine's profile may do."""
    refuse(_SECCOMP[os.uname().machine])


def refuse(number: int) -> None:
    """Refuse a system call with EPERM."""
    refused = _ERRNO | errno.EPERM
    parts = ((0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, refused), (0x06, 0, 0, _ALLOW))
    os.close(install_filter(_program(*parts)))


def _program(*instructions: tuple[int, int, int, int]) -> bytes:
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)


def main() -> None:
    arguments = sys.argv[1:]
    option = how = ""
    if arguments[0].startswith("--"):
        option, how, arguments = arguments[0], arguments[1], arguments[2:]
    if option != "--only-notification":
        drop()
    if how == "busy":
        hold_a_listener()
    elif how == "refused":
        refuse_seccomp()
    elif how == "docker":
        refuse(_PIDFD_GETFD)
    with contextlib.suppress(FileNotFoundError):
        os.execvp(arguments[0], arguments)
    sys.exit(127)


if __name__ == "__main__":
    main()
