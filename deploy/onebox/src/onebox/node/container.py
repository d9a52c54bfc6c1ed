"""Runs one container of a pod: image, configuration, process, hooks, probes, ending.

`start` makes one try and returns at once; what comes of it is written into the container's
record and told to the pod. `stop` ends whatever goes on. The pod decides when to call them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import aiohttp

from onebox.node.backoff import Backoff
from onebox.node.checks import Checker, Target
from onebox.node.client import ApiError, Json
from onebox.node.context import NodeContext
from onebox.node.environment import ConfigError
from onebox.node.events import reference_to
from onebox.node.logfiles import drop_old_runs, log_path, tail_text
from onebox.node.podspec import CreateError
from onebox.node.probes import ContainerProbes, Kind, Listener, needs_probing
from onebox.node.pulls import Progress, Puller, PullError
from onebox.node.record import (
    TERMINATION_MESSAGE_BYTES,
    ContainerRecord,
    Role,
    Running,
    Stage,
    Terminated,
    Waiting,
)
from onebox.node.resolution import StartRequest, resolve
from onebox.node.sandbox import Container, Pod
from onebox.node.spec import Exit, ImageEnv, PodGone, StartError
from onebox.node.volumes import Volume

log = logging.getLogger(__name__)

# A configuration that cannot be resolved yet (a missing configmap) is tried again this often.
FIRST_CONFIG_PAUSE_S = 1.0
LONGEST_CONFIG_PAUSE_S = 30.0
# A postStart hook has no time limit upstream; one that hangs must not hang for ever here.
LONGEST_HOOK_S = 300.0


class PodHost(Protocol):
    """What a container needs of its pod."""

    pod: Json
    sandbox_pod: Pod | None
    volumes: Mapping[str, Volume]
    gpu_shares: Mapping[str, list[int]]

    @property
    def pod_name(self) -> str:
        """namespace/name, for the log."""

    def changed(self) -> None:
        """Hear that a record changed."""

    def show_progress(self, text: str | None) -> None:
        """Hear how far a pull is; None when it is over."""


class ContainerRunner:
    """One container of one pod, over all its restarts."""

    def __init__(self, context: NodeContext, host: PodHost, record: ContainerRecord) -> None:
        self._context = context
        self._host = host
        self.record = record
        self._attempt: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._container: Container | None = None
        self._kill_at_s = 0.0
        self._hurry = asyncio.Event()
        self._config_backoff = Backoff(FIRST_CONFIG_PAUSE_S, LONGEST_CONFIG_PAUSE_S)
        self._puller = Puller(context.images, self.tell, lambda _: None)
        self._is_launching = False

    # -- what the pod asks for ------------------------------------------------------------

    def start(self) -> None:
        """Begin one try to run the container; a running or starting one is left alone."""
        if self._attempt is not None and not self._attempt.done():
            return
        before = self.record.stage
        self.record.stage = Stage.STARTING
        self.record.stopping = False
        self._attempt = asyncio.create_task(self._run(before))

    def stop(self, kill_at_s: float, why: str) -> None:
        """Begin to end the container.

        Args:
            kill_at_s: monotonic second at which it is killed; a later call may only shorten it.
            why: event message, told once.
        """
        if self._attempt is None or self._attempt.done():
            return
        if self.record.stopping:
            if kill_at_s < self._kill_at_s:
                self._kill_at_s = kill_at_s
                self._hurry.set()
            return
        self.record.stopping = True
        self._kill_at_s = kill_at_s
        if self._is_launching:
            # The process is there in a moment; it is ended as soon as it is.
            return
        if self._container is None:
            self._attempt.cancel()
            return
        self.tell("Normal", "Killing", why)
        self._ending = asyncio.create_task(self._end(self._container))

    async def close(self) -> None:
        """Cancel everything; the process itself ends with the pod's sandbox."""
        for task in (self._attempt, self._ending):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task

    def tell(self, type_: str, reason: str, message: str) -> None:
        """Record an event about this container."""
        section = "containers" if self.record.role is Role.MAIN else "initContainers"
        reference = reference_to(self._host.pod, f"spec.{section}{{{self.record.name}}}")
        self._context.recorder.record(reference, type_, reason, message)

    # -- one try --------------------------------------------------------------------------

    async def _run(self, before: Stage) -> None:
        """Bring the container up and see it to its end; every outcome lands in the record."""
        try:
            container = await self._bring_up()
            await self._see_to_end(container)
        except PullError as failure:
            self._not_started(before, failure.reason, failure.message, failure.retry_at_s)
        except ConfigError as error:
            self._config_failed(before, "CreateContainerConfigError", str(error))
        except CreateError as error:
            self._config_failed(before, "CreateContainerError", str(error))
        except StartError as error:
            self._start_failed(error)
        except (ApiError, aiohttp.ClientError, OSError, TimeoutError) as error:
            self._config_failed(before, "CreateContainerConfigError", str(error) or "no answer")
        except PodGone:
            # The pod notices by itself that its sandbox is gone and starts over.
            self.record.stage = before
        except asyncio.CancelledError:
            self.record.stage = before
            raise
        except Exception as error:
            # The fence of one try: a fault here must neither stop the pod nor leave a process.
            log.exception("container %s of pod %s failed", self.record.name, self._host.pod_name)
            await self._kill_quietly()
            text = f"the node made a mistake: {type(error).__name__}: {error}"
            self._config_failed(before, "RunContainerError", text)
        finally:
            self._container = None
            self._host.changed()

    async def _bring_up(self) -> Container:
        record = self.record
        image = await self._obtain_image()
        sandbox_pod = self._host.sandbox_pod
        if sandbox_pod is None:
            raise PodGone("the pod's sandbox is gone")
        count = record.restart_count + (1 if record.has_run else 0)
        path = self._log_path(count)
        request = StartRequest(
            pod=self._host.pod,
            container=record.spec,
            image=image,
            pod_ip=sandbox_pod.ip,
            volumes=self._host.volumes,
            gpu_indices=self._host.gpu_shares.get(record.name),
            log_path=path,
        )
        spec = await resolve(self._context, request)
        path.parent.mkdir(parents=True, exist_ok=True)
        drop_old_runs(path)
        self._is_launching = True
        try:
            container = await sandbox_pod.run(spec)
        except StartError as error:
            if error.reason == "CreateContainerError":
                raise CreateError(error.message) from error
            self._count_run(count, image)
            raise
        finally:
            self._is_launching = False
        self._count_run(count, image)
        self.tell("Normal", "Created", f"Created container: {record.name}")
        return container

    def _count_run(self, restart_count: int, image: ImageEnv) -> None:
        """Note that a process was started, or would have been but for its program."""
        record = self.record
        if record.has_run:
            record.crashes.tried(record.ended_at_s, time.monotonic())
        record.has_run = True
        record.restart_count = restart_count
        record.image_id = image.image_id
        record.container_id = f"onebox://{uuid.uuid4().hex}"

    async def _obtain_image(self) -> ImageEnv:
        progress = Progress(self._host.show_progress)
        shown = False

        def on_progress(text: str) -> None:
            nonlocal shown
            shown = True
            progress(text)

        self._puller.on_progress = on_progress
        try:
            return await self._puller.obtain(self.record.spec)
        finally:
            progress.close()
            if shown:
                self._host.show_progress(None)

    def _log_path(self, restart_count: int) -> Path:
        folder = self._context.log_folder(self._host.pod)
        return log_path(folder, self.record.name, restart_count)

    async def _kill_quietly(self) -> None:
        if self._container is not None:
            with contextlib.suppress(PodGone, OSError):
                await self._container.signal(signal.SIGKILL)

    # -- while it runs --------------------------------------------------------------------

    async def _see_to_end(self, container: Container) -> None:
        record = self.record
        self._container = container
        checker = self._checker(container)
        if record.stopping:
            # Asked to stop in the very moment of its start.
            self._ending = asyncio.create_task(self._end(container))
        record.stage = Stage.RUNNING
        self._keep_last()
        record.state = Running(datetime.now(UTC))
        self.tell("Normal", "Started", f"Started container {record.name}")
        watching = asyncio.create_task(self._watch_over_fenced(checker))
        self._host.changed()
        try:
            ended = await container.wait()
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
            record.ready = record.started = False
        self._note_exit(ended)

    def _checker(self, container: Container) -> Checker:
        sandbox_pod = self._host.sandbox_pod
        ip = sandbox_pod.ip if sandbox_pod is not None else ""
        return Checker(Target(self._context.sandbox, container, self.record.spec, ip))

    async def _watch_over_fenced(self, checker: Checker) -> None:
        """The fence of hooks and probes: a fault in them must not orphan the process."""
        try:
            await self._watch_over(checker)
        except Exception:
            log.exception("probes of container %s stopped by a fault", self.record.name)

    async def _watch_over(self, checker: Checker) -> None:
        """Run the postStart hook, then the probes, as long as the process lives."""
        hook = (self.record.spec.get("lifecycle") or {}).get("postStart")
        if hook:
            outcome = await checker.check(hook, LONGEST_HOOK_S)
            if not outcome.ok:
                self.tell(
                    "Warning", "FailedPostStartHook", f"PostStartHook failed: {outcome.output}"
                )
                self.stop(self._grace_ends_at_s(None), "FailedPostStartHook")
                return
        if not needs_probing(self.record.spec):
            self._on_started()
            self._on_ready(True)
            return
        self._tell_of_grpc()
        listener = Listener(self._on_started, self._on_ready, self._on_failed, self._on_unhealthy)
        await ContainerProbes(self.record.spec, checker.check, listener).run()

    def _tell_of_grpc(self) -> None:
        for kind in ("startupProbe", "readinessProbe", "livenessProbe"):
            if "grpc" in (self.record.spec.get(kind) or {}):
                self.tell(
                    "Warning",
                    "ProbeNotOffered",
                    f"{kind}: grpc probes are not offered by this node, so it is taken as "
                    "passed; use exec, httpGet or tcpSocket",
                )

    def _on_started(self) -> None:
        self.record.started = True
        self._host.changed()

    def _on_ready(self, ready: bool) -> None:
        if self.record.ready is not ready:
            self.record.ready = ready
            self._host.changed()

    def _on_unhealthy(self, kind: Kind, output: str) -> None:
        self.tell("Warning", "Unhealthy", f"{kind.capitalize()} probe failed: {output}")

    def _on_failed(self, kind: Kind) -> None:
        probe = self.record.spec.get(f"{kind}Probe") or {}
        self.stop(
            self._grace_ends_at_s(probe.get("terminationGracePeriodSeconds")),
            f"Container {self.record.name} failed {kind} probe, will be restarted",
        )

    def _grace_ends_at_s(self, grace_s: float | None) -> float:
        if grace_s is None:
            grace_s = self._host.pod["spec"].get("terminationGracePeriodSeconds", 30)
        return time.monotonic() + float(grace_s)

    async def _end(self, container: Container) -> None:
        """preStop hook, SIGTERM, and SIGKILL when the time is over."""
        hook = (self.record.spec.get("lifecycle") or {}).get("preStop")
        left_s = self._kill_at_s - time.monotonic()
        if hook and left_s > 0:
            await self._pre_stop(container, hook, left_s)
        with contextlib.suppress(PodGone):
            if self._kill_at_s > time.monotonic():
                await container.signal(signal.SIGTERM)
            while (left_s := self._kill_at_s - time.monotonic()) > 0:
                self._hurry.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(left_s):
                        await self._hurry.wait()
            await container.signal(signal.SIGKILL)

    async def _pre_stop(self, container: Container, hook: Json, left_s: float) -> None:
        """Run the hook, until it ends or the end is hurried."""
        checking = asyncio.create_task(self._checker(container).check(hook, left_s))
        hurrying = asyncio.create_task(self._hurry.wait())
        try:
            await asyncio.wait((checking, hurrying), return_when=asyncio.FIRST_COMPLETED)
            if checking.done() and not checking.result().ok:
                text = f"PreStopHook failed: {checking.result().output}"
                self.tell("Warning", "FailedPreStopHook", text)
        finally:
            checking.cancel()
            hurrying.cancel()

    # -- outcomes -------------------------------------------------------------------------

    def _keep_last(self) -> None:
        if isinstance(self.record.state, Terminated):
            self.record.last = self.record.state

    def _note_exit(self, ended: Exit) -> None:
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        reason = "Completed" if ended.code == 0 else "Error"
        self._ended(
            Terminated(
                ended.code,
                "OOMKilled" if ended.oom_killed else reason,
                self._termination_message(ended),
                ended.started_at,
                ended.finished_at,
                ended.signal,
                self.record.container_id,
            )
        )

    def _ended(self, ended: Terminated) -> None:
        record = self.record
        self._keep_last()
        record.state = ended
        record.stage = Stage.EXITED
        record.ended_at_s = time.monotonic()
        record.retry_at_s = record.crashes.retry_at_s(record.ended_at_s)

    def _termination_message(self, ended: Exit) -> str:
        text = ended.message[:TERMINATION_MESSAGE_BYTES]
        wants_log = self.record.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        if text or ended.code == 0 or not wants_log:
            return text
        return tail_text(self._log_path(self.record.restart_count), lines=80, size_bytes=2048)

    def _start_failed(self, error: StartError) -> None:
        self.tell("Warning", "Failed", f"Error: {error.message}")
        now = datetime.now(UTC)
        self._ended(
            Terminated(
                error.code,
                error.reason,
                self._without_places(error.message),
                now,
                now,
                container_id=self.record.container_id,
            )
        )

    def _without_places(self, message: str) -> str:
        return self._context.recorder.places.left_out_of(message)

    def _config_failed(self, before: Stage, reason: str, message: str) -> None:
        self.tell("Warning", "Failed", f"Error: {message}")
        now_s = time.monotonic()
        self._config_backoff.tried(self._config_backoff.updated_at_s or now_s, now_s)
        self._not_started(before, reason, message, now_s + self._config_backoff.delay_s)

    def _not_started(self, before: Stage, reason: str, message: str, retry_at_s: float) -> None:
        self._keep_last()
        self.record.state = Waiting(reason, self._without_places(message))
        self.record.stage = before
        self.record.retry_at_s = retry_at_s
