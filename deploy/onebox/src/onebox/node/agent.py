"""The node's agent: takes the pods that are bound to this node and keeps one worker for each.

It watches pods and services, decides on admission, restores what was here before a restart,
and finds logs. It polls nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from onebox.node.admission import RefusedError, check_abilities, check_resources
from onebox.node.client import Json, resource_path
from onebox.node.context import NodeContext
from onebox.node.events import reference_to
from onebox.node.gpus import GpuShortageError
from onebox.node.logfiles import log_path
from onebox.node.logs import LogRun
from onebox.node.logserver import LogRefusedError
from onebox.node.reboot import had_containers, resume
from onebox.node.record import (
    ContainerRecord,
    Running,
    Stage,
    Waiting,
    new_records,
    restore_records,
)
from onebox.node.status import Ending
from onebox.node.watch import Watch
from onebox.node.worker import PodStart, PodWorker

log = logging.getLogger(__name__)

FINISHED = ("Succeeded", "Failed")
PAUSE_AFTER_FAULT_S = 5.0


class Agent:
    """All pods of this node. Handler of the watch of pods."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        self._workers: dict[str, PodWorker] = {}
        self._by_name: dict[tuple[str, str], str] = {}
        self._waiting: dict[str, Json] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_first_list = True
        self._is_stopping = False
        self.watch = Watch(
            context.client,
            resource_path("v1", "pods"),
            self,
            {"fieldSelector": f"spec.nodeName={context.name}"},
        )

    async def shut_down(self, grace_s: float, hurry: asyncio.Event) -> None:
        """End all pods: SIGTERM, then SIGKILL after their grace, at most `grace_s` seconds.

        The API is not told: to it the node went away, and the next start says what became of
        the pods. `hurry` kills at once.
        """
        self._is_stopping = True
        for worker in self._workers.values():
            worker.shut_down(grace_s)
        alive = [self._tasks[uid] for uid, worker in self._workers.items() if not worker.is_over]
        hurrying = asyncio.create_task(self._hurry_when(hurry))
        if alive:
            await asyncio.wait(alive, timeout=grace_s + 5)
        hurrying.cancel()
        for task in list(self._tasks.values()):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _hurry_when(self, hurry: asyncio.Event) -> None:
        await hurry.wait()
        for worker in self._workers.values():
            worker.hurry()

    # -- the watch of pods ----------------------------------------------------------------

    def replace(self, objects: list[Json]) -> None:
        """Take the whole list of this node's pods."""
        if self._is_stopping:
            return
        found = {pod["metadata"]["uid"]: pod for pod in objects}
        for uid, worker in self._workers.items():
            if uid not in found:
                worker.vanish()
        if self._is_first_list:
            self._is_first_list = False
            remove_orphans(self._context.home, set(found))
            for pod in sorted(objects, key=_order_of_return):
                self._take(pod, self._decided(self._resumed, pod))
            return
        for uid in [uid for uid in self._waiting if uid not in found]:
            del self._waiting[uid]
        for pod in sorted(objects, key=_order_of_return):
            self.apply("MODIFIED", pod)

    def apply(self, event_type: str, obj: Json) -> None:
        """Take one change of a pod."""
        if self._is_stopping:
            return
        uid = obj["metadata"]["uid"]
        worker = self._workers.get(uid)
        if event_type == "DELETED":
            self._waiting.pop(uid, None)
            if worker is not None:
                worker.vanish()
        elif worker is not None:
            worker.update(obj)
        else:
            self._arrive(obj)

    def _arrive(self, pod: Json) -> None:
        """Admit a pod, or let it wait for pods whose objects are gone but not their processes.

        The scheduler gives the room of a force-deleted pod away at once; here it becomes free a
        moment later.
        """
        start = self._decided(self._admitted, pod)
        leaving = any(w.is_gone and not w.is_over for w in self._workers.values())
        if start.ending is not None and leaving:
            self._waiting[pod["metadata"]["uid"]] = pod
            return
        self._waiting.pop(pod["metadata"]["uid"], None)
        self._take(pod, start)

    def _take(self, pod: Json, start: PodStart) -> None:
        meta = pod["metadata"]
        if start.ending is not None:
            words = (start.ending.reason, start.ending.message)
            self._context.recorder.record(reference_to(pod), "Warning", *words)
        worker = PodWorker(self._context, pod, start)
        self._workers[meta["uid"]] = worker
        self._by_name[meta["namespace"], meta["name"]] = meta["uid"]
        self._tasks[meta["uid"]] = asyncio.create_task(self._run(worker))

    async def _run(self, worker: PodWorker) -> None:
        """Run a worker; the fence of one pod's faults."""
        meta = worker.pod["metadata"]
        uid = meta["uid"]
        try:
            await worker.run()
        except Exception:
            log.exception("pod %s/%s stopped by a fault", meta["namespace"], meta["name"])
            self._context.recorder.record(
                reference_to(worker.pod),
                "Warning",
                "NodeFault",
                "the node made a mistake with this pod and starts it again; see the node's log",
            )
            await asyncio.sleep(PAUSE_AFTER_FAULT_S)
            self._forget(worker)
            if not worker.is_gone:
                self._take(worker.pod, self._decided(self._resumed, worker.pod))
            return
        self._forget(worker)
        if worker.is_gone:
            folder = self._context.log_folder(worker.pod)
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
            await asyncio.to_thread(
                shutil.rmtree, self._context.pod_folder(uid), ignore_errors=True
            )

    def _forget(self, worker: PodWorker) -> None:
        meta = worker.pod["metadata"]
        self._workers.pop(meta["uid"], None)
        self._tasks.pop(meta["uid"], None)
        if self._by_name.get((meta["namespace"], meta["name"])) == meta["uid"]:
            del self._by_name[meta["namespace"], meta["name"]]
        if not self._is_stopping:
            for pod in list(self._waiting.values()):
                self._arrive(pod)

    # -- how a pod begins -----------------------------------------------------------------

    @staticmethod
    def _decided(decide: Callable[[Json], PodStart], pod: Json) -> PodStart:
        """Decide on a pod; the fence that keeps an odd pod from ending the node."""
        try:
            return decide(pod)
        except Exception as error:
            log.exception("pod %s cannot be taken", pod["metadata"]["name"])
            text = f"Pod was rejected: {type(error).__name__}: {error}"
            ending = Ending("UnexpectedAdmissionError", text, phase="Failed")
            return PodStart(new_records(pod), ending=ending)

    def _admitted(self, pod: Json) -> PodStart:
        """Decide on a pod that was just bound to this node."""
        if _phase(pod) in FINISHED:
            return _finished(pod)
        try:
            check_abilities(pod)
            others = [w.pod for w in self._workers.values() if not w.is_over]
            check_resources(pod, others, self._context.allocatable)
            shares = self._allocate(pod)
        except RefusedError as error:
            ending = Ending(error.reason, error.message, phase="Failed")
            return PodStart(new_records(pod), ending=ending)
        return PodStart(new_records(pod), gpu_shares=shares)

    def _allocate(self, pod: Json) -> dict[str, list[int]]:
        try:
            return self._context.gpus.allocate(pod)
        except GpuShortageError as error:
            raise RefusedError("UnexpectedAdmissionError", str(error)) from error

    def _resumed(self, pod: Json) -> PodStart:
        """Decide on a pod found when the node starts."""
        if _phase(pod) in FINISHED:
            return _finished(pod)
        if not had_containers(pod):
            return self._admitted(pod)
        resumed = resume(pod, datetime.now(UTC))
        if resumed.ending is not None:
            return PodStart(resumed.records, ending=resumed.ending)
        admitted = self._admitted(pod)
        if admitted.ending is not None:
            return PodStart(resumed.records, ending=admitted.ending)
        return PodStart(resumed.records, gpu_shares=admitted.gpu_shares)

    # -- logs -----------------------------------------------------------------------------

    def find_log(self, namespace: str, pod: str, container: str, previous: bool) -> LogRun:
        """Find the run whose log is meant, with the kubelet's words when there is none.

        Raises:
            LogRefusedError: no such pod, container or run.
        """
        uid = self._by_name.get((namespace, pod))
        worker = self._workers.get(uid or "")
        if worker is None:
            raise LogRefusedError(404, f'pod "{namespace}/{pod}" is not on this node')
        record = next((r for r in worker.records if r.name == container), None)
        if record is None:
            raise LogRefusedError(400, f"container {container} is not valid for pod {pod}")
        number = run_number(record, pod, previous=previous)
        changed = asyncio.Event()
        unsubscribe = worker.subscribe(changed.set)

        def is_over() -> bool:
            is_current = record.restart_count == number and record.stage is Stage.RUNNING
            return not is_current or worker.is_gone

        path = log_path(self._context.log_folder(worker.pod), container, number)
        return LogRun(path, is_over, changed, unsubscribe)


