"""Which system calls are answered for pods, and what their arguments are.

A signature has one word per argument: `dir` the folder that the next path is relative to, `path`,
`text` another string, `int`, `fd` a descriptor, `in:N` N bytes or none, `inn:K` as many as argument
K says, `out:N` and `outn:K` the same for what comes back. Only absolute paths are looked at:
a relative one begins at a folder that was opened or entered before, and is right as it is.
"""

from __future__ import annotations

import os
from typing import NamedTuple


class Signature(NamedTuple):
    """What a call takes.

    Args:
        changes: it writes to the file system, whatever its flags.
        creates: what it makes has the caller's umask.
        opens: it returns a descriptor.
        flags_at: the argument with open's flags.
        removes: it takes a name away, which a mount point refuses.
        stays: a link at the end of the path is not followed.
        link_flags_at: the argument whose AT_SYMLINK_NOFOLLOW says so.
        mode_at: the argument that says what access is asked for.
    """

    words: tuple[str, ...]
    changes: bool = False
    creates: bool = False
    opens: bool = False
    flags_at: int = -1
    removes: bool = False
    stays: bool = False
    link_flags_at: int = -1
    mode_at: int = -1


def _signature(text: str, **more: bool | int) -> Signature:
    return Signature(tuple(text.split()), **more)  # type: ignore[arg-type]


_STAT_BYTES = {"x86_64": 144, "aarch64": 128}.get(os.uname().machine, 144)

SIGNATURES = {
    "open": _signature("path int int", opens=True, flags_at=1),
    "openat": _signature("dir path int int", opens=True, flags_at=2),
    "creat": _signature("path int", opens=True, changes=True, creates=True),
    "stat": _signature(f"path out:{_STAT_BYTES}"),
    "lstat": _signature(f"path out:{_STAT_BYTES}", stays=True),
    "newfstatat": _signature(f"dir path out:{_STAT_BYTES} int", link_flags_at=3),
    "statx": _signature("dir path int int out:256", link_flags_at=2),
    "access": _signature("path int", mode_at=1),
    "faccessat": _signature("dir path int", mode_at=2),
    "faccessat2": _signature("dir path int int", link_flags_at=3, mode_at=2),
    "readlink": _signature("path outn:2 int", stays=True),
    "readlinkat": _signature("dir path outn:3 int", stays=True),
    "statfs": _signature("path out:120"),
    "mkdir": _signature("path int", changes=True, creates=True, stays=True),
    "mkdirat": _signature("dir path int", changes=True, creates=True, stays=True),
    "mknod": _signature("path int int", changes=True, creates=True, stays=True),
    "mknodat": _signature("dir path int int", changes=True, creates=True, stays=True),
    "rmdir": _signature("path", changes=True, removes=True, stays=True),
    "unlink": _signature("path", changes=True, removes=True, stays=True),
    "unlinkat": _signature("dir path int", changes=True, removes=True, stays=True),
    "rename": _signature("path path", changes=True, removes=True, stays=True),
    "renameat": _signature("dir path dir path", changes=True, removes=True, stays=True),
    "renameat2": _signature("dir path dir path int", changes=True, removes=True, stays=True),
    "link": _signature("path path", changes=True, stays=True),
    "linkat": _signature("dir path dir path int", changes=True, stays=True),
    "symlink": _signature("text path", changes=True, stays=True),
    "symlinkat": _signature("text dir path", changes=True, stays=True),
    "chmod": _signature("path int", changes=True),
    "fchmodat": _signature("dir path int", changes=True),
    "fchmodat2": _signature("dir path int int", changes=True, link_flags_at=3),
    "chown": _signature("path int int", changes=True),
    "lchown": _signature("path int int", changes=True, stays=True),
    "fchownat": _signature("dir path int int int", changes=True, link_flags_at=4),
    "utime": _signature("path in:16", changes=True),
    "utimes": _signature("path in:32", changes=True),
    "futimesat": _signature("dir path in:32", changes=True),
    "utimensat": _signature("dir path in:32 int", changes=True, link_flags_at=3),
    "truncate": _signature("path int", changes=True),
    "setxattr": _signature("path text inn:3 int int", changes=True),
    "lsetxattr": _signature("path text inn:3 int int", changes=True, stays=True),
    "getxattr": _signature("path text outn:3 int"),
    "lgetxattr": _signature("path text outn:3 int", stays=True),
    "listxattr": _signature("path outn:2 int"),
    "llistxattr": _signature("path outn:2 int", stays=True),
    "removexattr": _signature("path text", changes=True),
    "lremovexattr": _signature("path text", changes=True, stays=True),
    "inotify_add_watch": _signature("fd path int"),
}
"""Calls that are made in the pod's stead, with the path that is meant."""

STEERED = {"chdir": 0, "execve": 0, "execveat": 1}
"""Calls that only the process itself can make: which argument is the path."""

OTHERS = ("getcwd", "uname", "bind", "connect")
"""Calls that are answered in other ways; sendto and kill only with certain arguments."""

_SHARED = {"statx": (332, 291), "faccessat2": (439, 439), "fchmodat2": (452, 452)}
_NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # name: (x86_64, aarch64); https://github.com/torvalds/linux/tree/master/arch and
    # include/uapi/asm-generic/unistd.h
    "open": (2, None),
    "stat": (4, None),
    "lstat": (6, None),
    "access": (21, None),
    "execve": (59, 221),
    "uname": (63, 160),
    "truncate": (76, 45),
    "getcwd": (79, 17),
    "chdir": (80, 49),
    "rename": (82, None),
    "mkdir": (83, None),
    "rmdir": (84, None),
    "creat": (85, None),
    "link": (86, None),
    "unlink": (87, None),
    "symlink": (88, None),
    "readlink": (89, None),
    "chmod": (90, None),
    "chown": (92, None),
    "lchown": (94, None),
    "utime": (132, None),
    "mknod": (133, None),
    "statfs": (137, 43),
    "utimes": (235, None),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "getxattr": (191, 8),
    "lgetxattr": (192, 9),
    "listxattr": (194, 11),
    "llistxattr": (195, 12),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "inotify_add_watch": (254, 27),
    "openat": (257, 56),
    "mkdirat": (258, 34),
    "mknodat": (259, 33),
    "fchownat": (260, 54),
    "futimesat": (261, None),
    "newfstatat": (262, 79),
    "unlinkat": (263, 35),
    "renameat": (264, 38),
    "linkat": (265, 37),
    "symlinkat": (266, 36),
    "readlinkat": (267, 78),
    "fchmodat": (268, 53),
    "faccessat": (269, 48),
    "utimensat": (280, 88),
    "renameat2": (316, 276),
    "execveat": (322, 281),
    "bind": (49, 200),
    "connect": (42, 203),
    "sendto": (44, 206),
    "kill": (62, 129),
    "pidfd_getfd": (438, 438),
    **_SHARED,
}


def numbers(machine: str) -> dict[str, int]:
    """Return the numbers of the calls that a machine type has.

    Raises:
        KeyError: the type is not known.
    """
    column = {"x86_64": 0, "aarch64": 1}[machine]
    found = {name: pair[column] for name, pair in _NUMBERS.items()}
    return {name: number for name, number in found.items() if number is not None}
