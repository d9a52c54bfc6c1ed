"""Becoming the user's program: identity, capabilities, limits, then exec.

Runs in the last process before exec, inside the container's root; every way to fail ends in a
sentence for `StartError`, sent through a pipe that a successful exec closes.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
from collections.abc import Sequence
from typing import NamedTuple, NoReturn

from onebox.node import syscalls
from onebox.node.seccomp import forbid_dangerous_calls

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
# Programs that use many sockets (TensorFlow servers, JupyterLab) meet the usual 1024 quickly.
_OPEN_FILES = 65536
# The kernel, when the whole machine is out of memory, takes containers before everything else.
_OOM_SCORE = "500"


class Failure(Exception):  # noqa: N818 - becomes a StartError on the other side
    """Why a container does not start."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason

    @classmethod
    def from_json(cls, text: bytes) -> Failure:
        """Return the failure that another process wrote with `to_json`."""
        fields = json.loads(text)
        return cls(fields["code"], fields["reason"], fields["error"])

    def to_json(self) -> bytes:
        """Return a line with the fields that `StartError` is made of."""
        fields = {"code": self.code, "reason": self.reason, "error": str(self)}
        return json.dumps(fields).encode() + b"\n"


class Program(NamedTuple):
    """What to run and as whom.

    Args:
        set_ids: false for a node half without root: everything keeps its one user.
    """

    argv: Sequence[str]
    env: dict[str, str]
    cwd: str
    uid: int
    gid: int
    groups: Sequence[int]
    set_ids: bool


class Pipes(NamedTuple):
    """The descriptors that a program starts with; `cgroups` are open cgroup.procs files."""

    stdout: int
    stderr: int
    error: int
    cgroups: Sequence[int]


def become(program: Program, pipes: Pipes) -> NoReturn:
    """Turn this process into the program; on failure report through `pipes.error` and end."""
    try:
        _become(program, pipes)
    except Failure as failure:
        report = failure
    except (OSError, ValueError) as error:  # ValueError: a zero byte, a name with "="
        report = Failure(128, "StartError", f"cannot start the container: {error}")
    report_failure(report, pipes)


def report_failure(failure: Failure, pipes: Pipes) -> NoReturn:
    """Say why there is no program, and end."""
    os.write(pipes.error, failure.to_json())
    os._exit(failure.code)


def _become(program: Program, pipes: Pipes) -> NoReturn:
    os.setsid()
    for cgroup in pipes.cgroups:
        os.write(cgroup, b"0")
    set_streams(program, pipes)
    set_limits()
    syscalls.drop_capability_bounds()
    if program.set_ids:
        os.setgroups(sorted(program.groups))
        os.setresgid(program.gid, program.gid, program.gid)
        os.setresuid(program.uid, program.uid, program.uid)
    enter_directory(program.cwd)
    syscalls.drop_capabilities()
    syscalls.forbid_new_privileges()
    forbid_dangerous_calls()
    reset_signals()
    execute(program)


def set_streams(program: Program, pipes: Pipes) -> None:
    """Read from nothing, write to the pipes."""
    nothing = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.dup2(pipes.stdout, 1)
    os.dup2(pipes.stderr, 2)
    if program.set_ids:
        # Or else a program that opens /dev/stderr would be refused its own output.
        os.fchown(1, program.uid, program.gid)
        os.fchown(2, program.uid, program.gid)


def set_limits() -> None:
    """No core files, many open files, first to go when the machine is out of memory."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    soft = _OPEN_FILES if hard == resource.RLIM_INFINITY else min(_OPEN_FILES, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write(_OOM_SCORE)


def enter_directory(path: str, *, shown_as: str = "") -> None:
    """Enter the working directory.

    Raises:
        Failure: it is not there.
    """
    try:
        os.chdir(path)
    except OSError as error:
        text = f'the working directory "{shown_as or path}" cannot be entered: {os.strerror(error.errno or 0)}'
        raise Failure(128, "StartError", text) from error


def reset_signals() -> None:
    """Undo what the interpreter ignores or blocks: exec would hand it on to the program."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    syscalls.unignore_libc_signals()
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def execute(program: Program) -> NoReturn:
    """Become the program.

    Raises:
        Failure: there is none of that name, or it cannot be executed.
    """
    name = program.argv[0]
    denied = ""
    for candidate in _candidates(name, program.env.get("PATH", _DEFAULT_PATH)):
        try:
            os.execve(candidate, list(program.argv), program.env)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR) and not os.path.lexists(candidate):
                continue
            denied = denied or _explain(candidate, error)
            if error.errno not in (errno.EACCES, errno.EPERM):
                break
    if denied:
        raise Failure(126, "ContainerCannotRun", denied)
    where = "no such file" if "/" in name else "executable not found in PATH"
    raise Failure(127, "ContainerCannotRun", f'{where}: "{name}"')


def _candidates(name: str, path: str) -> list[str]:
    if "/" in name or not name:
        return [name] if name else []
    return [os.path.join(folder, name) for folder in path.split(":") if folder]


def _explain(candidate: str, error: OSError) -> str:
    if os.path.isdir(candidate):
        return f'not executable: "{candidate}" is a folder'
    if error.errno == errno.ENOENT:
        return f'not executable: "{candidate}" names an interpreter that does not exist here'
    if error.errno == errno.ENOEXEC:
        return f'not executable: "{candidate}" is neither a program nor a script that begins "#!"'
    if error.errno == errno.E2BIG:
        return f'"{candidate}" cannot be started: arguments and environment are too long together'
    return f'not executable: "{candidate}": {os.strerror(error.errno or 0)}'
