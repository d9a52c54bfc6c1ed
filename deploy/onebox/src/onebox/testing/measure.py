"""Measures a whole onebox: `python -m onebox.testing.measure`.

Prints how many objects its API half creates in a second, start to ready (cold and warm home),
creation of a pod to Running, 50 pods to Running, and the CPU that all of onebox uses while nothing
happens.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from pathlib import Path

from onebox.api.registry import Api
from onebox.api.store import Store
from onebox.testing.cluster import OneBox, start
from onebox.testing.kube import Kube, Space, sleeper
from onebox.testing.processes import cpu_seconds, descendants

PODS = 50
IDLE_S = 30.0


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def creates_per_s(folder: Path, count: int = 1000) -> float:
    """Small objects written durably in a second, without HTTP; the best of three."""
    store = Store(folder / "state.db")
    api = Api(store)
    api.create("namespaces", None, {"metadata": {"name": "lab"}})
    best = 0.0
    for turn in range(3):
        began_s = time.perf_counter()
        for number in range(count):
            body = {"metadata": {"name": f"c{turn}-{number}"}, "data": {"a": "b"}}
            api.create("configmaps", "lab", body)
        best = max(best, count / (time.perf_counter() - began_s))
    store.close()
    return best


def pod_to_running(space: Space, rounds: int = 10) -> list[float]:
    """Seconds from the request to phase Running, one pod at a time, image present."""
    times = []
    for index in range(rounds):
        began_s = time.monotonic()
        space.pod(f"one-{index}")
        while space.kube.get(space.path("pods", f"one-{index}"))["status"]["phase"] != "Running":
            time.sleep(0.002)
        times.append(time.monotonic() - began_s)
    return times


def burst(space: Space) -> tuple[float, float]:
    """Seconds until 50 pods were created, and until all were Running."""
    began_s = time.monotonic()
    for index in range(PODS):
        space.pod(f"many-{index}", sleeper())
    created_s = time.monotonic() - began_s
    wanted = {f"many-{index}" for index in range(PODS)}
    while True:
        pods = space.kube.items(space.path("pods"))
        up = {p["metadata"]["name"] for p in pods if p["status"]["phase"] == "Running"}
        if wanted <= up:
            return created_s, time.monotonic() - began_s
        time.sleep(0.05)


def idle(box: OneBox) -> float:
    """Share of one core that all onebox processes use while nothing happens."""
    pids = [box.process.pid, *descendants(box.process.pid)]
    before = cpu_seconds(pids)
    time.sleep(IDLE_S)
    return (cpu_seconds(pids) - before) / IDLE_S


def main() -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="onebox-measure-") as folder:
        say(f"objects created: {creates_per_s(Path(folder)):.0f} a second")
        home = Path(folder) / "onebox"
        box = start(home)
        say(f"start to ready, new home: {box.ready_s:.2f} s")
        try:
            space = Space(Kube(box.kubeconfig), "measure")
            space.output("image", {**sleeper(), "command": ["true"]})
            times = pod_to_running(space)
            say(f"pod created to Running: median {statistics.median(times) * 1000:.0f} ms")
            say(f"idle CPU, no pods started: {idle(box) * 100:.2f} % of a core")
            created_s, running_s = burst(space)
            say(f"{PODS} pods: created in {created_s:.2f} s, Running after {running_s:.2f} s")
            say(f"idle CPU, {PODS + 10} pods: {idle(box) * 100:.2f} % of a core")
        finally:
            box.stop()
        box = start(home)
        say(f"start to ready, warm home with {PODS + 10} pods: {box.ready_s:.2f} s")
        box.stop()


if __name__ == "__main__":
    main()
