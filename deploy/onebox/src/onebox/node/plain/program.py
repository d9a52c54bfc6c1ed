"""Becoming the user's program where there are no namespaces: the filter takes their place."""

from __future__ import annotations

import contextlib
import os
import socket
from typing import NoReturn

from onebox.node import syscalls
from onebox.node.plain.callfilter import build_filter
from onebox.node.plain.notify import install_filter
from onebox.node.program import (
    Failure,
    Pipes,
    Program,
    enter_directory,
    execute,
    report_failure,
    reset_signals,
    set_limits,
    set_streams,
)
from onebox.node.seccomp import forbid_dangerous_calls


def become(program: Program, pipes: Pipes, real_cwd: str, channel: socket.socket) -> NoReturn:
    """Turn this process into the program; on failure report through `pipes.error` and end.

    Args:
        real_cwd: the working directory's path on the machine.
        channel: takes the descriptor by which calls are answered.
    """
    try:
        _become(program, pipes, real_cwd, channel)
    except Failure as failure:
        report_failure(failure, pipes)
    except (OSError, ValueError) as error:
        text = f"cannot start the container: {error}"
        report_failure(Failure(128, "StartError", text), pipes)


def _become(program: Program, pipes: Pipes, real_cwd: str, channel: socket.socket) -> NoReturn:
    os.setsid()
    syscalls.die_with_parent()
    set_streams(program, pipes)
    set_limits()
    with contextlib.suppress(PermissionError):  # without rights there are none to take away
        syscalls.drop_capability_bounds()
    enter_directory(real_cwd, shown_as=program.cwd)
    syscalls.drop_capabilities()
    syscalls.forbid_new_privileges()
    forbid_dangerous_calls()
    listener = install_filter(build_filter(os.uname().machine))
    socket.send_fds(channel, [b"x"], [listener])
    os.close(listener)
    reset_signals()
    execute(program)
