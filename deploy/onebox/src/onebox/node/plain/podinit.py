"""A pod's init where there are no namespaces: as `podinit`, and it ends what a kernel would end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
from typing import NoReturn

from onebox.node import syscalls
from onebox.node.containerinit import Ends
from onebox.node.descriptors import keep_only
from onebox.node.plain.containerinit import run_container, run_probe
from onebox.node.plain.tree import kill_descendants, kill_orphans
from onebox.node.podinit import PodInit
from onebox.node.program import Pipes, Program
from onebox.node.wire import ChannelClosed, Fields, send_message

SHARED_MEMORY = "/dev/shm"
# A container's is often 64 MiB for everybody; the disk is better than that.
_LEAST_MEMORY_BYTES = 1 << 30


def run_pod(channel_fd: int, settings: Fields) -> NoReturn:
    """Be the init of a pod; returns never. SIGTERM ends the pod and all that belongs to it."""
    channel = socket.socket(fileno=keep_only([channel_fd])[0])
    folders: list[str] = []
    try:
        syscalls.set_process_name("pod-init")
        os.setsid()
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        syscalls.adopt_orphans()
        os.umask(0o022)
        folders = _make_folders(settings)
        PlainPodInit(channel, settings, *folders).serve()
    except ChannelClosed:
        pass
    except Exception as error:  # noqa: BLE001 - the fence: the init reports, then ends
        with contextlib.suppress(OSError, ChannelClosed):
            send_message(channel, {"event": "broken", "error": f"{type(error).__name__}: {error}"})
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        kill_descendants()
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        os._exit(1)


def memory_prefix() -> str:
    """Return what begins the names of our folders in memory, before the process id."""
    namespace = os.stat("/proc/self/ns/pid").st_ino
    return f"onebox-{namespace}-"


def _has_shared_memory() -> bool:
    if not os.access(SHARED_MEMORY, os.W_OK | os.X_OK):
        return False
    return shutil.disk_usage(SHARED_MEMORY).total >= _LEAST_MEMORY_BYTES


def _make_folders(settings: Fields) -> list[str]:
    """Make the folders of this pod's files, on disk and in memory where that can be had."""
    stage = f"{settings['stage']}/{os.getpid()}"
    memory = f"{stage}/memory"
    if _has_shared_memory():
        memory = f"{SHARED_MEMORY}/{memory_prefix()}{os.getpid()}"
        shutil.rmtree(memory, ignore_errors=True)
    for folder in (stage, memory):
        os.makedirs(folder, mode=0o700, exist_ok=True)
    return [stage, memory]


class PlainPodInit(PodInit):
    """The loop of a pod's init."""

    def __init__(self, channel: socket.socket, settings: Fields, stage: str, memory: str) -> None:
        super().__init__(channel, settings)
        self._is_asked_to_end = False
        # The watched pipe of signals wakes the loop, which then looks. A fork inherits no more
        # than a note.
        signal.signal(signal.SIGTERM, self._ask_to_end)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        syscalls.die_with_parent(signal.SIGTERM)
        self._pod_stage = stage
        self._pod_memory = memory

    def _ready_facts(self) -> Fields:
        return {"stage": self._pod_stage}

    def _place(self, spec: Fields) -> None:
        spec["stage"] = f"{self._pod_stage}/{spec['key']}"
        spec["tmpfs_folder"] = self._pod_memory
        for mount in spec["mounts"]:
            if mount["kind"] == "tmpfs":
                os.makedirs(f"{self._pod_memory}/{mount['source']}", exist_ok=True)

    def _fork(self) -> int:
        return os.fork()

    def _become_container(self, spec: Fields, ends: Ends) -> NoReturn:
        run_container(spec, self._settings, ends)

    def _become_probe(
        self, spec: Fields, _init_pid: int, program: Program, pipes: Pipes
    ) -> NoReturn:
        run_probe(spec, self._settings, program, pipes)

    def _tell_started(self, answer: Fields, pid: int) -> None:
        send_message(self._channel, {**answer, "process": pid})

    def _child_ended(self, pid: int, status: int) -> None:
        super()._child_ended(pid, status)
        if os.WIFSIGNALED(status):  # whoever supervised a program was killed itself
            kill_orphans(self._known_children())

    def _ask_to_end(self, _number: int, _frame: object) -> None:
        self._is_asked_to_end = True

    def _pause_ms(self) -> float | None:
        return 0 if self._is_asked_to_end else super()._pause_ms()

    def _look_at_clock(self) -> None:
        super()._look_at_clock()
        if self._is_asked_to_end:
            raise ChannelClosed
