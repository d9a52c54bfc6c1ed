"""What a script does to a cluster and what it hears, written down step by step."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable
from typing import Any

from tests.contract.kube import APPLY, JSON, JSON_PATCH, MERGE, Json, Kube, Reply, Stream, address
from tests.contract.normal import normalise

CORE = "/api/v1"
COUNTING_S = 15.0
SILENCE_S = 20.0  # a watch that hears nothing for so long misses something
NODE = "contract-node"  # nobody runs its pods: scripts play the kubelet

Show = Callable[[Any], Any]


def pick(*paths: str) -> Show:
    """A projection: an object with nothing but these fields (`spec.replicas`, `status`)."""

    def show(obj: Any) -> Any:
        made: Json = {}
        for path in paths:
            source, target = obj, made
            *parents, last = path.split(".")
            for key in parents:
                source = source.get(key) or {}
                target = target.setdefault(key, {})
            if last in source:
                target[last] = source[last]
        return made

    return show


class Tape:
    """One run of one script in a namespace of its own.

    Attributes:
        kube: for calls that are not written down.
        ns: the namespace.
    """

    def __init__(self, kube: Kube, ns: str) -> None:
        self.kube = kube
        self.ns = ns
        self.steps: list[Json] = []
        self.keep_managers = False

    @property
    def transcript(self) -> list[Json]:
        """The steps so far, comparable with those of another run."""
        return normalise(self.steps, self.ns, keep_managers=self.keep_managers)

    # --- paths ---
    def path(self, plural: str, name: str = "", group: str = "", **query: Any) -> str:
        """A path in the script's namespace; group as in "apps/v1"."""
        root = f"/apis/{group}" if group else CORE
        parts = [f"{root}/namespaces/{self.ns}/{plural}", *([name] if name else [])]
        return address("/".join(parts), query)

    # --- requests ---
    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = JSON,
        accept: str = JSON,
        show: Show | None = None,
    ) -> Reply:
        """Send a request and write down both; `show` chooses what of a good answer's body."""
        reply = self.kube.send(method, path, body, kind=kind, accept=accept)
        deadline_s = time.monotonic() + COUNTING_S
        while _is_uncounted(reply) and time.monotonic() < deadline_s:
            time.sleep(0.1)
            reply = self.kube.send(method, path, body, kind=kind, accept=accept)
        step: Json = {"send": f"{method} {path}"}
        if body is not None:
            step["body"] = body.decode(errors="replace") if isinstance(body, bytes) else body
            if kind != JSON:
                step["type"] = kind
        if accept != JSON:
            step["accept"] = accept
        step["reply"] = self._shown(reply, show)
        self._keep(step)
        return reply

    @staticmethod
    def _shown(reply: Reply, show: Show | None) -> Json:
        body = show(reply.body) if show and reply.code < 300 else reply.body
        shown: Json = {"code": reply.code, "body": body}
        if reply.warnings:
            shown["warnings"] = reply.warnings
        return shown

    def _keep(self, step: Json) -> None:
        self.steps.append(copy.deepcopy(step))

    def get(self, path: str, *, show: Show | None = None, **query: Any) -> Reply:
        return self.send("GET", address(path, query), show=show)

    def post(self, path: str, body: Any, *, show: Show | None = None, **query: Any) -> Reply:
        return self.send("POST", address(path, query), body, show=show)

    def put(self, path: str, body: Any, *, show: Show | None = None, **query: Any) -> Reply:
        return self.send("PUT", address(path, query), body, show=show)

    def merge(self, path: str, body: Any, *, show: Show | None = None, **query: Any) -> Reply:
        return self.send("PATCH", address(path, query), body, kind=MERGE, show=show)

    def json_patch(self, path: str, body: Any, *, show: Show | None = None) -> Reply:
        return self.send("PATCH", path, body, kind=JSON_PATCH, show=show)

    def apply(self, path: str, body: Any, *, show: Show | None = None, **query: Any) -> Reply:
        query.setdefault("fieldManager", "contract")
        return self.send("PATCH", address(path, query), body, kind=APPLY, show=show)

    def delete(
        self, path: str, body: Any = None, *, show: Show | None = None, **query: Any
    ) -> Reply:
        return self.send("DELETE", address(path, query), body, show=show)

    # --- waits ---
    def until(
        self,
        path: str,
        is_as_wanted: Callable[[Any], Any],
        *,
        show: Show | None = None,
        timeout_s: float = 45.0,
    ) -> Reply:
        """Ask until the answer is as wanted, and write the last one down."""
        reply = self.kube.until(path, is_as_wanted, timeout_s)
        self._keep({"wait for": f"GET {path}", "reply": self._shown(reply, show)})
        return reply

    def until_ending(self, pod: str, show: Show = lambda _: "is being deleted") -> None:
        """Ask until a pod has been asked to end, and write that down."""
        self.until(self.path("pods", pod), is_ending, show=show)

    def until_gone(self, path: str, *, timeout_s: float = 45.0) -> None:
        """Ask until there is nothing, and write that down."""
        reply = self.kube.until_gone(path, timeout_s)
        self._keep({"wait until gone": f"GET {path}", "reply": self._shown(reply, None)})

    def holds(
        self, path: str, is_as_wanted: Callable[[Any], Any], *, for_s: float, show: Show
    ) -> None:
        """Ask for some seconds; it has to be as wanted all the time."""
        end_s = time.monotonic() + for_s
        while True:
            reply = self.kube.send("GET", path)
            assert reply.code == 200, f"{path}: {reply.code} {reply.body}"
            assert is_as_wanted(reply.body), f"{path} did not stay: {reply.body}"
            if time.monotonic() > end_s:
                break
            time.sleep(0.2)
        self._keep({"stays": f"GET {path}", "reply": self._shown(reply, show)})

    # --- watches ---
    def watch(self, path: str, *, accept: str = JSON, **query: Any) -> Stream:
        """Open a watch; `events` writes down what it heard."""
        query = {"watch": "true", "timeoutSeconds": 120, **query}
        return self.kube.watch(address(path, query), accept=accept, timeout_s=SILENCE_S)

    def events(self, about: str, events: Iterable[Json], *, show: Show | None = None) -> list[Json]:
        """Write down what a watch heard.

        Args:
            show: what of each object; then those that look like the one before are left out, since
                how many writes a controller needs for one change is nobody's business.
        """
        kept: list[Json] = []
        for event in events:
            obj = event["object"]
            shown = {"type": event["type"], "object": show(obj) if show else obj}
            if show is None or not kept or shown != kept[-1]:
                kept.append(shown)
        self._keep({"watch": about, "events": kept})
        return kept

    def note(self, about: str, value: Any) -> None:
        """Write down something that was found out, such as which of two requests won."""
        self._keep({"note": about, "value": value})

    # --- the kubelet's part ---
    def pod_status(self, name: str, status: Json, *, ns: str = "") -> Json:
        """Say as a kubelet what became of a pod."""
        path = f"{CORE}/namespaces/{ns or self.ns}/pods/{name}/status"
        return self.kube.must("PATCH", path, {"status": status}, kind=MERGE)

    def runs(self, name: str) -> None:
        """The pod runs and is ready."""
        self.pod_status(name, running())

    def succeeds(self, name: str) -> None:
        """The pod's program ended with 0."""
        self.pod_status(name, ended("Succeeded", 0))

    def fails(self, name: str, code: int = 1, **more: Any) -> None:
        """The pod's program ended with another code."""
        self.pod_status(name, {**ended("Failed", code), **more})

    def pods(self, selector: str, count: int) -> list[Json]:
        """Wait until there are so many pods that have not ended; sorted by index and name."""

        def alive(body: Json) -> list[Json]:
            return [pod for pod in body["items"] if is_alive(pod)]

        path = self.path("pods", labelSelector=selector)
        body = self.kube.until(path, lambda body: len(alive(body)) == count).body
        return sorted(alive(body), key=lambda pod: (index_of(pod), pod["metadata"]["name"]))

    def let_go(self, name: str) -> None:
        """End a pod that is being deleted, as its kubelet does."""
        path = f"{CORE}/namespaces/{self.ns}/pods/{name}"
        self.kube.send("DELETE", path, {"gracePeriodSeconds": 0})


