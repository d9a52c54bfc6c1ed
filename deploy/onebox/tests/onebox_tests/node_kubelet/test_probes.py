"""Probe thresholds and order, with checks that answer as told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from onebox.node.probes import (
    ContainerProbes,
    Listener,
    Outcome,
    ProbeCounter,
    probe_times,
)

FAST = {"periodSeconds": 0.001, "initialDelaySeconds": 0, "timeoutSeconds": 1}


def test_a_verdict_needs_consecutive_outcomes():
    counter = ProbeCounter(probe_times({"failureThreshold": 3, "successThreshold": 2}))
    outcomes = [False, False, True, False, False, False, True, True]
    verdicts = []
    for ok in outcomes:
        counter.count(ok)
        verdicts.append(counter.verdict)
    assert verdicts == [None, None, None, None, None, False, False, True]


class Story:
    """What the probes told, in order."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.event = asyncio.Event()
        self.listener = Listener(
            lambda: self._tell("started"),
            lambda ready: self._tell(f"ready={ready}"),
            lambda kind: self._tell(f"failed {kind}"),
            lambda kind, output: self._tell(f"unhealthy {kind}: {output}"),
        )

    def _tell(self, what: str) -> None:
        self.told.append(what)
        self.event.set()


async def run(spec: dict, answers: dict[str, list[bool]], until: Callable[[Story], bool]) -> Story:
    story = Story()

    async def check(probe: dict, _timeout_s: float) -> Outcome:
        left = answers[probe["name"]]
        ok = left.pop(0) if len(left) > 1 else left[0]
        return Outcome(ok, "" if ok else "no")

    task = asyncio.create_task(ContainerProbes(spec, check, story.listener).run())
    async with asyncio.timeout(5):
        while not until(story):
            story.event.clear()
            await story.event.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return story


async def test_nothing_is_ready_before_the_startup_probe_passed():
    spec = {
        "startupProbe": {**FAST, "name": "s", "failureThreshold": 5},
        "readinessProbe": {**FAST, "name": "r"},
    }
    story = await run(
        spec, {"s": [False, False, True], "r": [True]}, lambda s: "ready=True" in s.told
    )
    assert story.told == ["unhealthy startup: no"] * 2 + ["started", "ready=True"]


async def test_a_failed_startup_probe_ends_the_container():
    spec = {"startupProbe": {**FAST, "name": "s", "failureThreshold": 2}}
    story = await run(spec, {"s": [False]}, lambda s: "failed startup" in s.told)
    assert story.told == ["unhealthy startup: no"] * 2 + ["failed startup"]


async def test_readiness_comes_and_goes_and_liveness_ends_the_container():
    spec = {
        "readinessProbe": {**FAST, "name": "r", "failureThreshold": 1},
        "livenessProbe": {**FAST, "name": "l", "failureThreshold": 3},
    }
    answers = {"r": [True, False, True], "l": [True, False, True, False, False, False]}
    story = await run(spec, answers, lambda s: "failed liveness" in s.told)
    assert "ready=False" in story.told
    assert story.told.count("unhealthy liveness: no") == 4


async def test_without_probes_a_container_is_ready_at_once():
    story = await run({}, {}, lambda s: "ready=True" in s.told)
    assert story.told == ["started", "ready=True"]
