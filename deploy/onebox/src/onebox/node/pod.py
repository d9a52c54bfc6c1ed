"""A pod and its containers, as the kubelet side holds them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shutil
import signal
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from onebox.node.cgroup import Cgroups, Group, Resources
from onebox.node.etcfiles import render_etc, render_users
from onebox.node.link import Link, Refused
from onebox.node.spec import ContainerSpec, Exit, Mount, PodGone, PodSpec, StartError
from onebox.node.wire import ChannelClosed, Fields, Message

logger = logging.getLogger(__name__)

_DEFAULT_UID, _DEFAULT_GID = 1000, 100
_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
# https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/
_TERMINATION_MESSAGE_BYTES = 4096
_GONE_TIMEOUT_S = 10.0
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class Surroundings:
    """What is the same for all pods of a node.

    Args:
        home: the node's home.
        is_root: whether containers change their user; otherwise all are this process's user.
        root_bytes: size of a container's own root; written files count as its memory.
        tmp_bytes: size of a container's /tmp; likewise.
        end_signal: upon which a pod's init ends with all of the pod: the kernel sees to that where
            it has a pid namespace, else the init itself, which must hear of it.
    """

    home: Path
    is_root: bool
    cgroups: Cgroups | None
    root_bytes: int
    tmp_bytes: int
    end_signal: signal.Signals = signal.SIGKILL


class Container:
    """A running (or ended) container.

    Attributes:
        pid: of its main process, as this machine numbers it; 0 where it ended at once.
    """

    def __init__(self, pod: Pod, key: int, name: str) -> None:
        self.name = name
        self.pid = 0
        self._pod = pod
        self._key = key
        self._started_at = datetime.now(UTC)
        self._exit: asyncio.Future[Exit] = asyncio.get_running_loop().create_future()

    async def wait(self) -> Exit:
        """Wait until it has ended and its log is written; may be awaited by many, again and again.

        A container whose pod is removed ends with code 137.
        """
        return await asyncio.shield(self._exit)

    async def signal(self, sig: int) -> None:
        """Send a signal to the container's main process; nothing happens when it has ended."""
        with contextlib.suppress(PodGone):
            await self._pod.ask({"op": "signal", "key": self._key, "signal": int(sig)})

    async def exec(self, argv: tuple[str, ...], timeout_s: float) -> tuple[int, bytes]:
        """Run a program inside the container, with its user, mounts and environment.

        Returns:
            (exit code, at most 10 KiB of stdout and stderr); code -1: timed out and killed;
            126, 127, 128 with the reason as text: could not be started.

        Raises:
            PodGone: the container has ended.
        """
        request = {"op": "exec", "key": self._key, "argv": list(argv), "timeout_s": timeout_s}
        reply = (await self._pod.ask(request)).fields
        if reply.get("gone"):
            raise PodGone(f"the container {self.name} has ended")
        return reply["code"], reply["output"].encode("latin-1")

    def _started(self, reply: Message) -> None:
        # Where all processes are numbered alike, the number itself is in the reply.
        self.pid = 0 if reply.fields.get("ended") else reply.fields.get("process", reply.pid)
        self._started_at = datetime.fromtimestamp(reply.fields["started_at"], UTC)

    def _ended(self, how: _Ending) -> None:
        if not self._exit.done():
            code = how.code if how.code >= 0 else 128 - how.code
            number = -how.code if how.code < 0 else None
            times = (self._started_at, how.finished_at)
            self._exit.set_result(Exit(code, number, how.oom_killed, *times, how.message))


@dataclass(frozen=True)
class _Ending:
    """How a program ended; `code` is negative for a death by signal."""

    code: int
    oom_killed: bool
    finished_at: datetime
    message: str


@dataclass
class _Run:
    """What has to be cleared away when a run of a container has ended."""

    container: Container
    message_path: Path
    group: Group | None


