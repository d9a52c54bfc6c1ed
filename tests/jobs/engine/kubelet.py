"""The node of a simulated cluster: a scheduler and a kubelet, under which pods live as a test says.

Each pod has a `Life`. Of those that end by themselves: `ok`, `hang`, `fail`, `oom`, `evict`, `image`,
`refused` (by its node), `unplaced`. Of those that serve (their container is `app`): `mute` (runs, never answers), `crash` (ends
again and again), `full` (a volume), `image`, `unplaced`, `evict`; by any other name it serves.
"""

import copy
import json
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from portal.cluster import labels
from portal.cluster.client import Object

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
ENDED = {"Succeeded", "Failed"}
_GPU = "nvidia.com/gpu"
OF_WORKLOADS = {"Job", "Deployment", "Service", "ConfigMap", "Secret", "Pod"}


@dataclass
class Life:
    """How one pod lives: see the module; `code` is that of its end."""

    kind: str
    code: int = 1


@dataclass
class Kubelet(ABC):
    """What happens to pods; where they are kept is for the class that extends it.

    Attributes:
        lives: how the successive pods of a replica (or rescue) live.
        ended: pods that ended, whether they told the portal so, and their exit codes.
        born: how many pods of each replica there were.
        has_pod_groups: the cluster serves them.
    """

    lives: dict[str, list[Life]] = field(default_factory=dict)
    seconds: float = 0.0
    ended: list[tuple[Object, bool, int]] = field(default_factory=list)
    born: Counter[str] = field(default_factory=Counter)
    life_of: dict[str, Life] = field(default_factory=dict)
    has_pod_groups: bool = False

    @abstractmethod
    def of(self, kind: str) -> list[Object]:
        """All objects of a kind."""

    @abstractmethod
    def touch(self, obj: Object) -> None:
        """The object was changed."""

    @abstractmethod
    def remove(self, obj: Object) -> None:
        """Deletes as the API server does."""

    def uids(self, kind: str) -> set[str]:
        return {obj["metadata"]["uid"] for obj in self.of(kind)}

    def live_things(self) -> list[str]:
        """Everything that a workload may leave behind."""
        kinds = OF_WORKLOADS | ({"PodGroup"} if self.has_pod_groups else set())
        found = [(kind, obj["metadata"]["name"]) for kind in kinds for obj in self.of(kind)]
        return sorted(f"{kind}/{name}" for kind, name in found if name != "kube-root-ca.crt")

    def stamp(self) -> str:
        return (START + timedelta(seconds=self.seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def change_life(self, who: str, life: Life) -> None:
        """From now on the pods of this replica live otherwise."""
        for pod in self.of("Pod"):
            if who_of(pod) == who:
                self.life_of[pod["metadata"]["uid"]] = life

    def _life(self, pod: Object) -> Life:
        uid = pod["metadata"]["uid"]
        if uid not in self.life_of:
            who = who_of(pod)
            lives = self.lives.get(who, [])
            number = self.born[who]
            self.born[who] += 1
            default = Life("hang") if who.startswith("ps") else Life("ok")
            self.life_of[uid] = lives[min(number, len(lives) - 1)] if lives else default
        return self.life_of[uid]

    def _kubelet(self) -> None:
        for pod in self.of("Pod"):
            status, meta = pod["status"], pod["metadata"]
            before = _told_by_kubelet(pod)
            if status["phase"] in ENDED:
                if "deletionTimestamp" in meta:
                    self.remove(pod)
                continue
            life = self._life(pod)
            if "deletionTimestamp" in meta:
                self._finish(pod, "Failed", 143, is_marked=life.kind != "oom")
            elif not pod["spec"].get("nodeName"):
                self._schedule(pod, life)
            else:
                self._live(pod, life)
            if _told_by_kubelet(pod) != before:
                self.touch(pod)

    def _schedule(self, pod: Object, life: Life) -> None:
        node = "" if life.kind == "unplaced" else self._find_node(pod)
        if not node:
            message = "0/1 nodes are available: 1 Insufficient cpu."
            pod["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "False", "message": message}
            ]
            return
        pod["spec"]["nodeName"] = node

    def _find_node(self, pod: Object) -> str:
        """The first that it does not avoid, of several with room for its GPUs; empty: there is none."""
        affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution", {})
        fields = [
            field
            for term in terms.get("nodeSelectorTerms", ())
            for field in term.get("matchFields", ())
        ]
        avoided = {name for field in fields for name in field["values"]}
        nodes = self.of("Node")
        for node in nodes:
            name = node["metadata"]["name"]
            held = sum(
                _gpus_of(one) for one in self.of("Pod") if one["spec"].get("nodeName") == name
            )
            free = int(node["status"]["allocatable"][_GPU]) - held
            if name not in avoided and (len(nodes) == 1 or free >= _gpus_of(pod)):
                return str(name)
        return ""

    def _live(self, pod: Object, life: Life) -> None:
        status = pod["status"]
        name = pod["spec"]["containers"][0]["name"]
        if name == "app":
            self._serve(pod, life)
        elif life.kind == "image":
            waiting = {"reason": "ErrImagePull", "message": "no such tag"}
            status["containerStatuses"] = [{"name": name, "state": {"waiting": waiting}}]
        elif life.kind == "refused":
            status["phase"], status["reason"] = "Failed", "UnexpectedAdmissionError"
            status["message"] = "Allocate failed due to requested number of devices unavailable"
        elif status["phase"] == "Pending":
            status["phase"] = "Running"
            state = {"running": {"startedAt": self.stamp()}}
            status["containerStatuses"] = [{"name": name, "state": state}]
        elif life.kind == "ok":
            self._finish(pod, "Succeeded", 0)
        elif life.kind == "fail":
            self._finish(pod, "Failed", life.code)
        elif life.kind == "oom":
            self._finish(pod, "Failed", 137, reason="OOMKilled", is_marked=False)
        elif life.kind == "evict":
            self._finish(pod, "Failed", 137, is_marked=False)
            status["conditions"] = [
                {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
            ]

    def _finish(
        self,
        pod: Object,
        phase: str,
        code: int,
        *,
        reason: str = "Error",
        is_marked: bool = True,
    ) -> None:
        status = pod["status"]
        name = pod["spec"]["containers"][0]["name"]
        old = next(iter(status.get("containerStatuses", [])), {}).get("state", {})
        started = old.get("running", {}).get("startedAt")
        ended = {"exitCode": code, "reason": reason, "finishedAt": self.stamp()}
        status["phase"] = phase
        if started:
            state = {"terminated": {**ended, "startedAt": started}}
            status["containerStatuses"] = [{"name": name, "state": state}]
            self.ended.append((copy.deepcopy(pod), is_marked, code))

    def _serve(self, pod: Object, life: Life) -> None:
        status = pod["status"]
        age = pod["metadata"].setdefault("age", 0)
        pod["metadata"]["age"] = age + 1
        if life.kind == "full":
            text = json.dumps({"reason": "volume_full", "text": "the log volume (/log) is full"})
            ended = {"exitCode": 65, "reason": "Error", "message": text}
            status["initContainerStatuses"] = [
                {"name": "prepare", "state": {"terminated": {**ended, "startedAt": self.stamp()}}}
            ]
            return
        if "initContainerStatuses" not in status:
            began = {"startedAt": self.stamp()}
            status["phase"] = "Running"
            status["conditions"] = [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.stamp()}
            ]
            status["initContainerStatuses"] = [
                {"name": "prepare", "state": {"terminated": {"exitCode": 0, **began}}},
                {"name": "gate", "state": {"running": began}},
            ]
            return
        self._app(pod, life, age)

    def _app(self, pod: Object, life: Life, age: int) -> None:
        status = pod["status"]
        if life.kind == "image":
            waiting = {"reason": "ErrImagePull", "message": "no such tag"}
            status["containerStatuses"] = [{"name": "app", "state": {"waiting": waiting}}]
            return
        before = next(iter(status.get("containerStatuses", [])), None)
        if before is None:
            self._run(pod, 0, None)
        elif life.kind == "crash":
            self._run(pod, before["restartCount"] + 1, life.code)
        elif life.kind == "evict" and age == 8:
            status["phase"] = "Failed"
            status["conditions"] = [
                {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager"}
            ]
        elif life.kind != "mute":
            self._ready(pod)

    def _run(self, pod: Object, restarts: int, code: int | None) -> None:
        status: dict[str, Any] = {
            "name": "app",
            "restartCount": restarts,
            "state": {"running": {"startedAt": self.stamp()}},
        }
        if code is not None:
            ended = {"exitCode": code, "reason": "Error", "message": "Traceback: the last words"}
            status["lastState"] = {"terminated": ended}
        pod["status"]["containerStatuses"] = [status]
        pod["status"]["conditions"] = [
            c for c in pod["status"]["conditions"] if c["type"] != "Ready"
        ]

    def _ready(self, pod: Object) -> None:
        conditions = pod["status"]["conditions"]
        if not any(c["type"] == "Ready" for c in conditions):
            conditions.append(
                {"type": "Ready", "status": "True", "lastTransitionTime": self.stamp()}
            )


def _gpus_of(pod: Object) -> int:
    """Those that it holds until it has ended."""
    if pod["status"]["phase"] in ENDED:
        return 0
    limits = [one.get("resources", {}).get("limits", {}) for one in pod["spec"]["containers"]]
    return sum(int(one.get(_GPU, 0)) for one in limits)


def _told_by_kubelet(pod: Object) -> Any:
    """A copy of what the life of a pod may change of it; most of it never does."""
    meta = pod["metadata"]
    told = meta.get("age"), meta.get("deletionTimestamp"), pod["spec"].get("nodeName")
    return told, copy.deepcopy(pod["status"])


def who_of(pod: Object) -> str:
    """`worker-0`, `ps-1`, or `rescue-worker-0`."""
    marks = pod["metadata"]["labels"]
    role = marks[labels.ROLE]
    index = marks.get(labels.INDEX) or marks.get(labels.COMPLETION_INDEX, "0")
    lost = marks.get("homeport.dev/rescued-role")
    return f"{role}-{lost}-{index}" if lost else f"{role}-{index}"
