"""A simulated cluster for the engine's tests: the calls of `Cluster` on a dictionary, and just enough of
the controllers: of Jobs, Deployments, namespaces, quotas, volumes, and the collector of garbage.

Namespaces come and go with everything in them, quotas are confirmed, claims get volumes; a volume
that is released stays, or goes when its reclaim policy says so. It knows faults: the n-th mutating
call can be refused, lose its reply, or kill the caller.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from jobs.rules.requests import parse_indexes
from portal.cluster import labels
from portal.cluster.client import Cluster, Object
from portal.cluster.errors import AlreadyExists, ClusterError, Conflict, NotFound, Unavailable
from tests.jobs.engine.kubelet import ENDED, OF_WORKLOADS, Kubelet

AMOUNTS = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}
QUOTA = {
    "requests.cpu": "32",
    "requests.memory": "128Gi",
    "requests.nvidia.com/gpu": "8",
    "pods": "50",
    "services.nodeports": "3",
}


class Killed(BaseException):
    """The process of the reconciler was killed here."""


@dataclass
class Fault:
    """What happens at one mutating call: `before`, `after` (killed), `lost`, or an error."""

    number: int
    kind: str
    error: ClusterError | None = None


@dataclass
class Sim(Kubelet, Cluster):
    """The whole cluster: one node, and the namespaces that it begins with."""

    namespaces: tuple[str, ...] = ("u-alice",)
    store: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    mutations: list[str] = field(default_factory=list)
    is_killed: bool = False
    is_down: bool = False
    counted: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    began: dict[str, float] = field(default_factory=dict)  # root uid -> when it was set going
    made: int = 0
    ports: int = 30000
    # What is only tried, and what the cluster says against it.
    tried: list[Object] = field(default_factory=list)
    refuses: Callable[[Object], ClusterError | None] = lambda _obj: None

    def __post_init__(self) -> None:
        self.add_node("node")
        for namespace in self.namespaces:
            self._add_namespace(namespace)

    # --- set-up ---
    def add_node(self, name: str) -> None:
        """One more like all others."""
        ready = {"type": "Ready", "status": "True"}
        self.put(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "namespace": ""},
                "status": {"allocatable": dict(AMOUNTS), "conditions": [ready]},
            }
        )

    def _add_namespace(self, name: str) -> None:
        marks = {labels.MANAGED_BY: labels.MANAGER, labels.OWNER: "tenant"}
        for kind, meta, spec in (
            ("Namespace", {"name": name, "namespace": ""}, {}),
            ("ResourceQuota", {"name": "homeport", "namespace": name}, {"hard": dict(QUOTA)}),
        ):
            meta["labels"] = dict(marks)
            obj = {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec}
            self._settle(self.put(obj))

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

    def of(self, kind: str) -> list[Object]:
        return [obj for key, obj in self.store.items() if key[0] == kind]

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

    async def try_create(self, obj: Object) -> Object:
        if self.is_down:
            raise Unavailable(0, "NoConnection", "the cluster is down")
        self.tried.append(obj)
        if error := self.refuses(obj):
            raise error
        return copy.deepcopy(obj)

    def _create(self, obj: Object) -> Object:
        made = copy.deepcopy(obj)
        namespace = made["metadata"].setdefault("namespace", "")
        if namespace and ("Namespace", "", namespace) not in self.store:
            raise NotFound(404, "NotFound", f"namespace {namespace} not found")
        if _key(made) in self.store:
            raise AlreadyExists(409, "AlreadyExists", f"{_key(made)} exists")
        made["status"] = {"phase": "Pending"} if obj["kind"] == "Pod" else {}
        self._settle(self.put(made))
        return copy.deepcopy(made)

    async def merge_patch(
        self, kind: str, namespace: str | None, name: str, patch: Object
    ) -> Object:
        about = {"kind": kind, "metadata": {"name": name}}

        def patched() -> Object:
            obj = self.store.get((kind, namespace or "", name))
            if obj is None:
                raise NotFound(404, "NotFound", f"{kind} {name} not found")
            exactly = patch.get("metadata", {})
            assert "uid" in exactly or kind not in OF_WORKLOADS, "might hit another of that name"
            for key in ("uid", "resourceVersion"):
                if exactly.get(key, obj["metadata"][key]) != obj["metadata"][key]:
                    raise Conflict(409, "Conflict", f"{key} differs")
            _merge(obj, patch)
            self.touch(obj)
            self._settle(obj)
            return copy.deepcopy(obj)

        done: Object = self._mutation("patch", about, patched)
        return done

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

    async def list(self, kind: str, namespace: str | None = None) -> list[Object]:
        """Of all namespaces when none is given."""
        return [
            copy.deepcopy(obj)
            for obj in self.of(kind)
            if namespace in {None, obj["metadata"].get("namespace", "")}
        ]

    def remove(self, obj: Object) -> None:
        """Deletes as the API server does: pods with their grace, everything else at once."""
        meta = obj["metadata"]
        if obj["kind"] == "Pod" and obj["status"].get("phase") not in ENDED:
            meta.setdefault("deletionTimestamp", self.stamp())
            self.touch(obj)
            return
        self._drop(obj)
        if obj["kind"] == "Namespace":
            for inside in [o for key, o in self.store.items() if key[1] == meta["name"]]:
                self._drop(inside)

    def _drop(self, obj: Object) -> None:
        self.store.pop(_key(obj), None)
        if obj["kind"] != "PersistentVolumeClaim":
            return
        volume = self.store.get(("PersistentVolume", "", obj["spec"]["volumeName"]))
        if volume is not None:
            volume["status"] = {"phase": "Released"}
            self.touch(volume)
            self._settle(volume)

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
        for group in self.of("PodGroup"):
            self._group(group)
        self._collect()

    def _settle(self, obj: Object) -> None:
        """What upstream's controllers do about an object at once."""
        kind, spec = obj["kind"], obj.get("spec", {})
        if kind == "Namespace":
            obj["status"] = {"phase": "Active"}
        elif kind == "ResourceQuota":
            hard = dict(spec["hard"])
            obj["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}
        elif kind == "Service" and spec.get("type") == "NodePort":
            self.ports += "nodePort" not in spec["ports"][0]
            spec["ports"][0].setdefault("nodePort", self.ports)
        elif kind == "PersistentVolumeClaim" and "volumeName" not in spec:
            self._provision(obj)
        elif kind == "PersistentVolume" and _is_to_go(obj):
            self.remove(obj)

    def _provision(self, claim: Object) -> None:
        meta = claim["metadata"]
        name = f"pvc-{meta['uid']}"
        claim["spec"]["volumeName"] = name
        claim["status"] = {"phase": "Bound"}
        reference = {key: meta[key] for key in ("namespace", "name", "uid")}
        self.put(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name, "namespace": ""},
                "spec": {"persistentVolumeReclaimPolicy": "Retain", "claimRef": reference},
                "status": {"phase": "Bound"},
            }
        )

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
        if spec.get("suspend"):
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
        rule, *_rest = job["spec"].get("podFailurePolicy", {}).get("rules", [{}])
        for pod in pods:
            is_lost = _is_lost(pod)
            is_ignored = is_lost and rule.get("action") == "Ignore"
            if pod["status"].get("phase") == "Failed" and not is_ignored:
                counted.add(pod["metadata"]["uid"])
                status["lost"] = status.get("lost", False) or is_lost
        if counted:
            status["failed"] = len(counted)
        times = Counter(_index(pod) for pod in pods if pod["metadata"]["uid"] in counted)
        most = job["spec"].get("backoffLimitPerIndex", len(pods))
        failed = [index for index, count in sorted(times.items()) if count > most]
        if failed:
            status["failedIndexes"] = ",".join(map(str, failed))

    def _go_on(self, job: Object, pods: list[Object], active: list[Object]) -> None:
        spec, status = job["spec"], job["status"]
        began = self.began.setdefault(job["metadata"]["uid"], self.seconds)
        done = parse_indexes(status.get("completedIndexes", ""))
        given_up = parse_indexes(status.get("failedIndexes", ""))
        failed = status.get("failed", 0)
        deadline_s = spec.get("activeDeadlineSeconds")
        if deadline_s is not None and self.seconds - began >= deadline_s:
            self._end(job, active, "Failed", "DeadlineExceeded")
        elif status.get("lost"):
            self._end(job, active, "Failed", "PodFailurePolicy")
        elif len(given_up) > spec.get("maxFailedIndexes", len(given_up)):
            self._end(job, active, "Failed", "MaxFailedIndexesExceeded")
        elif "backoffLimit" in spec and failed > spec["backoffLimit"]:
            self._end(job, active, "Failed", "BackoffLimitExceeded")
        elif given_up and len(done | given_up) == spec["completions"]:
            self._end(job, active, "Failed", "FailedIndexes")
        elif len(done) == spec["completions"]:
            self._end(job, active, "Complete", "CompletionsReached")
        else:
            busy = {_index(pod) for pod in active} | done | given_up
            free = sorted(set(range(spec["completions"])) - busy)
            for index in free[: spec["parallelism"] - len(active)]:
                mark = {labels.COMPLETION_INDEX: str(index)}
                self._make_pod(job, f"{job['metadata']['name']}-{index}", mark)

    def _end(self, job: Object, active: list[Object], kind: str, reason: str) -> None:
        condition = {"type": kind, "status": "True", "reason": reason, "message": reason}
        job["status"].setdefault("conditions", []).append(condition)
        for pod in active:
            self.remove(pod)

    def _deployment(self, deployment: Object) -> None:
        alive = [p for p in self._pods_of(deployment) if p["status"].get("phase") not in ENDED]
        stays = [p for p in alive if "deletionTimestamp" not in p["metadata"]]
        if deployment["spec"]["replicas"] and not stays:
            self._make_pod(deployment, deployment["metadata"]["name"], {})

    def _group(self, group: Object) -> None:
        named = {"podGroupName": group["metadata"]["name"]}
        pods = [pod for pod in self.of("Pod") if pod["spec"].get("schedulingGroup") == named]
        if (
            not group["status"]
            and len(pods) >= group["spec"]["schedulingPolicy"]["gang"]["minCount"]
        ):
            group["status"] = {
                "conditions": [{"type": "PodGroupInitiallyScheduled", "status": "True"}]
            }
            self.touch(group)

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


def _is_lost(pod: Object) -> bool:
    return any(c["type"] == "DisruptionTarget" for c in pod["status"].get("conditions", []))


def _index(pod: Object) -> int:
    return int(pod["metadata"]["labels"].get(labels.COMPLETION_INDEX, -1))


def _key(obj: Object) -> tuple[str, str, str]:
    meta = obj["metadata"]
    return obj["kind"], meta.get("namespace") or "", meta["name"]


def _is_to_go(volume: Object) -> bool:
    is_released = volume.get("status", {}).get("phase") == "Released"
    return is_released and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


def _merge(target: Object, patch: Object) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value
