"""Probes of a running container: startup, readiness and liveness, with the kubelet's rules.

`ProbeCounter` is the pure part (thresholds). `ContainerProbes` runs the probes of one process
and tells its owner when readiness, startedness or liveness changes.
https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal

from onebox.node.client import Json

Kind = Literal["startup", "readiness", "liveness"]
FIELDS: dict[Kind, str] = {
    "startup": "startupProbe",
    "readiness": "readinessProbe",
    "liveness": "livenessProbe",
}


@dataclass(frozen=True)
class Outcome:
    """Result of one check; `output` is for the event when it failed."""

    ok: bool
    output: str = ""


Check = Callable[[Json, float], Awaitable[Outcome]]
"""check(probe, timeout_s): runs one probe once; never raises for a failing probe."""


@dataclass(frozen=True)
class ProbeTimes:
    """The numbers of a probe, with upstream's defaults."""

    initial_delay_s: float
    period_s: float
    timeout_s: float
    success_threshold: int
    failure_threshold: int


def probe_times(probe: Json) -> ProbeTimes:
    """Read a probe's numbers."""
    return ProbeTimes(
        initial_delay_s=float(probe.get("initialDelaySeconds") or 0),
        period_s=float(probe.get("periodSeconds") or 10),
        timeout_s=float(probe.get("timeoutSeconds") or 1),
        success_threshold=int(probe.get("successThreshold") or 1),
        failure_threshold=int(probe.get("failureThreshold") or 3),
    )


class ProbeCounter:
    """Turns single outcomes into a verdict by consecutive counts.

    `verdict` is None until a threshold was reached for the first time.
    """

    def __init__(self, times: ProbeTimes) -> None:
        self._times = times
        self._last: bool | None = None
        self._run = 0
        self.verdict: bool | None = None

    def count(self, ok: bool) -> bool:
        """Take one outcome; return whether the verdict was reached or confirmed by it."""
        self._run = self._run + 1 if ok is self._last else 1
        self._last = ok
        needed = self._times.success_threshold if ok else self._times.failure_threshold
        if self._run < needed:
            return False
        self.verdict = ok
        return True


@dataclass(frozen=True)
class Listener:
    """Whom the probes tell.

    Args:
        started: called once, when the startup probe passed (or there is none).
        ready: called with each new readiness.
        failed: called once, when liveness or startup failed for good; the argument says which.
        unhealthy: called for every failed check with kind and output (an event).
    """

    started: Callable[[], None]
    ready: Callable[[bool], None]
    failed: Callable[[Kind], None]
    unhealthy: Callable[[Kind, str], None]


class ContainerProbes:
    """The probes of one running process; cancel `run` when it ends."""

    def __init__(self, container: Json, check: Check, listener: Listener) -> None:
        self._container = container
        self._check = check
        self._listener = listener

    def probe(self, kind: Kind) -> Json | None:
        """The probe of that kind, None when the container has none."""
        found: Json | None = self._container.get(FIELDS[kind])
        return found

    async def run(self) -> None:
        """Run all probes until cancelled, or until startup or liveness has failed for good."""
        startup = self.probe("startup")
        if startup is not None and not await self._until_verdict(startup):
            self._listener.failed("startup")
            return
        self._listener.started()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._readiness())
            group.create_task(self._liveness())

    async def _until_verdict(self, probe: Json) -> bool:
        times = probe_times(probe)
        counter = ProbeCounter(times)
        await asyncio.sleep(times.initial_delay_s)
        while True:
            ok = await self._once("startup", probe, times)
            if counter.count(ok):
                return ok
            await asyncio.sleep(times.period_s)

    async def _readiness(self) -> None:
        probe = self.probe("readiness")
        if probe is None:
            self._listener.ready(True)
            return
        times = probe_times(probe)
        counter = ProbeCounter(times)
        await asyncio.sleep(times.initial_delay_s)
        while True:
            ok = await self._once("readiness", probe, times)
            if counter.count(ok):
                self._listener.ready(ok)
            await asyncio.sleep(times.period_s)

    async def _liveness(self) -> None:
        probe = self.probe("liveness")
        if probe is None:
            return
        times = probe_times(probe)
        counter = ProbeCounter(times)
        await asyncio.sleep(times.initial_delay_s)
        while True:
            ok = await self._once("liveness", probe, times)
            if counter.count(ok) and not ok:
                self._listener.failed("liveness")
                return
            await asyncio.sleep(times.period_s)

    async def _once(self, kind: Kind, probe: Json, times: ProbeTimes) -> bool:
        outcome = await self._check(probe, times.timeout_s)
        if not outcome.ok:
            self._listener.unhealthy(kind, outcome.output)
        return outcome.ok


def needs_probing(container: Json) -> bool:
    """Tell whether a container has any probe."""
    return any(container.get(field) for field in FIELDS.values())
