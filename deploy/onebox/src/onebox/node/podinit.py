"""PID 1 of a pod: starts its containers, writes their logs, reports how they end.

A fork of the holder (no exec) in namespaces of its own. It serves one channel to the node half:
requests `run`, `exec` (see `podexec`), `signal`; event `exited`. When the channel closes it ends,
and the kernel kills all that is in the pod. One thread; it blocks only in writing logs, so a pod
that floods its log, or whose log's disk is slow, delays nobody but itself.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import socket
import time
from typing import NoReturn

from onebox.node import netlink, syscalls
from onebox.node.containerinit import Ends, program_of, run_container
from onebox.node.descriptors import OutputPipe, Watcher, keep_only
from onebox.node.logwriter import LogWriter
from onebox.node.podexec import Executions, leave_init, run_helper
from onebox.node.program import Pipes, Program
from onebox.node.rootfs import mount_shared_tmpfs
from onebox.node.wire import (
    ChannelClosed,
    Fields,
    Message,
    make_pair,
    receive_message,
    send_message,
)

_READ_BYTES = 128 * 1024
# A pipe that outlives its container (passed to another one through a socket) is not waited for.
_DRAIN_S = 2.0


def run_pod(channel_fd: int, gate_fd: int, settings: Fields) -> NoReturn:
    """Be the init of a pod; returns never.

    Args:
        gate_fd: a pipe; a byte in it says that the pod's network link is in place.
    """
    channel_fd, gate_fd = keep_only([channel_fd, gate_fd])
    channel = socket.socket(fileno=channel_fd)
    try:
        syscalls.die_with_parent()
        syscalls.set_process_name("pod-init")
        if not os.read(gate_fd, 1):
            os._exit(1)  # the holder could not connect this pod
        os.close(gate_fd)
        _ignore_signals()
        _set_up(settings)
        PodInit(channel, settings).serve()
    except ChannelClosed:
        pass
    except Exception as error:  # noqa: BLE001 - the fence: PID 1 reports, then ends
        with contextlib.suppress(OSError, ChannelClosed):
            send_message(channel, {"event": "broken", "error": f"{type(error).__name__}: {error}"})
    finally:
        os._exit(1)


def _ignore_signals() -> None:
    """A pod's own processes may signal its init; none of them may end or disturb it."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)


def _set_up(settings: Fields) -> None:
    netlink.set_up("lo")
    netlink.add_address("eth0", settings["ip"], 16)
    netlink.set_up("eth0")
    netlink.add_default_route(settings["gateway"])
    socket.sethostname(settings["hostname"])
    _set_kernel_option("net/ipv4/ip_unprivileged_port_start", "0")
    with contextlib.suppress(OSError):
        _set_kernel_option("net/ipv4/ping_group_range", settings["ping_groups"])
    stage = settings["stage"]
    syscalls.mount("tmpfs", stage, "tmpfs", syscalls.MS_NOSUID | syscalls.MS_NODEV, "mode=755")
    os.mkdir(f"{stage}/root")
    os.mkdir(f"{stage}/tmpfs")
    os.umask(0o022)


