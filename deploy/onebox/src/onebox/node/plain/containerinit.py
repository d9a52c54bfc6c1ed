"""The process above one container's program, or one probe's, where there are no namespaces."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import time
from typing import Any, NoReturn

from onebox.node import syscalls
from onebox.node.containerinit import Ends, MemoryWatch, program_of
from onebox.node.plain.loopback import Loopback
from onebox.node.plain.rootfolder import build_view
from onebox.node.plain.supervisor import Place, Supervisor
from onebox.node.program import Failure, Pipes, Program
from onebox.node.wire import ChannelClosed, Fields, send_message


def place_of(spec: dict[str, Any], settings: Fields) -> Place:
    """Make the container's files and return where its programs believe to be.

    Raises:
        Failure: a mount cannot be had.
        OSError: the machinery failed.
    """
    loopback = Loopback(*settings["loopback"])
    view = build_view(spec, loopback)
    return Place(view, loopback, settings["ip"], settings["hostname"])


def run_container(spec: dict[str, Any], settings: Fields, ends: Ends) -> NoReturn:
    """Run the container's program and answer its calls until it has ended."""
    status = socket.socket(fileno=ends.status)
    syscalls.set_process_name("pod-container")
    try:
        supervisor = Supervisor(place_of(spec, settings))
        pid = supervisor.start(program_of(spec), Pipes(ends.stdout, ends.stderr, -1, ()))
    except Failure as failure:
        fields = {"code": failure.code, "reason": failure.reason, "error": str(failure)}
        send_message(status, fields)
        os._exit(1)
    except (OSError, ValueError) as error:
        text = f"the container's file system could not be built: {error}"
        send_message(status, {"code": 128, "reason": "CreateContainerError", "error": text})
        os._exit(1)
    with contextlib.suppress(ChannelClosed):
        send_message(status, {"started": True, "started_at": time.time(), "process": pid})
    for fd in (ends.stdout, ends.stderr):
        os.close(fd)
    gc.freeze()
    watch = MemoryWatch(spec["watch_bytes"]) if spec["watch_bytes"] else None
    outcome = supervisor.run(watch)
    with contextlib.suppress(ChannelClosed):
        send_message(status, outcome)
    os._exit(0)


def run_probe(spec: dict[str, Any], settings: Fields, program: Program, pipes: Pipes) -> NoReturn:
    """Run another program in the container's place; ends with its exit code (128 + signal)."""
    try:
        supervisor = Supervisor(place_of(spec, settings))
        pid = supervisor.start(program, pipes)
        os.write(pipes.error, json.dumps({"pid": pid}).encode() + b"\n")
        for fd in (pipes.stdout, pipes.error):
            os.close(fd)
        code = os.waitstatus_to_exitcode(int(supervisor.run(None)["status"]))
    except Failure as failure:
        os.write(pipes.error, failure.to_json())
        code = failure.code
    except (OSError, ValueError):
        code = 128
    signal.set_wakeup_fd(-1)
    os._exit(code if code >= 0 else 128 - code)