def _is_uncounted(reply: Reply) -> bool:
    """Whether a busy server has not heard yet that a new quota was counted; asking again helps."""
    return reply.code == 403 and "status unknown for quota" in str(reply.body)


def running() -> Json:
    """Status of a pod that runs."""
    kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "conditions": [{"type": kind, "status": "True"} for kind in kinds],
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "restartCount": 0,
                "image": "i",
                "imageID": "",
                "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
            }
        ],
    }


def ended(phase: str, code: int) -> Json:
    """Status of a pod whose program ended."""
    return {
        "phase": phase,
        "containerStatuses": [
            {
                "name": "main",
                "ready": False,
                "restartCount": 0,
                "image": "i",
                "imageID": "",
                "state": {
                    "terminated": {
                        "exitCode": code,
                        "reason": "Completed" if code == 0 else "Error",
                        "startedAt": "2026-01-01T00:00:00Z",
                        "finishedAt": "2026-01-01T00:00:01Z",
                    }
                },
            }
        ],
    }


def is_ending(obj: Json) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def is_alive(pod: Json) -> bool:
    """Whether a pod has neither ended nor is being deleted."""
    over = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
    return not over and not is_ending(pod)


def index_of(pod: Json) -> int:
    """The completion index of a pod of an Indexed Job."""
    annotations = pod["metadata"].get("annotations") or {}
    return int(annotations.get("batch.kubernetes.io/job-completion-index", 0))


def conditions(obj: Json) -> list[tuple[str, str, str]]:
    """type, status, reason of each condition, in their order."""
    found = obj.get("status", {}).get("conditions") or []
    return [(c["type"], c["status"], c.get("reason", "")) for c in found]


def has_condition(obj: Json, kind: str, status: str = "True") -> bool:
    return any(found[:2] == (kind, status) for found in conditions(obj))
