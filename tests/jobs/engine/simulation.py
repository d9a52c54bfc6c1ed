"""A simulated cluster for the reconciler's tests: the calls of `Cluster` on a dictionary, and just
enough of the Job, Deployment and garbage-collection controllers, scheduler and kubelet.

It knows faults: the n-th mutating call can be refused, lose its reply, or kill the caller.
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from jobs.kinds.training.observe import parse_indexes
from portal.cluster import labels
from portal.cluster.client import Cluster, Object
from portal.cluster.errors import AlreadyExists, ClusterError, Conflict, NotFound, Unavailable

START = datetime(2026, 11, 20, 12, tzinfo=UTC)
ENDED = {"Succeeded", "Failed"}


class Killed(BaseException):
    """The process of the reconciler was killed here."""


@dataclass
class Fault:
    """What happens at one mutating call: `before`, `after` (killed), `lost`, or an error."""

    number: int
    kind: str
    error: ClusterError | None = None


@dataclass
class Life:
    """How one pod lives: `ok`, `hang`, `fail`, `oom`, `evict`, `image`, `unplaced`."""

    kind: str
    code: int = 1


@dataclass
class Sim(Cluster):
    """The whole cluster; `lives` says how the successive pods of a replica (or rescue) live."""

    lives: dict[str, list[Life]] = field(default_factory=dict)
    seconds: float = 0.0
    store: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    mutations: list[str] = field(default_factory=list)
    is_killed: bool = False
    is_down: bool = False
    ended: list[tuple[Object, bool, int]] = field(default_factory=list)  # pod, marked, code
    born: Counter[str] = field(default_factory=Counter)
    life_of: dict[str, Life] = field(default_factory=dict)
    counted: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    began: dict[str, float] = field(default_factory=dict)  # root uid -> when it was set going
    made: int = 0

    def __post_init__(self) -> None:
        self.add_namespace("u-alice")
        self.put(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": "node", "namespace": ""},
                "status": {
                    "allocatable": {
                        "cpu": "64",
                        "memory": "256Gi",
                        "pods": "110",
                        "nvidia.com/gpu": "8",
                    },
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }
        )

    # --- set-up ---
    def add_namespace(self, name: str, owner: str = "tenant") -> None:
        marks = {labels.MANAGED_BY: labels.MANAGER, labels.OWNER: owner}
        self.put(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": name, "namespace": "", "labels": marks},
                "status": {"phase": "Active"},
            }
        )
        hard = {"requests.cpu": "32", "requests.memory": "128Gi", "pods": "50"}
        hard["requests.nvidia.com/gpu"] = "8"
        self.put(
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "homeport", "namespace": name, "labels": marks},
                "spec": {"hard": hard},
                "status": {"hard": hard, "used": {}},
            }
        )

    def put(self, obj: Object) -> Object:
        """Stores an object as the API server would."""
        self.made += 1
        meta = obj["metadata"]
        meta.setdefault("uid", f"uid-{self.made:05}")
        meta.setdefault("creationTimestamp", self.stamp())
        meta["resourceVersion"] = str(self.made)
        self.store[obj["kind"], meta.get("namespace") or "", meta["name"]] = obj
        return obj

    def touch(self, obj: Object) -> None:
        self.made += 1
        obj["metadata"]["resourceVersion"] = str(self.made)

    def stamp(self) -> str:
        return (START + timedelta(seconds=self.seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    def of(self, kind: str) -> list[Object]:
        return [obj for key, obj in self.store.items() if key[0] == kind]

    def change_life(self, who: str, life: Life) -> None:
        """From now on the pods of this replica live otherwise."""
        for pod in self.of("Pod"):
            if who_of(pod) == who:
                self.life_of[pod["metadata"]["uid"]] = life

    def live_things(self) -> list[str]:
        """Everything that a job may leave behind."""
        kinds = {"Job", "Deployment", "Service", "ConfigMap", "Secret", "Pod"}
        return sorted("/".join(key[::2]) for key in self.store if key[0] in kinds)

    # --- calls ---
    async def close(self) -> None:
        """Nothing is open."""

    async def get(self, kind: str, namespace: str | None, name: str) -> Object:
        if self.is_down:
            raise Unavailable(0, "NoConnection", "the cluster is down")
        found = self.store.get((kind, namespace or "", name))
        if found is None:
            raise NotFound(404, "NotFound", f"{kind} {name} not found")
        return copy.deepcopy(found)

    async def create(self, obj: Object) -> Object:
        return self._mutation("create", obj, lambda: self._create(obj))

    def _create(self, obj: Object) -> Object:
        meta = obj["metadata"]
        key = (obj["kind"], meta["namespace"], meta["name"])
        if ("Namespace", "", meta["namespace"]) not in self.store:
            raise NotFound(404, "NotFound", f"namespace {meta['namespace']} not found")
        if key in self.store:
            raise AlreadyExists(409, "AlreadyExists", f"{key} exists")
        made = copy.deepcopy(obj)
        made["status"] = {"phase": "Pending"} if obj["kind"] == "Pod" else {}
        return copy.deepcopy(self.put(made))

    async def merge_patch(
        self,
        kind: str,
        namespace: str | None,
        name: str,
        patch: Object,
        *,
        subresource: str | None = None,
    ) -> Object:
        about = {"kind": kind, "metadata": {"name": name}}

        def patched() -> Object:
            obj = self.store.get((kind, namespace or "", name))
            if obj is None:
                raise NotFound(404, "NotFound", f"{kind} {name} not found")
            if patch["metadata"]["uid"] != obj["metadata"]["uid"]:
                raise Conflict(409, "Conflict", "Precondition failed: UID in precondition")
            obj["spec"].update(patch["spec"])
            self.touch(obj)
            return copy.deepcopy(obj)

        return self._mutation("patch", about, patched)

    async def delete(
        self, kind: str, namespace: str | None, name: str, *, uid: str, grace_s: int | None = None
    ) -> Any:
        about = {"kind": kind, "metadata": {"name": name}}

        def deleted() -> str:
            obj = self.store.get((kind, namespace or "", name))
            if obj is None:
                return "gone"
            if obj["metadata"]["uid"] != uid:
                return "other"
            self.remove(obj)
            return "deleted"

        return self._mutation("delete", about, deleted)

    def _mutation(self, verb: str, about: Object, act: Callable[[], Any]) -> Any:
        if self.is_killed:
            raise Killed
        if self.is_down:
            raise Unavailable(0, "NoConnection", "the cluster is down")
        number = len(self.mutations)
        self.mutations.append(f"{verb} {about['kind']} {about['metadata']['name']}")
        fault = next((f for f in self.faults if f.number == number), None)
        if fault is None:
            return act()
        if fault.error is not None:
            raise fault.error
        if fault.kind != "before":
            act()
        if fault.kind == "lost":
            raise Unavailable(0, "Timeout", "no answer in time")
        self.is_killed = True
        raise Killed

    def remove(self, obj: Object) -> None:
        """Deletes as the API server does: pods with their grace, everything else at once."""
        meta = obj["metadata"]
        if obj["kind"] == "Pod" and obj["status"].get("phase") not in ENDED:
            meta.setdefault("deletionTimestamp", self.stamp())
            self.touch(obj)
        else:
            self.store.pop((obj["kind"], meta["namespace"], meta["name"]), None)

    # --- controllers ---
    def step(self) -> None:
        """One second of the cluster's own life."""
        self.seconds += 1
        self._kubelet()
        self._collect()
        for job in self.of("Job"):
            self._job(job)
        for deployment in self.of("Deployment"):
            self._deployment(deployment)
        self._collect()

    def _collect(self) -> None:
        """Removes what is owned by nothing that exists."""
        uids = {obj["metadata"]["uid"] for obj in self.store.values()}
        for obj in list(self.store.values()):
            owners = obj["metadata"].get("ownerReferences")
            if owners and not any(owner["uid"] in uids for owner in owners):
                self.remove(obj)

    def _pods_of(self, owner: Object) -> list[Object]:
        uid = owner["metadata"]["uid"]
        return [
            pod
            for pod in self.of("Pod")
            if any(o["uid"] == uid for o in pod["metadata"].get("ownerReferences", []))
        ]

    def _job(self, job: Object) -> None:
        spec, status = job["spec"], job.setdefault("status", {})
        pods = self._pods_of(job)
        active = [p for p in pods if p["status"].get("phase") not in ENDED]
        if any(c["type"] in {"Complete", "Failed"} for c in status.get("conditions", [])):
            return
        before = copy.deepcopy(status)
        self._count(job, pods)
        if spec["suspend"]:
            for pod in active:
                self.remove(pod)
        else:
            self._go_on(job, pods, active)
        if status != before:
            self.touch(job)

    def _count(self, job: Object, pods: list[Object]) -> None:
        status = job["status"]
        done = set(parse_indexes(status.get("completedIndexes", "")))
        done |= {_index(p) for p in pods if p["status"].get("phase") == "Succeeded"}
        if done:
            status["completedIndexes"] = ",".join(map(str, sorted(done)))
        counted = self.counted[job["metadata"]["uid"]]
        for pod in pods:
            disrupted = any(
                c["type"] == "DisruptionTarget" for c in pod["status"].get("conditions", [])
            )
            if pod["status"].get("phase") == "Failed" and not disrupted:
                counted.add(pod["metadata"]["uid"])
        if counted:
            status["failed"] = len(counted)

    def _go_on(self, job: Object, pods: list[Object], active: list[Object]) -> None:
        spec, status = job["spec"], job["status"]
        began = self.began.setdefault(job["metadata"]["uid"], self.seconds)
        done = parse_indexes(status.get("completedIndexes", ""))
        failed = status.get("failed", 0)
        deadline_s = spec.get("activeDeadlineSeconds")
        if deadline_s is not None and self.seconds - began >= deadline_s:
            self._end(job, active, "Failed", "DeadlineExceeded")
        elif spec.get("maxFailedIndexes") == 0 and failed:
            self._end(job, active, "Failed", "MaxFailedIndexesExceeded")
        elif "backoffLimit" in spec and failed > spec["backoffLimit"]:
            self._end(job, active, "Failed", "BackoffLimitExceeded")
        elif len(done) == spec["completions"]:
            self._end(job, active, "Complete", "CompletionsReached")
        else:
            busy = {_index(pod) for pod in active} | done
            for index in set(range(spec["completions"])) - busy:
                mark = {labels.COMPLETION_INDEX: str(index)}
                self._make_pod(job, f"{job['metadata']['name']}-{index}", mark)

    def _end(self, job: Object, active: list[Object], kind: str, reason: str) -> None:
        condition = {"type": kind, "status": "True", "reason": reason, "message": reason}
        job["status"].setdefault("conditions", []).append(condition)
        for pod in active:
            self.remove(pod)

    def _deployment(self, deployment: Object) -> None:
        alive = [p for p in self._pods_of(deployment) if p["status"].get("phase") not in ENDED]
        if not [p for p in alive if "deletionTimestamp" not in p["metadata"]]:
            self._make_pod(deployment, deployment["metadata"]["name"], {})

    def _make_pod(self, owner: Object, base: str, marks: dict[str, str]) -> None:
        template = copy.deepcopy(owner["spec"]["template"])
        meta = owner["metadata"]
        reference = {"kind": owner["kind"], "name": meta["name"], "uid": meta["uid"]}
        self.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": f"{base}-{self.made:05}",
                    "namespace": meta["namespace"],
                    "labels": {**template["metadata"]["labels"], **marks},
                    "ownerReferences": [reference],
                },
                "spec": template["spec"],
                "status": {"phase": "Pending"},
            }
        )

    # --- scheduler and kubelet ---
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
        if life.kind == "unplaced":
            message = "0/1 nodes are available: 1 Insufficient cpu."
            pod["status"]["conditions"] = [
                {"type": "PodScheduled", "status": "False", "message": message}
            ]
            return
        pod["spec"]["nodeName"] = "node"

    def _live(self, pod: Object, life: Life) -> None:
        status = pod["status"]
        name = pod["spec"]["containers"][0]["name"]
        if life.kind == "image":
            waiting = {"reason": "ErrImagePull", "message": "no such tag"}
            status["containerStatuses"] = [{"name": name, "state": {"waiting": waiting}}]
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


def _told_by_kubelet(pod: Object) -> Any:
    """A copy of what the life of a pod may change of it; most of it never does."""
    meta = pod["metadata"]
    told = meta.get("age"), meta.get("deletionTimestamp"), pod["spec"].get("nodeName")
    return told, copy.deepcopy(pod["status"])


def _index(pod: Object) -> int:
    return int(pod["metadata"]["labels"].get(labels.COMPLETION_INDEX, -1))


def who_of(pod: Object) -> str:
    """`worker-0`, `ps-1`, or `rescue-worker-0`."""
    marks = pod["metadata"]["labels"]
    role = marks[labels.ROLE]
    index = marks.get(labels.INDEX) or marks.get(labels.COMPLETION_INDEX, "0")
    lost = marks.get("homeport.dev/rescued-role")
    return f"{role}-{lost}-{index}" if lost else f"{role}-{index}"


def names(objects: Iterable[Object]) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in objects)
