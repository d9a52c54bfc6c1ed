"""How long a change of a pod takes to its watchers: a page's websocket, and `kubectl get -w`."""

import json
import math
import random
import subprocess
import threading
import time
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.scale.cluster.lab import Lab
from tests.tools.kubectls import current_kubectl
from tests.tools.waiting import wait_for

_COLUMNS = r'jsonpath={.metadata.name} {.status.containerStatuses[0].restartCount}{"\n"}'
PATIENCE_S = 60.0
_THREADS = 8  # at most


@dataclass(frozen=True)
class Pod:
    """A replica that runs, and its training."""

    namespace: str
    name: str
    job_id: str


def running_pods(namespace: str = "") -> list[Pod]:
    """Workers of all tenants, or of one: a training whose server restarts again and again fails."""
    from jobs.models import Replica

    rows = Replica.objects.filter(state="running", role="worker")
    if namespace:
        rows = rows.filter(workload__tenant__namespace=namespace)
    found = rows.values_list("workload__tenant__namespace", "pod", "workload_id")
    return [Pod(namespace, pod, str(job)) for namespace, pod, job in found]


@dataclass
class Page:
    """What the websocket of an admin's page has heard: id -> monotonic seconds of its frames."""

    heard: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    frames: int = 0
    lost: int = 0  # times that the portal closed it

    def first_after(self, job_id: str, at_s: float) -> float:
        """When it first heard of a training after this moment; infinite when it has not."""
        times = self.heard[job_id]
        place = bisect_left(times, at_s)
        return times[place] if place < len(times) else math.inf


@contextmanager
def page(lab: Lab) -> Iterator[Page]:
    """An admin's page that is open; it hears of everything. A page that was closed comes back."""
    seen, ended = Page(), threading.Event()
    headers = {"Authorization": f"Token {lab.rest_of('root').token}"}
    url = f"ws://localhost:{lab.portal.port}/ws/live/"
    joined = threading.Event()

    def listen() -> None:
        while not ended.is_set():
            with connect(url, additional_headers=headers, compression=None) as socket:
                joined.set()
                while not ended.is_set():
                    try:
                        frame = json.loads(socket.recv(timeout=0.5))
                    except TimeoutError:
                        continue
                    except ConnectionClosed:
                        seen.lost += 1
                        break
                    seen.frames += 1
                    seen.heard[frame.get("id", "")].append(time.monotonic())

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    assert joined.wait(PATIENCE_S)
    time.sleep(1)  # the server joins its groups after it has accepted
    try:
        yield seen
    finally:
        ended.set()
        thread.join(5)


@contextmanager
def kubectl_watch(lab: Lab, namespace: str) -> Iterator[dict[tuple[str, str], float]]:
    """`kubectl get pods -w` of a namespace: (pod, restarts) -> monotonic seconds of its line."""
    seen: dict[tuple[str, str], float] = {}
    command = [current_kubectl(), f"--kubeconfig={lab.cluster.kubeconfig}", "get", "pods"]
    command += ["-n", namespace, "-w", "-o", _COLUMNS]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output: Any = process.stdout

    def listen() -> None:
        for line in output:
            pod, _, count = line.strip().partition(" ")
            seen[pod, count] = time.monotonic()

    thread = threading.Thread(target=listen, daemon=True)
    thread.start()
    wait_for("kubectl lists", lambda: seen)
    try:
        yield seen
    finally:
        process.terminate()
        process.wait(10)
        thread.join(5)


class Restarts:
    """Says that containers were started again; each time one more."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._counts: dict[str, int] = {}

    def next(self, pod: Pod) -> int:
        count = self._counts[pod.name] = self._counts.get(pod.name, 0) + 1
        self._lab.admin.restart_count(pod.namespace, pod.name, count)
        return count


@dataclass(frozen=True)
class Sample:
    """Seconds from before the pod was patched until each watcher had heard."""

    page_s: float
    kubectl_s: float


def samples(lab: Lab, restarts: Restarts, namespace: str, count: int) -> list[Sample]:
    """`count` changes, one after the other, of pods of one namespace."""
    pods, found = running_pods(namespace), []
    with page(lab) as seen, kubectl_watch(lab, namespace) as lines:
        for _ in range(count):
            pod = random.choice(pods)
            began_s = time.monotonic()
            number = str(restarts.next(pod))
            wait_for(
                "the page hears of it",
                lambda pod=pod, at=began_s: seen.first_after(pod.job_id, at) < math.inf,
                interval_s=0.002,
            )
            wait_for(
                "kubectl hears of it",
                lambda key=(pod.name, number): key in lines,
                interval_s=0.002,
            )
            found.append(
                Sample(
                    seen.first_after(pod.job_id, began_s) - began_s,
                    lines[pod.name, number] - began_s,
                )
            )
            time.sleep(random.uniform(0.2, 0.4))
    return found


class Churn:
    """Changes random pods at a rate, from a few threads: a patch takes the API server its time.

    Attributes:
        made: training and the monotonic seconds before its pod was changed, for each change.
    """

    def __init__(self, lab: Lab, restarts: Restarts, rate_per_s: float) -> None:
        self._pods = running_pods()
        self._restarts = restarts
        self._threads = min(_THREADS, len(self._pods))
        self._every_s = self._threads / rate_per_s
        self._ended = threading.Event()
        self.made: list[tuple[str, float]] = []

    @contextmanager
    def going(self) -> Iterator["Churn"]:
        # Each has pods of its own: the next count of a pod is nobody else's.
        threads = [
            threading.Thread(target=self._run, args=(self._pods[n :: self._threads],), daemon=True)
            for n in range(self._threads)
        ]
        for thread in threads:
            thread.start()
        try:
            yield self
        finally:
            self._ended.set()
            for thread in threads:
                thread.join(PATIENCE_S)

    def _run(self, pods: list[Pod]) -> None:
        due_s = time.monotonic()
        while not self._ended.is_set():
            pod, began_s = random.choice(pods), time.monotonic()
            self._restarts.next(pod)
            self.made.append((pod.job_id, began_s))
            due_s += self._every_s
            self._ended.wait(max(0.0, due_s - time.monotonic()))
