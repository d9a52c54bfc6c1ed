"""The Linux system calls that the Python library lacks: namespaces, mounts, capabilities.

Every function raises OSError with the call's name in the text. Called only by the small,
single-threaded programs of the sandbox (holder, pod init, container init).
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID, MS_NODEV, MS_NOEXEC = 2, 4, 8
MS_REC, MS_PRIVATE, MS_SLAVE = 16384, 1 << 18, 1 << 19

ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC = 1, 2, 4, 8

_AT_FDCWD = -100
_AT_EMPTY_PATH = 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_F_EMPTY_PATH = 0x04
_MNT_DETACH = 2
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_IN_ROOT = 0x10

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION_3 = 0x20080522

# Old calls have a number per architecture; those added since 5.0 have one for all.
_NUMBERS = {
    "x86_64": {"clone": 56, "pivot_root": 155, "capset": 126, "rt_sigaction": 13},
    "aarch64": {"clone": 220, "pivot_root": 41, "capset": 91, "rt_sigaction": 134},
}
_OPEN_TREE, _MOVE_MOUNT, _CLOSE_RANGE, _OPENAT2, _MOUNT_SETATTR = 428, 429, 436, 437, 442

_libc = ctypes.CDLL(None, use_errno=True)
# PyDLL keeps the interpreter's lock: fork_into must not let Python's state change under it.
_libc_locked = ctypes.PyDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _number(name: str) -> int:
    machine = os.uname().machine
    if machine not in _NUMBERS:
        raise OSError(f"system call numbers of the machine type {machine!r} are not known")
    return _NUMBERS[machine][name]


def raw(what: str, number: int, *args: int | bytes | ctypes.Array[ctypes.c_char]) -> int:
    """Make a system call by its number; `what` is the text of the error."""
    native = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    return _checked(_libc.syscall(ctypes.c_long(number), *native), what)


def unshare(flags: int) -> None:
    """Leave the named namespaces of the caller for new ones."""
    _checked(_libc.unshare(ctypes.c_int(flags)), f"unshare({flags:#x})")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace behind an open /proc/PID/ns file."""
    _checked(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), f"setns({kind:#x})")


def fork_into(flags: int) -> int:
    """Fork; the child starts in new namespaces. Returns 0 in the child, else its process id.

    os.fork cannot do this for a pid namespace more than once per process, hence clone(2) itself,
    with the interpreter's own preparations around it.
    """
    ctypes.pythonapi.PyOS_BeforeFork()
    arguments = (_number("clone"), flags | signal.SIGCHLD, 0, 0, 0, 0)
    pid: int = _libc_locked.syscall(*(ctypes.c_long(argument) for argument in arguments))
    code = ctypes.get_errno()
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(code, f"clone({flags:#x}): {os.strerror(code)}")
    return pid


def mount(source: str, target: str, kind: str, flags: int = 0, options: str = "") -> None:
    """Mount a new file system."""
    result = _libc.mount(
        os.fsencode(source),
        os.fsencode(target),
        os.fsencode(kind),
        ctypes.c_ulong(flags),
        os.fsencode(options) if options else None,
    )
    _checked(result, f"mount {kind} on {target}")


def set_propagation(target: str, flags: int) -> None:
    """Make every mount below `target` private or a slave."""
    result = _libc.mount(None, os.fsencode(target), None, ctypes.c_ulong(flags | MS_REC), None)
    _checked(result, f"change the propagation of {target}")


