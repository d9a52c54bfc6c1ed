"""Runs one pod from its arrival on the node to the removal of its API object.

One task per pod. It looks at the whole pod after every change (`lifecycle.plan`) and tells
its containers to start or stop; whatever they do comes back as a changed record.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import aiohttp

from onebox.node import gpus, lifecycle
from onebox.node.backoff import short_duration
from onebox.node.client import ApiError, Json
from onebox.node.container import ContainerRunner
from onebox.node.context import NodeContext
from onebox.node.downward import PodView
from onebox.node.events import reference_to
from onebox.node.localdisk import Folders, find_excess, read_bounds, used_bytes
from onebox.node.podobject import PodObject
from onebox.node.podspec import pod_owner, pod_spec
from onebox.node.projection import VolumeError
from onebox.node.publisher import StatusPublisher
from onebox.node.record import (
    ContainerRecord,
    Stage,
    Terminated,
    Waiting,
    parse_time,
    reset_for_new_sandbox,
)
from onebox.node.resolution import HOST_IP
from onebox.node.sandbox import Pod
from onebox.node.spec import PodGone
from onebox.node.status import Ending, PodFacts, pod_status
from onebox.node.volumes import Volume, VolumeSetup, prepare_volumes

log = logging.getLogger(__name__)

PROGRESS_ANNOTATION = "homeport.dev/pull-progress"
FIRST_SETUP_PAUSE_S = 0.5
LONGEST_SETUP_PAUSE_S = 8.0
# The kubelet looks as often (pkg/kubelet/kubelet.go, evictionMonitoringPeriod); where looking takes long, rarer.
DISK_PERIOD_S, DISK_SHARE = 10.0, 0.1
# For the end of what exceeded it; the kubelet gives no more either.
EVICTION_GRACE_S = 1.0
# After a fault in computing the status, or in looking at the disk.
FAULT_PAUSE_S = 10.0


@dataclass
class PodStart:
    """How a pod begins on this node.

    Attributes:
        ending: it ends at once, for that reason (refused, or cut off by a restart).
        is_over: it was finished before this node started; only its removal is left.
    """

    records: list[ContainerRecord]
    gpu_shares: Mapping[str, list[int]] = field(default_factory=dict)
    ending: Ending | None = None
    is_over: bool = False


class PodWorker:
    """One pod of this node.

    Attributes:
        pod: the latest API object.
        is_over: nothing of the pod runs here, and nothing will.
        is_gone: its API object is gone.
    """

    def __init__(self, context: NodeContext, pod: Json, start: PodStart) -> None:
        self.pod = pod
        self.records = start.records
        self.gpu_shares = start.gpu_shares
        self.sandbox_pod: Pod | None = None
        self.volumes: Mapping[str, Volume] = {}
        self.is_over = self._was_over = start.is_over
        self._context = context
        self._uid: str = pod["metadata"]["uid"]
        self._ending = start.ending
        self.is_gone = False
        self._is_shutting_down = False
        self._kill_at_s: float | None = None
        self._deletion_grace_s: float | None = None
        self._ip: str | None = None
        self._object = PodObject(context.client, pod)
        self._wake = asyncio.Event()
        self._setup: asyncio.Task[None] | None = None
        self._errands: set[asyncio.Task[None]] = set()
        self._listeners: set[Callable[[], None]] = set()
        known_start = parse_time((pod.get("status") or {}).get("startTime"))
        self._started_at = known_start or datetime.now(UTC)
        self._runners = {
            record.name: ContainerRunner(context, self, record) for record in self.records
        }
        self._publisher = StatusPublisher(context.client, pod, self._status)

    # -- what the agent tells -------------------------------------------------------------

    def update(self, pod: Json) -> None:
        """Take a newer version of the API object."""
        self.pod = pod
        self.changed()

    def vanish(self) -> None:
        """The API object is gone: end everything at once, there is nobody to tell."""
        self.is_gone = True
        self._kill_at_s = time.monotonic()
        self._ending = self._ending or Ending()
        self.changed()

    def shut_down(self, grace_s: float) -> None:
        """The node stops: end the containers, tell the API nothing (the next start will)."""
        self._is_shutting_down = True
        own_s = float(self.pod["spec"].get("terminationGracePeriodSeconds", 30))
        self._shorten(time.monotonic() + min(own_s, grace_s))
        self._ending = self._ending or Ending()
        self.changed()

    def hurry(self) -> None:
        """Kill what still runs."""
        self._shorten(time.monotonic())
        self.changed()

    # -- what containers tell (PodHost) ---------------------------------------------------

    def changed(self) -> None:
        """Look at the pod again, and show what changed."""
        self._wake.set()
        self._publisher.touch()
        for listener in list(self._listeners):
            listener()

    def show_progress(self, text: str | None) -> None:
        """Show how far a pull is in the pod's annotation; None removes it."""
        self._errand(self._object.annotate({PROGRESS_ANNOTATION: text}))

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change; returns the function that ends this."""
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    # -- the task -------------------------------------------------------------------------

    async def run(self) -> None:
        """Run the pod to its end and wait for the end of its API object."""
        publishing = asyncio.create_task(self._publish())
        try:
            if self.gpu_shares:
                text = json.dumps(self.gpu_shares, sort_keys=True)
                self._errand(self._object.annotate({gpus.ANNOTATION: text}))
            if not self.is_over:
                await self._live()
            if not self._is_shutting_down:
                await self._await_removal()
        finally:
            await _cancel(publishing)
            for errand in list(self._errands):
                await _cancel(errand)

    async def _publish(self) -> None:
        """Publish the status; the fence of faults in computing it."""
        while True:
            try:
                await self._publisher.run()
                return
            except Exception:
                log.exception("the status of pod %s could not be computed", self.pod_name)
                await asyncio.sleep(FAULT_PAUSE_S)

    async def _live(self) -> None:
        """Start and stop containers until nothing will run any more; then clean up."""
        self._publisher.touch()
        watching = asyncio.create_task(self._watch_disk())
        try:
            while not await self._step():
                pass
        finally:
            try:
                await _cancel(watching)
            finally:
                await self._tear_down()
        self.is_over = True
        self.changed()

    async def _step(self) -> bool:
        """Do what the plan says and wait for the next change; True when the pod is over."""
        self._wake.clear()
        self._note_wishes()
        policy = self.pod["spec"].get("restartPolicy", "Always")
        plan = lifecycle.plan(
            self.records, policy, time.monotonic(), ending=self._ending is not None
        )
        if plan.over:
            return True
        for name in plan.stop:
            self._runners[name].stop(self._grace_end_s(), f"Stopping container {name}")
        if not plan.stop and self._is_set_up():
            for name in plan.start:
                self._runners[name].start()
            for name in plan.backing_off:
                self._show_back_off(self._runners[name])
        await self._wait(plan.wake_at_s)
        return False

    async def _wait(self, wake_at_s: float | None) -> None:
        times = [t for t in (wake_at_s, self._deadline_s()) if t is not None]
        timeout_s = max(0.0, min(times) - time.monotonic()) if times else None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self._wake.wait()

    # -- reasons to end -------------------------------------------------------------------

    def _note_wishes(self) -> None:
        meta = self.pod["metadata"]
        if meta.get("deletionTimestamp"):
            self._ending = self._ending or Ending()
            grace_s = float(meta.get("deletionGracePeriodSeconds") or 0)
            if self._deletion_grace_s is None or grace_s < self._deletion_grace_s:
                self._deletion_grace_s = grace_s
                self._shorten(time.monotonic() + grace_s)
        deadline_s = self._deadline_s()
        if deadline_s is not None and time.monotonic() >= deadline_s:
            message = "Pod was active on the node longer than the specified deadline"
            self._ending = Ending("DeadlineExceeded", message, phase="Failed")
            self._tell("Warning", "DeadlineExceeded", message)
        if self.sandbox_pod is not None and self.sandbox_pod.gone.is_set():
            self._replace_sandbox()

    def _deadline_s(self) -> float | None:
        """Monotonic second of activeDeadlineSeconds; None without one or when ending anyway."""
        seconds = self.pod["spec"].get("activeDeadlineSeconds")
        if seconds is None or self._ending is not None:
            return None
        left = self._started_at + timedelta(seconds=int(seconds)) - datetime.now(UTC)
        return time.monotonic() + left.total_seconds()

    def _shorten(self, kill_at_s: float) -> None:
        self._kill_at_s = kill_at_s if self._kill_at_s is None else min(self._kill_at_s, kill_at_s)

    def _grace_end_s(self) -> float:
        """Monotonic second at which what is stopped now gets killed."""
        if self._kill_at_s is None:
            grace_s = float(self.pod["spec"].get("terminationGracePeriodSeconds", 30))
            self._kill_at_s = time.monotonic() + grace_s
        return self._kill_at_s

    async def _watch_disk(self) -> None:
        """End the pod when it has written more to this machine's disk than it may; the fence of faults in looking."""
        pause_s = DISK_PERIOD_S
        while self._ending is None:
            try:
                bounds = read_bounds(self.pod)
                if not bounds:
                    return
                await asyncio.sleep(pause_s)
                began_s = time.monotonic()
                used = await asyncio.to_thread(used_bytes, bounds, self._folders())
                message = find_excess(bounds, used)
            except Exception:
                log.exception("the disk of pod %s could not be looked at", self.pod_name)
                await asyncio.sleep(FAULT_PAUSE_S)
                continue
            pause_s = max(DISK_PERIOD_S, (time.monotonic() - began_s) / DISK_SHARE)
            if message and self._ending is None:
                self._shorten(time.monotonic() + EVICTION_GRACE_S)
                self._ending = Ending("Evicted", message, phase="Failed")
                self._tell("Warning", "Evicted", message)
                self.changed()

    def _folders(self) -> Folders:
        volumes = self._context.pod_folder(self._uid) / "volumes"
        logs = self._context.log_folder(self.pod)
        pod = self.sandbox_pod
        if pod is None or pod.stage is None:
            return Folders(volumes, logs)
        return Folders(volumes, logs, pod.own_folders(), pod.stage / "memory")

    # -- sandbox and volumes --------------------------------------------------------------

    def _is_set_up(self) -> bool:
        """True when containers can be started; begins the setup otherwise."""
        if self.sandbox_pod is not None:
            return not self.sandbox_pod.gone.is_set()
        if self._setup is None:
            self._setup = asyncio.create_task(self._set_up())
        return False

    async def _set_up(self) -> None:
        """Make volumes and sandbox; tries again, with growing pauses, until it has them."""
        pause_s = FIRST_SETUP_PAUSE_S
        while True:
            try:
                self.volumes = await prepare_volumes(self._volume_setup())
                self.sandbox_pod = await self._create_sandbox()
                self._ip = self.sandbox_pod.ip
            except VolumeError as error:
                self._tell("Warning", "FailedMount", str(error))
            except (PodGone, OSError) as error:
                text = f"Failed to create pod sandbox: {error}"
                self._tell("Warning", "FailedCreatePodSandBox", text)
            except (ApiError, aiohttp.ClientError, TimeoutError) as error:
                log.info("volumes of %s have to wait for the API: %s", self.pod_name, error)
            except Exception as error:
                # The fence of the setup: a fault here must not leave the pod without a task.
                log.exception("setup of pod %s failed", self.pod_name)
                self._tell("Warning", "FailedCreatePodSandBox", f"{type(error).__name__}: {error}")
            else:
                self._errand(self._await_loss(self.sandbox_pod))
                self.changed()
                return
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_SETUP_PAUSE_S)

    def _volume_setup(self) -> VolumeSetup:
        return VolumeSetup(
            pod=self.pod,
            folder=self._context.pod_folder(self._uid) / "volumes",
            view=PodView(self.pod, None, HOST_IP, self._context.allocatable),
            owner=pod_owner(self.pod) if self._context.is_root else None,
            find=self._context.find,
            issue=self._context.issue_token,
        )

    async def _create_sandbox(self) -> Pod:
        """Create the pod's sandbox; one that comes too late for a cancelled setup is removed."""
        creating = asyncio.create_task(self._context.sandbox.create_pod(pod_spec(self.pod)))
        try:
            return await asyncio.shield(creating)
        except asyncio.CancelledError:
            with contextlib.suppress(PodGone, OSError):
                await (await creating).remove()
            raise

    async def _await_loss(self, sandbox_pod: Pod) -> None:
        await sandbox_pod.gone.wait()
        self.changed()

    def _replace_sandbox(self) -> None:
        """After a sandbox died by itself: wait for its containers' ends, then start over."""
        policy = self.pod["spec"].get("restartPolicy", "Always")
        alive = any(r.stage in (Stage.STARTING, Stage.RUNNING) for r in self.records)
        if alive or self._ending is not None or lifecycle.mains_are_done(self.records, policy):
            return
        if policy == "Never":
            self._ending = Ending("SandboxLost", "the pod's sandbox ended", phase="Failed")
            return
        text = "Pod sandbox changed, it will be killed and re-created."
        self._tell("Normal", "SandboxChanged", text)
        reset_for_new_sandbox(self.pod, self.records)
        self.sandbox_pod = self._setup = None
        self._publisher.touch()

    async def _tear_down(self) -> None:
        """Leave no process, address, GPU or folder of the pod."""
        if self._setup is not None:
            await _cancel(self._setup)
        for runner in self._runners.values():
            await runner.close()
        if self.sandbox_pod is not None:
            await self.sandbox_pod.remove()
            self.sandbox_pod = None
        self._context.gpus.release(self._uid)
        if not self._is_shutting_down:
            # A pod that starts again in place after a restart of the node finds its emptyDirs.
            folder = self._context.pod_folder(self._uid)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    # -- the API object -------------------------------------------------------------------

    def _status(self, sent: Json) -> Json:
        if self._is_shutting_down or self.is_gone or self._was_over:
            return {}
        return pod_status(
            PodFacts(
                pod=self.pod,
                sent=sent,
                records=self.records,
                ip=self._ip,
                has_sandbox=self.sandbox_pod is not None,
                started_at=self._started_at,
                ending=self._ending,
                now=datetime.now(UTC),
            )
        )

    def _show_back_off(self, runner: ContainerRunner) -> None:
        record = runner.record
        if not isinstance(record.state, Terminated):
            return
        meta = self.pod["metadata"]
        where = f"{meta['name']}_{meta['namespace']}({self._uid})"
        delay = short_duration(record.crashes.delay_s)
        record.last = record.state
        record.state = Waiting(
            "CrashLoopBackOff",
            f"back-off {delay} restarting failed container={record.name} pod={where}",
        )
        runner.tell(
            "Warning",
            "BackOff",
            f"Back-off restarting failed container {record.name} in pod {where}",
        )
        self._publisher.touch()

    async def _await_removal(self) -> None:
        """Tell the API the final status; when the pod is deleted, remove its object."""
        await self._publisher.flush()
        is_deleted = False
        while not self.is_gone:
            self._wake.clear()
            if self.pod["metadata"].get("deletionTimestamp") and not is_deleted:
                await self._object.remove()
                is_deleted = True
                continue
            await self._wake.wait()

    # -- small things ---------------------------------------------------------------------

    @property
    def pod_name(self) -> str:
        """namespace/name, for the log."""
        meta = self.pod["metadata"]
        return f"{meta['namespace']}/{meta['name']}"

    def _tell(self, type_: str, reason: str, message: str) -> None:
        self._context.recorder.record(reference_to(self.pod), type_, reason, message)

    def _errand(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
