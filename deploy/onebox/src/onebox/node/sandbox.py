"""Pods as isolated Linux processes: the asyncio side, used by the kubelet side.

`Sandbox.start` runs the holder (a small program that owns the cluster network and forks the pods'
inits) and proves by a throw-away pod that everything works. All pods end with this process, however
it ends. Where namespaces cannot be had another holder does without them (`plain`); the two take
the same requests, and what differs here is told by their `Kind`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import ipaddress
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from collections import deque
from dataclasses import replace
from pathlib import Path

from onebox.node.addresses import Addresses, Bridges
from onebox.node.cgroup import Cgroups, find_cgroups, remove_stale
from onebox.node.kinds import NAMESPACES, PLAIN, Kind, Locate
from onebox.node.link import Link, Refused
from onebox.node.pod import Container, Pod, Surroundings
from onebox.node.spec import (
    GATEWAY_IP,
    POD_NETWORK,
    ContainerSpec,
    Exit,
    ImageEnv,
    Limits,
    Mount,
    PodGone,
    PodSpec,
    SandboxUnavailable,
    StartError,
)
from onebox.node.trial import describe_limits
from onebox.node.wire import ChannelClosed, Message, make_pair

__all__ = [
    "GATEWAY_IP",
    "Container",
    "ContainerSpec",
    "Exit",
    "ImageEnv",
    "Limits",
    "Mount",
    "Pod",
    "PodGone",
    "PodSpec",
    "Sandbox",
    "SandboxUnavailable",
    "StartError",
]

# What holders, which start without site-packages, find this package in.
_PACKAGES = Path(__file__).resolve().parents[2]
_READY_TIMEOUT_S = 15.0
_STOP_TIMEOUT_S = 5.0
# Sockets are fetched from the holder in advance, so that a connection costs no extra round trip.
_SOCKETS_KEPT = 16
_POD_NETWORK = ipaddress.IPv4Network(POD_NETWORK)
_SAFE_UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_MEBIBYTE = 1 << 20


class Sandbox:
    """All pods of this node and the cluster network that joins them.

    Attributes:
        mode: "root" (each container drops to its own plain user), "user" (all run as ours) or
            "plain" (all run as ours, without namespaces).
        limits: what of the containers' limits is enforced here.
        notes: sentences about what is weaker here than it could be; for the log and the Node.
        lost: set when the holder ended by itself; every pod ended with it.
    """

    def __init__(
        self, home: Path, cgroups: Cgroups | None, sizes: tuple[int, int], kind: Kind
    ) -> None:
        self.mode = kind.mode
        self.notes: tuple[str, ...] = ()
        self.lost = asyncio.Event()
        self._kind = kind
        self._around = Surroundings(
            home, self.mode == "root", cgroups, *sizes, end_signal=kind.end_signal
        )
        self._locate: Locate = lambda ip, port: (ip, port)
        self._stage = home / "sandbox" / "stage"
        self._addresses = Addresses(POD_NETWORK, GATEWAY_IP)
        self._bridges = Bridges()
        self._pods: set[Pod] = set()
        self._sockets: deque[socket.socket] = deque()
        self._refill: asyncio.Task[None] | None = None
        self._closing = False
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._process: subprocess.Popen[bytes] | None = None
        self._link: Link | None = None
        self._lock = -1

    @property
    def limits(self) -> Limits:
        """What of the containers' limits is enforced here."""
        return describe_limits(self._around.cgroups)

    @classmethod
    async def start(
        cls,
        home: Path,
        *,
        root_bytes: int = 512 * _MEBIBYTE,
        tmp_bytes: int = 2048 * _MEBIBYTE,
    ) -> Sandbox:
        """Start the sandbox and prove by a throw-away pod that it works.

        Must be called from the main thread: the kernel ends all pods when that thread ends.

        Args:
            home: the node's home; one sandbox at a time may use it.
            root_bytes: what a container may write into its own root, outside of volumes and /tmp.
            tmp_bytes: what it may write into /tmp. Both count as its memory while they last.

        Raises:
            SandboxUnavailable: a sentence says what is missing and what to do.
        """
        if threading.current_thread() is not threading.main_thread():
            raise SandboxUnavailable("the sandbox must be started from the main thread")
        home = home.resolve()
        sizes = (root_bytes, tmp_bytes)
        try:
            return await cls._start_kind(home, sizes, NAMESPACES)
        except SandboxUnavailable as refusal:
            if refusal.is_final:
                raise
            try:
                return await cls._start_kind(home, sizes, PLAIN)
            except SandboxUnavailable as second:
                raise SandboxUnavailable(f"{refusal} {second}") from refusal

    @classmethod
    async def _start_kind(cls, home: Path, sizes: tuple[int, int], kind: Kind) -> Sandbox:
        lock = _lock_home(home)
        await remove_stale(home)
        cgroups = None
        if kind is NAMESPACES:
            cgroups = find_cgroups(home, is_root=os.getuid() == 0)
        shutil.rmtree(home / "sandbox", ignore_errors=True)
        sandbox = cls(home, cgroups, sizes, kind)
        sandbox._lock = lock
        sandbox._stage.mkdir(parents=True)
        try:
            await sandbox._start_holder()
            sandbox.notes = await sandbox._prove()
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    async def create_pod(self, spec: PodSpec) -> Pod:
        """Make the pod's namespaces and give it an address; it runs no container yet.

        Raises:
            OSError: the kernel refused (out of processes or memory), or the sandbox is closed.
            ValueError: the pod's uid cannot be the name of a folder.
        """
        if not _SAFE_UID.fullmatch(spec.uid):
            raise ValueError(f'"{spec.uid}" cannot be the uid of a pod')
        ip = self._addresses.take()
        pod = Pod(spec, ip, self._around)
        try:
            await self._connect_pod(pod)
        except BaseException:
            if not pod.kill():  # otherwise its end gives the address back
                self._pod_gone(pod)
            raise
        return pod

    def may_connect(self, ip: str, namespace: str) -> bool:
        """Whether who has an address may reach what belongs to a namespace.

        The node itself may. Of pods only those of the same namespace, one that is gone not; without
        namespaces of the kernel nobody can tell who connects, and everybody may.
        """
        if self.mode == "plain" or ip == GATEWAY_IP:
            return True
        if ipaddress.IPv4Address(ip) not in _POD_NETWORK:
            return True
        return self._bridges.namespace_of(ip) == namespace

    async def listen(self, ip: str, port: int) -> socket.socket:
        """Return a listening TCP socket, non-blocking, that lives in the cluster network.

        Raises:
            OSError: the address cannot be had.
        """
        return await self._bound(ip, port, udp=False)

    async def datagram(self, ip: str, port: int) -> socket.socket:
        """Return a UDP socket, non-blocking, bound in the cluster network.

        Raises:
            OSError: the address cannot be had.
        """
        return await self._bound(ip, port, udp=True)

    async def connect(self, ip: str, port: int) -> socket.socket:
        """Return a TCP connection into the cluster network, non-blocking.

        Raises:
            OSError: refused, unreachable.
        """
        made = await self._socket()
        try:
            await asyncio.get_running_loop().sock_connect(made, self._locate(ip, port))
        except BaseException:
            made.close()
            raise
        return made

    async def close(self) -> None:
        """End every pod and the cluster network; nothing is left behind."""
        self._closing = True
        removals = (pod.remove() for pod in list(self._pods))
        # One that does not end in time ends with the holder.
        await asyncio.gather(*removals, return_exceptions=True)
        if self._refill is not None:
            self._refill.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._refill
        for made in self._sockets:
            made.close()
        self._sockets.clear()
        if self._link is not None:
            self._link.close()
        if self._process is not None:
            await asyncio.to_thread(_await_end, self._process)
        if self._around.cgroups is not None:
            await self._around.cgroups.remove_all()
        shutil.rmtree(self._stage.parent, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def _start_holder(self) -> None:
        ours, theirs = make_pair()
        self._process = _launch_holder(self._kind.holder, theirs.fileno())
        theirs.close()
        self._link = Link(ours, self._holder_said, self._holder_ended)
        try:
            await asyncio.wait_for(self._ready, _READY_TIMEOUT_S)
        except TimeoutError:
            text = f"the sandbox's holder did not answer within {_READY_TIMEOUT_S:.0f} s"
            raise SandboxUnavailable(text) from None

    async def _prove(self) -> tuple[str, ...]:
        try:
            return await self._kind.prove(self.create_pod, self._stage.parent)
        except SandboxUnavailable:
            if self._around.cgroups is None:
                raise
        # Control groups that can be made but not joined: do without them.
        await self._around.cgroups.remove_all()
        around = self._around
        self._around = replace(around, cgroups=None)
        return await self._kind.prove(self.create_pod, self._stage.parent)

    async def _connect_pod(self, pod: Pod) -> None:
        link = self._required_link()
        ours, theirs = make_pair()
        request = {
            "op": "pod",
            "ip": pod.ip,
            "bridge": self._bridges.join(pod.ip, pod.spec.namespace),
            "gateway": GATEWAY_IP,
            "hostname": pod.spec.hostname,
            "stage": str(self._stage),
            "fs_gid": pod.spec.fs_gid if self.mode == "root" else None,
            "ping_groups": "0 2147483647"
            if self.mode == "root"
            else f"{os.getgid()} {os.getgid()}",
        }
        try:
            reply = await link.request(request, [theirs.fileno()])
        except (Refused, ChannelClosed) as error:
            ours.close()
            raise OSError(f"the pod's namespaces could not be made: {error}") from error
        except BaseException:
            ours.close()  # upon which an init that was made nevertheless ends
            raise
        finally:
            theirs.close()
        pod_link = Link(ours, pod.take_event, lambda: None)
        self._pods.add(pod)
        await pod.attach(pod_link, reply.fds[0], self._pod_gone)

    def _pod_gone(self, pod: Pod) -> None:
        self._pods.discard(pod)
        self._bridges.leave(pod.ip)
        self._addresses.free(pod.ip)

    async def _bound(self, ip: str, port: int, *, udp: bool) -> socket.socket:
        request = {"op": "listen", "ip": ip, "port": port, "udp": udp}
        try:
            reply = await self._required_link().request(request)
        except Refused as error:
            text = f"{ip}:{port} in the cluster network: {error}"
            raise OSError(error.fields["errno"], text) from error
        except ChannelClosed as error:
            raise OSError("the sandbox is closed") from error
        made = socket.socket(fileno=reply.fds[0])
        made.setblocking(False)
        return made

    async def _socket(self) -> socket.socket:
        if not self._sockets:
            await self._fetch_sockets()
        elif len(self._sockets) < _SOCKETS_KEPT // 2 and (
            self._refill is None or self._refill.done()
        ):
            self._refill = asyncio.get_running_loop().create_task(self._fetch_sockets())
        return self._sockets.popleft()

    async def _fetch_sockets(self) -> None:
        request = {"op": "sockets", "count": _SOCKETS_KEPT}
        try:
            reply = await self._required_link().request(request)
        except (Refused, ChannelClosed) as error:
            raise OSError(f"the sandbox gives no socket: {error}") from error
        for fd in reply.fds:
            made = socket.socket(fileno=fd)
            made.setblocking(False)
            self._sockets.append(made)

    def _required_link(self) -> Link:
        if self._link is None or self._closing or self.lost.is_set():
            raise ConnectionError("the sandbox is closed")
        return self._link

    def _holder_said(self, message: Message) -> None:
        fields = message.fields
        if self._ready.done():
            return
        if fields["event"] == "ready":
            self._locate = self._kind.locate(fields)
            self._ready.set_result(None)
        else:
            text = self._kind.explain(fields["stage"], fields["error"])
            self._ready.set_exception(SandboxUnavailable(text))

    def _holder_ended(self) -> None:
        if not self._ready.done():
            text = "the sandbox's holder could not be started; its messages are in the log above"
            self._ready.set_exception(SandboxUnavailable(text))
        elif not self._closing:
            self.lost.set()


def _lock_home(home: Path) -> int:
    """Keep other node halves out of a home for as long as the returned descriptor is open."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        lock = os.open(home / "sandbox.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        text = f"the node's home cannot be written: {error}"
        raise SandboxUnavailable(text, is_final=True) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        text = f"another node uses the home {home}; stop it, or choose another --home"
        raise SandboxUnavailable(text, is_final=True) from error
    return lock


def _launch_holder(module: str, channel_fd: int) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-S", "-P", "-m", module, str(channel_fd)]
    return subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=sys.__stderr__,
        pass_fds=[channel_fd],
        cwd="/",
        env={"PYTHONPATH": str(_PACKAGES), "PATH": os.defpath, "LANG": "C.UTF-8"},
    )


def _await_end(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
