"""Pure rules of a pod's life: which containers to start, stop or leave, and its phase.

The rules are the kubelet's (pkg/kubelet/kuberuntime/kuberuntime_manager.go computePodActions,
pkg/kubelet/kubelet_pods.go getPhase). Nothing here does I/O or reads a clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onebox.node.record import (
    ContainerRecord,
    Role,
    Running,
    Stage,
    Terminated,
    Waiting,
)


@dataclass(frozen=True)
class Plan:
    """What to do next with a pod's containers.

    Attributes:
        start: containers to start now.
        stop: containers to stop now (the caller gives them the pod's grace).
        backing_off: ended or failed containers that wait for their back-off.
        over: nothing runs and nothing will ever run again in this pod.
        wake_at_s: monotonic second at which to look again, None when only events matter.
    """

    start: tuple[str, ...] = ()
    stop: tuple[str, ...] = ()
    backing_off: tuple[str, ...] = ()
    over: bool = False
    wake_at_s: float | None = None


def will_restart(role: Role, policy: str, exit_code: int) -> bool:
    """Tell whether a container that ended with this code is started again."""
    if role is Role.SIDECAR:
        return True
    if exit_code == 0:
        return role is Role.MAIN and policy == "Always"
    return policy != "Never"


def mains_are_done(records: Sequence[ContainerRecord], policy: str) -> bool:
    """True when every main container has ended for good."""
    return all(_is_over_for_good(record, policy) for record in records if record.role is Role.MAIN)


def init_has_failed(records: Sequence[ContainerRecord], policy: str) -> bool:
    """True when an init container failed and the pod's policy forbids another try."""
    return any(
        record.role is Role.INIT and record.exit_code != 0 and _is_over_for_good(record, policy)
        for record in records
    )


def _is_over_for_good(record: ContainerRecord, policy: str) -> bool:
    if record.stage is not Stage.EXITED or record.exit_code is None:
        return False
    return not will_restart(record.role, policy, record.exit_code)


def is_initialized(records: Sequence[ContainerRecord]) -> bool:
    """True when main containers may start (or one already has, which settles it)."""
    mains = [r for r in records if r.role is Role.MAIN and not r.carried]
    if any(r.stage is not Stage.NEW for r in mains):
        return True
    return all(
        (record.stage is Stage.EXITED and record.exit_code == 0)
        if record.role is Role.INIT
        else record.started
        for record in records
        if record.role is not Role.MAIN
    )


def plan(records: Sequence[ContainerRecord], policy: str, now_s: float, *, ending: bool) -> Plan:
    """Decide the next steps.

    Args:
        records: init containers and sidecars in the pod's order, then the main containers.
        policy: the pod's restartPolicy.
        now_s: the monotonic clock that `retry_at_s` of the records counts in.
        ending: the pod is being deleted, hit its deadline or the node stops.
    """
    if ending or mains_are_done(records, policy) or init_has_failed(records, policy):
        alive = any(r.stage in (Stage.STARTING, Stage.RUNNING) for r in records)
        return Plan(stop=stop_order(records), over=not alive)
    wanted = _wanted(records, policy)
    start = [record.name for record in wanted if record.retry_at_s <= now_s]
    later = [record for record in wanted if record.retry_at_s > now_s]
    return Plan(
        start=tuple(start),
        backing_off=tuple(record.name for record in later),
        wake_at_s=min((record.retry_at_s for record in later), default=None),
    )


def _wanted(records: Sequence[ContainerRecord], policy: str) -> list[ContainerRecord]:
    """List the containers that should run but do not, in order of start."""
    initialized = is_initialized(records)
    wanted: list[ContainerRecord] = []
    for record in records:
        if record.role is Role.INIT:
            if record.stage is Stage.EXITED and record.exit_code == 0:
                continue
            if not initialized:
                return wanted + _startable(record)
        elif record.role is Role.SIDECAR:
            wanted += _startable(record)
            if not initialized and not record.started:
                return wanted
        elif record.stage is not Stage.EXITED or not _is_over_for_good(record, policy):
            wanted += _startable(record)
    return wanted


def _startable(record: ContainerRecord) -> list[ContainerRecord]:
    return [record] if record.stage in (Stage.NEW, Stage.EXITED) else []


def stop_order(records: Sequence[ContainerRecord]) -> tuple[str, ...]:
    """Name the containers to stop now: init and main ones at once, then sidecars from the last.

    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/ : sidecars end after
    the main containers, in reverse order of their start.
    """
    alive = [r for r in records if r.stage in (Stage.STARTING, Stage.RUNNING)]
    others = [r.name for r in alive if r.role is not Role.SIDECAR]
    if others:
        return tuple(others)
    return (alive[-1].name,) if alive else ()


def phase(records: Sequence[ContainerRecord], policy: str, *, terminal: bool) -> str:
    """Compute the pod's phase from what its containers show.

    Args:
        terminal: nothing will run again whatever the policy says (deleted, deadline).
    """
    counts = _Counts()
    for record in records:
        counts.add(record)
    if counts.failed_inits and policy == "Never":
        return "Pending" if counts.running else "Failed"
    initialized = is_initialized(records)
    if not terminal and (
        counts.pending_inits or (counts.pending_sidecars and not initialized) or counts.waiting
    ):
        return "Pending"
    if counts.running:
        return "Running"
    if terminal:
        all_well = counts.stopped == counts.succeeded and not counts.waiting
        return "Succeeded" if all_well and counts.stopped else "Failed"
    if counts.stopped and policy != "Always":
        if counts.stopped == counts.succeeded:
            return "Succeeded"
        return "Failed" if policy == "Never" else "Running"
    return "Running" if counts.stopped else "Pending"


@dataclass
class _Counts:
    """Tally of containers, as getPhase keeps it."""

    pending_inits: int = 0
    failed_inits: int = 0
    pending_sidecars: int = 0
    running: int = 0
    waiting: int = 0
    stopped: int = 0
    succeeded: int = 0

    def add(self, record: ContainerRecord) -> None:
        if record.role is Role.INIT:
            self._add_init(record)
        elif record.role is Role.SIDECAR:
            self._add_sidecar(record)
        else:
            self._add_main(record)

    def _add_init(self, record: ContainerRecord) -> None:
        ended = record.terminated
        if isinstance(record.state, Running) or ended is None:
            self.pending_inits += 1
        elif ended.exit_code != 0:
            self.failed_inits += 1

    def _add_sidecar(self, record: ContainerRecord) -> None:
        if isinstance(record.state, Running):
            self.running += 1
            self.pending_sidecars += not record.started
        elif isinstance(record.state, Waiting) and record.last is None:
            self.pending_sidecars += 1
            self.waiting += 1

    def _add_main(self, record: ContainerRecord) -> None:
        if isinstance(record.state, Running):
            self.running += 1
        elif isinstance(record.state, Terminated):
            self.stopped += 1
            self.succeeded += record.state.exit_code == 0
        elif record.last is not None:
            self.stopped += 1
        else:
            self.waiting += 1