def open_tree(path: str, dir_fd: int = _AT_FDCWD) -> int:
    """Take a detached copy of the mounts at and below `path`; returns its descriptor."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    if not path:
        flags |= _AT_EMPTY_PATH
    what = f"copy the mount at {path or f'descriptor {dir_fd}'}"
    return raw(what, _OPEN_TREE, dir_fd, os.fsencode(path), flags)


def move_mount(tree_fd: int, target: str) -> None:
    """Attach a detached mount at `target`."""
    arguments = (tree_fd, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
    raw(f"mount on {target}", _MOVE_MOUNT, *arguments)


def restrict_tree(tree_fd: int, attributes: int, *, recursive: bool = True) -> None:
    """Add ATTR_RDONLY, ATTR_NOSUID ... to a mount and all mounts below it (Linux 5.12)."""
    size = 32
    block = ctypes.create_string_buffer(struct.pack("=QQQQ", attributes, 0, 0, 0), size)
    flags = _AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0)
    arguments = (_MOUNT_SETATTR, tree_fd, b"", flags)
    raw("mount_setattr", *arguments, block, size)


def open_beneath(root_fd: int, path: str) -> int:
    """Open `path` below a folder (O_PATH); no link in it leads out of that folder."""
    flags = os.O_PATH | os.O_CLOEXEC
    how = struct.pack("=QQQ", flags, 0, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)
    block = ctypes.create_string_buffer(how, len(how))
    return raw(f"open {path}", _OPENAT2, root_fd, os.fsencode(path), block, len(how))


def has_links(path: bytes) -> bool:
    """Whether a symbolic link lies on the way of an absolute path, its end included."""
    how = struct.pack("=QQQ", os.O_PATH | os.O_CLOEXEC, 0, _RESOLVE_NO_SYMLINKS)
    block = ctypes.create_string_buffer(how, len(how))
    try:
        os.close(raw("openat2", _OPENAT2, _AT_FDCWD, path, block, len(how)))
    except OSError as error:
        return error.errno == errno.ELOOP
    return False


def pivot_root(new_root: str) -> None:
    """Make a mount the root of this mount namespace and let go of the old root."""
    os.chdir(new_root)
    raw(f"pivot_root to {new_root}", _number("pivot_root"), b".", b".")
    _checked(_libc.umount2(b".", ctypes.c_int(_MNT_DETACH)), "let go of the old root")
    os.chdir("/")


def close_from(first_fd: int) -> None:
    """Close every descriptor from `first_fd` on, however high their numbers."""
    raw("close_range", _CLOSE_RANGE, first_fd, 0xFFFFFFFF, 0)


def _prctl(option: int, value: int | bytes, what: str, third: int = 0) -> None:
    native = value if isinstance(value, bytes) else ctypes.c_ulong(value)
    result = _libc.prctl(ctypes.c_int(option), native, ctypes.c_ulong(third), 0, 0)
    _checked(result, what)


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Ask the kernel to kill (or signal) this process when the thread that forked it ends."""
    _prctl(_PR_SET_PDEATHSIG, number, "PR_SET_PDEATHSIG")


def adopt_orphans() -> None:
    """Become the parent of every descendant whose own parent ends."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, "PR_SET_CHILD_SUBREAPER")


def unignore_libc_signals() -> None:
    """Back to default for the two signals that the C library keeps for itself (32 and 33).

    `signal.signal` cannot reach them, but a parent may have left them ignored (some build tools
    do), which exec hands on and which breaks the cancelling of threads in what follows.
    """
    # struct sigaction of the kernel: handler (0 is the default), flags, restorer, mask.
    default = ctypes.create_string_buffer(32)
    for number in (32, 33):
        raw("rt_sigaction", _number("rt_sigaction"), number, default, 0, 8)


def set_process_name(name: str) -> None:
    """Set the name that ps and top show; 15 characters at most."""
    _prctl(_PR_SET_NAME, name.encode()[:15] + b"\0", "PR_SET_NAME")


def drop_capability_bounds() -> None:
    """Empty the bounding and ambient sets: no exec of this process or its children gains any."""
    _prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL, "PR_CAP_AMBIENT_CLEAR_ALL")
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for capability in range(last + 1):
        _prctl(_PR_CAPBSET_DROP, capability, f"PR_CAPBSET_DROP {capability}")


def drop_capabilities() -> None:
    """Give up every capability that is held now."""
    header = ctypes.create_string_buffer(struct.pack("=Ii", _CAPABILITY_VERSION_3, 0), 8)
    nothing = ctypes.create_string_buffer(24)
    raw("capset", _number("capset"), header, nothing)


def forbid_new_privileges() -> None:
    """No exec of this process or its children gains rights by setuid bits or file capabilities."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, "PR_SET_NO_NEW_PRIVS")