def _set_kernel_option(name: str, value: str) -> None:
    fd = os.open(f"/proc/sys/{name}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, value.encode())
    finally:
        os.close(fd)


class _Container:
    """A container as its pod's init knows it."""

    def __init__(self, spec: Fields, init_pid: int, request_id: int, log: LogWriter) -> None:
        self.key: int = spec["key"]
        self.spec = spec
        self.init_pid = init_pid
        self.request_id = request_id
        self.main_pid = 0
        self.log = log
        self.cgroups: list[int] = []
        self.open_fds: set[int] = set()
        self.outcome: Fields = {}
        self.drain_until = 0.0


class PodInit:
    """The loop of a pod's init."""

    def __init__(self, channel: socket.socket, settings: Fields) -> None:
        self._channel = channel
        self._settings = settings
        self._containers: dict[int, _Container] = {}
        self._watcher = Watcher()
        self._executions = Executions(self._watcher, channel)
        wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        self._watcher.watch(channel.fileno(), self._take_request)
        self._watcher.watch(wake_read, lambda: self._reap(wake_read))

    def serve(self) -> NoReturn:
        """Serve until the channel closes (ChannelClosed)."""
        send_message(self._channel, {"event": "ready", **self._ready_facts()})
        while True:
            self._watcher.wait(self._pause_ms())
            self._look_at_clock()

    # Requests

    def _take_request(self) -> None:
        message = receive_message(self._channel)
        fields = message.fields
        try:
            if fields["op"] == "run":
                self._run(message)
            elif fields["op"] == "exec":
                self._execute(fields)
            elif fields["op"] == "signal":
                self._signal(fields)
        except OSError as error:
            text = f"the pod's init could not do this: {error}"
            answer = {"id": fields["id"], "code": 128, "reason": "StartError", "error": text}
            send_message(self._channel, answer)
        finally:
            message.close_fds()

    def _run(self, message: Message) -> None:
        spec: Fields = message.fields["spec"]
        self._place(spec)
        log = LogWriter(spec["log_path"])
        ours, theirs = make_pair()
        out, err = OutputPipe(), OutputPipe()
        try:
            pid = self._fork()
            if pid == 0:
                leave_init()
                ends = [theirs.fileno(), out.write_end, err.write_end]
                kept = keep_only([*ends, *message.fds])
                self._become_container(spec, Ends(kept[0], kept[1], kept[2], kept[3:]))
        except OSError:
            for fd in (ours.detach(), out.read_end, err.read_end):
                os.close(fd)
            log.finish()
            raise
        finally:
            for fd in (theirs.detach(), out.write_end, err.write_end):
                os.close(fd)
        container = _Container(spec, pid, message.fields["id"], log)
        container.cgroups = list(message.fds)
        message.fds.clear()
        self._containers[container.key] = container
        self._follow(container, ours, {out.read_end: "stdout", err.read_end: "stderr"})

    def _follow(self, container: _Container, status: socket.socket, pipes: dict[int, str]) -> None:
        fd = status.detach()
        container.open_fds = {fd, *pipes}
        self._watcher.watch(fd, functools.partial(self._take_status, container, fd))
        for pipe, stream in pipes.items():
            self._watcher.watch(pipe, functools.partial(self._copy, container, pipe, stream))

    def _execute(self, fields: Fields) -> None:
        container = self._containers.get(fields["key"])
        if container is None or not container.main_pid or not container.init_pid:
            send_message(self._channel, {"id": fields["id"], "gone": True})
            return
        program = program_of(container.spec)._replace(argv=fields["argv"])
        become = functools.partial(self._become_probe, container.spec, container.init_pid, program)
        self._executions.start(fields, become, container.cgroups)

    def _signal(self, fields: Fields) -> None:
        container = self._containers.get(fields["key"])
        if container is not None and container.main_pid and not container.outcome:
            with contextlib.suppress(ProcessLookupError):
                os.kill(container.main_pid, fields["signal"])
        send_message(self._channel, {"id": fields["id"]})

    # Containers

    def _copy(self, container: _Container, fd: int, stream: str) -> None:
        chunk = os.read(fd, _READ_BYTES)
        if chunk:
            container.log.write(stream, chunk)
        else:
            self._watcher.forget(fd)
            container.open_fds.discard(fd)
            self._finish(container)

    def _take_status(self, container: _Container, fd: int) -> None:
        status = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fd)
        try:
            message = receive_message(status)
        except ChannelClosed:
            self._watcher.forget(fd)
            container.open_fds.discard(fd)
            self._finish(container)
            return
        finally:
            status.detach()
        fields = message.fields
        if "started" in fields:
            container.main_pid = fields.get("process", message.pid)
            answer = {"id": container.request_id, "started_at": fields["started_at"]}
            container.request_id = 0
            self._tell_started(answer, container.main_pid)
        else:
            container.outcome = fields

    def _finish(self, container: _Container) -> None:
        """Report the end once its init is reaped and its output is read to the end."""
        if container.init_pid or container.open_fds:
            return
        del self._containers[container.key]
        container.log.finish()
        for fd in container.cgroups:
            os.close(fd)
        outcome = container.outcome
        if container.request_id:
            text = "the container's init was killed while it started"
            failure = {"code": 128, "reason": "StartError", "error": text, **outcome}
            send_message(self._channel, {**failure, "id": container.request_id})
            return
        killed = {"status": signal.SIGKILL, "oom_killed": False, "finished_at": time.time()}
        send_message(self._channel, {"event": "exited", "key": container.key, **killed, **outcome})

    # What depends on namespaces

    def _ready_facts(self) -> Fields:
        """What the node half has to know of the pod besides that it is ready."""
        return {}

    def _place(self, spec: Fields) -> None:
        """Say where the container's root is made, and make the pod's volumes in memory."""
        stage = self._settings["stage"]
        spec["stage"], spec["tmpfs_folder"] = f"{stage}/root", f"{stage}/tmpfs"
        for mount in spec["mounts"]:
            if mount["kind"] == "tmpfs":
                gid = self._settings["fs_gid"]
                mount_shared_tmpfs(spec["tmpfs_folder"], mount["source"], mount["size_bytes"], gid)

    def _fork(self) -> int:
        """Fork the init of a container."""
        return syscalls.fork_into(syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS)

    def _become_container(self, spec: Fields, ends: Ends) -> NoReturn:
        """Be the init of a container."""
        syscalls.die_with_parent()
        run_container(spec, ends)

    def _become_probe(
        self, _spec: Fields, init_pid: int, program: Program, pipes: Pipes
    ) -> NoReturn:
        """Run another program in a container, and end as it does."""
        run_helper(init_pid, program, pipes)

    def _tell_started(self, answer: Fields, pid: int) -> None:
        """Tell the node half which process the program is, as the node half numbers it."""
        try:
            send_message(self._channel, answer, pid=pid)
        except ProcessLookupError:  # it has ended already
            send_message(self._channel, {**answer, "ended": True})

    # Children and time

    def _known_children(self) -> set[int]:
        """Return the children that are inits of containers or run probes."""
        inits = {container.init_pid for container in self._containers.values()}
        return inits | set(self._executions.helpers())

    def _reap(self, wake_fd: int) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(wake_fd, 4096)
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    return
                self._child_ended(pid, status)

    def _child_ended(self, pid: int, status: int) -> None:
        drain_until = time.monotonic() + _DRAIN_S
        for container in list(self._containers.values()):
            if container.init_pid == pid:
                container.init_pid, container.drain_until = 0, drain_until
                self._finish(container)
                return
        self._executions.child_ended(pid, status)

    def _pause_ms(self) -> float | None:
        moments = [c.drain_until for c in self._containers.values() if c.drain_until]
        moments += self._executions.moments()
        if not moments:
            return None
        return max(0.0, min(moments) - time.monotonic()) * 1000 + 1

    def _look_at_clock(self) -> None:
        now = time.monotonic()
        for container in list(self._containers.values()):
            if container.drain_until and container.drain_until <= now:
                for fd in list(container.open_fds):
                    self._watcher.forget(fd)
                container.open_fds.clear()
                self._finish(container)
        self._executions.look_at_clock(now)