def run_number(record: ContainerRecord, pod: str, *, previous: bool) -> int:
    """Tell which run's log a reader gets (kubelet_pods.go validateContainerLogStatus).

    Raises:
        LogRefusedError: there is no such run.
    """
    waiting = record.state if isinstance(record.state, Waiting) else None
    if previous:
        if record.last is None:
            text = f'previous terminated container "{record.name}" in pod "{pod}" not found'
            raise LogRefusedError(400, text)
        return record.restart_count if waiting else record.restart_count - 1
    if waiting is None or record.last is not None or isinstance(record.state, Running):
        return record.restart_count
    why = {
        "ErrImagePull": "image can't be pulled",
        "ImagePullBackOff": "trying and failing to pull image",
    }.get(waiting.reason, waiting.reason)
    text = f'container "{record.name}" in pod "{pod}" is waiting to start: {why}'
    raise LogRefusedError(400, text)


def _finished(pod: Json) -> PodStart:
    """A pod that ended earlier: only its logs and its removal are left."""
    records = restore_records(pod, datetime.now(UTC), "")
    for record in records:
        if record.last is not None and record.stage is not Stage.EXITED:
            record.state, record.last, record.stage = record.last, None, Stage.EXITED
    return PodStart(records, is_over=True)


def _phase(pod: Json) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _order_of_return(pod: Json) -> tuple[bool, str]:
    """Pods that ran before come first: they get their GPUs and their room again."""
    return not had_containers(pod), pod["metadata"].get("creationTimestamp") or ""


def remove_orphans(home: Path, uids: set[str]) -> None:
    """Remove what pods left that were deleted while this node was away; blocking."""
    for folder, uid_of in ((home / "pods", _own_name), (home / "logs", _after_underscore)):
        if folder.is_dir():
            for entry in folder.iterdir():
                if uid_of(entry) not in uids:
                    shutil.rmtree(entry, ignore_errors=True)


def _own_name(path: Path) -> str:
    return path.name


def _after_underscore(path: Path) -> str:
    return path.name.rpartition("_")[2]