class Pod:
    """A pod: namespaces, an address, and PID 1.

    Attributes:
        gone: set when no process of the pod is left, whoever ended it.
        stage: the folder on this machine's disk in which its containers write to their own roots, each in
            one named by the key of its run, and beside them "memory" where no memory could be had; None:
            what they write there lies in memory, and its size is bounded.
    """

    def __init__(self, spec: PodSpec, ip: str, around: Surroundings) -> None:
        self.spec = spec
        self.ip = ip
        self.gone = asyncio.Event()
        self.stage: Path | None = None
        self._around = around
        self._runs: dict[int, _Run] = {}
        self._last_key = 0
        self._link: Link | None = None
        self._pidfd = -1
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._on_gone: Callable[[Pod], None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._folder = around.home / "pods" / spec.uid / "termination"

    async def run(self, spec: ContainerSpec) -> Container:
        """Start a container and return once its program runs.

        Raises:
            StartError: it could not be started.
            PodGone: the pod was removed meanwhile.
        """
        self._required_link()
        self._last_key += 1
        key = self._last_key
        uid, gid = self._identity(spec)
        message_path = self._make_message_file(f"{_checked_name(spec.name)}-{key}", uid)
        group = self._make_group(spec, key)
        container = Container(self, key, spec.name)
        run = _Run(container, message_path, group)
        self._runs[key] = run
        fds: list[int] = []
        try:
            fds = group.open() if group else []
            request = self._request(spec, key, (uid, gid), message_path)
            if group is not None and group.events is not None:
                request["oom_events"] = [str(part) for part in group.events]
            reply = await self.ask({"op": "run", "spec": request}, fds)
        except Refused as refusal:
            await self._clear(key)
            fields = refusal.fields
            raise StartError(fields["code"], fields["reason"], fields["error"]) from refusal
        except (PodGone, OSError):
            await self._clear(key)
            raise
        finally:
            for fd in fds:
                os.close(fd)
        container._started(reply)
        return container

    def own_folders(self) -> list[tuple[str, Path]]:
        """The folders on disk that runs of containers have to themselves, by the containers' names."""
        if self.stage is None:
            return []
        runs = self._runs.items()
        return [(run.container.name, self.stage / str(key)) for key, run in runs]

    async def remove(self) -> None:
        """Kill every process of the pod and free its address; a second call does nothing."""
        self.kill()
        await asyncio.wait_for(self.gone.wait(), _GONE_TIMEOUT_S)
        while self._tasks:
            await asyncio.wait(list(self._tasks))

    def kill(self) -> bool:
        """Kill every process of the pod; `gone` follows. Returns whether there was an init."""
        if self._pidfd < 0:
            return False
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, self._around.end_signal)
        return True

    async def ask(self, fields: Fields, fds: list[int] | None = None) -> Message:
        """Send a request to the pod's init.

        Raises:
            PodGone: there is no init any more.
            Refused: it answered with an error.
        """
        link = self._required_link()
        try:
            return await link.request(fields, fds or [])
        except ChannelClosed:
            raise PodGone(f"the pod {self.spec.namespace}/{self.spec.name} is gone") from None

    def _required_link(self) -> Link:
        if self._link is None or self.gone.is_set():
            raise PodGone(f"the pod {self.spec.namespace}/{self.spec.name} is gone")
        return self._link

    async def attach(self, link: Link, pidfd: int, on_gone: Callable[[Pod], None]) -> None:
        """Take over a pod's init that was just made; return when it is ready for containers."""
        self._link = link
        self._pidfd = pidfd
        self._on_gone = on_gone
        asyncio.get_running_loop().add_reader(pidfd, self._init_ended)
        await self._ready

    def take_event(self, message: Message) -> None:
        """Take an event of the pod's init."""
        fields = message.fields
        if fields["event"] == "ready" and not self._ready.done():
            self.stage = Path(fields["stage"]) if "stage" in fields else None
            self._ready.set_result(None)
        elif fields["event"] == "broken":
            logger.error("the init of pod %s broke: %s", self.spec.name, fields["error"])
            if not self._ready.done():
                self._ready.set_exception(OSError(fields["error"]))
        elif fields["event"] == "exited":
            self._spawn(self._run_ended(fields))

    def _identity(self, spec: ContainerSpec) -> tuple[int, int]:
        if spec.run_as_uid == 0:
            text = "container has runAsUser 0; onebox runs no container as root"
            raise StartError(128, "StartError", text)
        if not self._around.is_root:
            return os.getuid(), os.getgid()
        uid = _DEFAULT_UID if spec.run_as_uid is None else spec.run_as_uid
        return uid, _DEFAULT_GID if spec.run_as_gid is None else spec.run_as_gid

    def _make_message_file(self, name: str, uid: int) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._folder / name
        path.touch(mode=0o644)
        if self._around.is_root:
            os.chown(path, uid, -1)
        return path

    def _make_group(self, spec: ContainerSpec, key: int) -> Group | None:
        if self._around.cgroups is None:
            return None
        limits = Resources(spec.memory_bytes, spec.cpu_millicores, spec.cpu_shares_millicores)
        try:
            return self._around.cgroups.make(self.spec.uid, f"{spec.name}-{key}", limits)
        except OSError as error:
            text = f"the container's limits could not be set: {error}"
            raise StartError(128, "CreateContainerError", text) from error

    def _request(
        self, spec: ContainerSpec, key: int, ids: tuple[int, int], message_path: Path
    ) -> Fields:
        """Return the spec as the pod's init takes it (`podinit`, `containerinit`)."""
        uid, gid = ids
        around = self._around
        groups = sorted({*spec.groups, *([] if self.spec.fs_gid is None else [self.spec.fs_gid])})
        env = {"PATH": _DEFAULT_PATH, "HOME": "/", "HOSTNAME": self.spec.hostname, **spec.env}
        message = Mount(source=str(message_path), path=spec.termination_message_path)
        mounts = (*spec.image.mounts, *spec.mounts)
        if spec.termination_message_path:
            mounts = (*mounts, message)
        watched = around.cgroups is None or "memory" not in around.cgroups.controllers
        return {
            "key": key,
            "argv": list(spec.argv),
            "env": env,
            "cwd": spec.cwd or spec.image.working_dir,
            "uid": uid,
            "gid": gid,
            "groups": groups,
            "set_ids": around.is_root,
            "mounts": [asdict(mount) for mount in mounts],
            "devices": list(spec.devices),
            "etc": {
                **render_etc(self.spec, self.ip),
                **render_users(uid, gid, groups, env["HOME"]),
            },
            "root_bytes": around.root_bytes,
            "tmp_bytes": around.tmp_bytes,
            "read_only_root": spec.read_only_root,
            "log_path": spec.log_path,
            "watch_bytes": spec.memory_bytes if watched else None,
        }

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_ended(self, fields: Fields) -> None:
        run = self._runs.get(fields["key"])
        if run is None:
            return
        code = os.waitstatus_to_exitcode(fields["status"])
        oom_killed = fields["oom_killed"]
        if oom_killed:
            code = -signal.SIGKILL
        elif run.group is not None and code != 0:
            oom_killed = run.group.oom_kills() > 0
        finished_at = datetime.fromtimestamp(fields["finished_at"], UTC)
        message = _read_message(run.message_path)
        run.container._ended(_Ending(code, oom_killed, finished_at, message))
        await self._clear(fields["key"])

    async def _clear(self, key: int) -> None:
        run = self._runs.pop(key, None)
        if run is None:
            return
        with contextlib.suppress(OSError):
            run.message_path.unlink()
        if run.group is not None:
            await run.group.remove()
        if self.stage is not None:
            # Else one that starts again and again fills the disk with what nobody counts.
            folder = self.stage / str(key)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def _init_ended(self) -> None:
        """Called when the kernel has ended the last process of the pod."""
        asyncio.get_running_loop().remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        if self._link is not None:
            self._link.drain()
            self._link.close()
        if not self._ready.done():
            self._ready.set_exception(PodGone("the pod's init ended while it was made"))
        self.gone.set()
        self._spawn(self._clean())

    async def _clean(self) -> None:
        now = datetime.now(UTC)
        for key, run in list(self._runs.items()):
            message = _read_message(run.message_path)
            run.container._ended(_Ending(-signal.SIGKILL, False, now, message))
            await self._clear(key)
        if self._around.cgroups is not None:
            await self._around.cgroups.remove_pod(self.spec.uid)
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._folder.parent.rmdir()
        if self._on_gone is not None:
            self._on_gone(self)


def _checked_name(name: str) -> str:
    if not _SAFE_NAME.fullmatch(name):
        text = f'"{name}" cannot be the name of a container'
        raise StartError(128, "CreateContainerError", text)
    return name


def _read_message(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_TERMINATION_MESSAGE_BYTES).decode(errors="replace")
    except OSError:
        return ""
