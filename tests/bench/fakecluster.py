"""A cluster as a process: `python -m tests.bench.fakecluster PORT PODS [NAMESPACE ...]`.

The API server of tests/portal/cluster/fake_api.py with `PODS` pods in these namespaces (or in 50 of other
people), of the size that real ones have (4.3 KB), whose list and whose events are made beforehand: they are
what a measurement reads, and must cost nothing while it does. `/bench/requests` tells which calls there were and
`/bench/counts` how many; watches of pods wait for `/bench/modify?events=N`, which sends N changes of them as
fast as they are read, or are told by `/bench/forget` to list anew. With namespaces there are nodes, too.
"""

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

from aiohttp import web

from portal.cluster.kinds import ResourceKind
from tests.portal.cluster.fake_api import FakeApi

PAGE = 500
_EVENTS_IN_A_WRITE = 20
_BOOKMARKS_S = 15.0
NODES = 1250
OTHERS = tuple(f"team-{number}" for number in range(50))


def pod(number: int, namespaces: Sequence[str], version: int = 1) -> dict[str, Any]:
    """A training pod as a cluster shows it: managed fields, conditions, tolerations and all."""
    name = f"train-{number // 4}-worker-{number % 4}"
    own = {"f:metadata": {"f:labels": {f"f:label-{n}": {} for n in range(6)}}}
    fields = {f'k:{{"name":"V{n}"}}': {".": {}, "f:name": {}, "f:value": {}} for n in range(4)}
    stamp = "2026-11-20T10:00:00Z"
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": stamp}
        for kind in (
            "PodReadyToStartContainers",
            "Initialized",
            "Ready",
            "ContainersReady",
            "PodScheduled",
        )
    ]
    image = "registry.example.org/ml/tensorflow:2.21.0-gpu"
    return {
        "metadata": {
            "name": name,
            "namespace": namespaces[number % len(namespaces)],
            "generateName": f"train-{number // 4}-worker-",
            "uid": f"00000000-0000-4000-8000-{number:012d}",
            "resourceVersion": str(version),
            "creationTimestamp": stamp,
            "labels": {
                "app": "train",
                "job-name": f"train-{number // 4}",
                "batch.kubernetes.io/controller-uid": f"00000000-0000-4000-9000-{number // 4:012d}",
                "batch.kubernetes.io/job-completion-index": str(number % 4),
                "team": f"team-{number % 50}",
            },
            "annotations": {"batch.kubernetes.io/job-completion-index": str(number % 4)},
            "ownerReferences": [
                {
                    "apiVersion": "batch/v1",
                    "kind": "Job",
                    "name": f"train-{number // 4}",
                    "uid": f"00000000-0000-4000-9000-{number // 4:012d}",
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
            "managedFields": [
                {
                    "manager": manager,
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": stamp,
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {**own, "f:spec": {"f:containers": {"f:env": fields}}},
                }
                for manager in ("kube-controller-manager", "kubelet")
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "command": ["python", "train.py", "--epochs", "90"],
                    "env": [{"name": f"V{n}", "value": f"value-{n}"} for n in range(10)],
                    "resources": {
                        "requests": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
                        "limits": {"cpu": "4", "memory": "16Gi", "nvidia.com/gpu": "1"},
                    },
                    "volumeMounts": [
                        {"name": "data", "mountPath": "/data"},
                        {"name": "shm", "mountPath": "/dev/shm"},
                    ],
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
            ],
            "nodeName": f"gpu-{number % NODES}",
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "schedulerName": "default-scheduler",
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{what}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for what in ("not-ready", "unreachable")
            ],
            "priority": 0,
            "enableServiceLinks": False,
            "preemptionPolicy": "PreemptLowerPriority",
        },
        "status": {
            "phase": "Running",
            "conditions": conditions,
            "hostIP": "10.0.0.1",
            "podIP": f"10.1.{number // 250}.{number % 250}",
            "startTime": stamp,
            "qosClass": "Guaranteed",
            "containerStatuses": [
                {
                    "name": "main",
                    "state": {"running": {"startedAt": stamp}},
                    "lastState": {},
                    "ready": True,
                    "restartCount": version % 7,
                    "image": image,
                    "imageID": f"{image}@sha256:{'0123456789abcdef' * 4}",
                    "containerID": f"containerd://{'0123456789abcdef' * 4}",
                    "started": True,
                }
            ],
        },
    }


def node(number: int) -> dict[str, Any]:
    """One with room for twice the pods that are on it."""
    room = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "16"}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "is ready"}
    return {
        "kind": "Node",
        "metadata": {"name": f"gpu-{number}", "labels": {"zone": f"z{number % 3}"}},
        "status": {"capacity": room, "allocatable": room, "conditions": [ready]},
    }


def _compact(obj: Any) -> bytes:
    """JSON as API servers write it."""
    return json.dumps(obj, separators=(",", ":")).encode()


def _page(items: list[bytes], more: str) -> bytes:
    meta = _compact({"resourceVersion": "100000", **({"continue": more} if more else {})})
    head = b'{"kind":"PodList","apiVersion":"v1","metadata":%b,"items":[' % meta
    return head + b",".join(items) + b"]}"


class FakeCluster(FakeApi):
    """The fake API server, with many pods that are not kept as objects."""

    def __init__(self, pods: int, namespaces: Sequence[str] = ()) -> None:
        super().__init__()
        self.version = 1_000_000
        self.bookmarks_s = _BOOKMARKS_S
        self.calls: dict[str, list[str]] = {}  # by who asks, as the token says
        self.events: list[bytes] = []
        self.counts: Counter[str] = Counter()
        self._namespaces = namespaces or OTHERS
        self._pods = [_compact(pod(number, self._namespaces)) for number in range(pods)]
        for number in range(NODES if namespaces else 0):
            self.put(node(number))
        self._pages = {0: _page(self._pods, "")} if pods <= PAGE else self._cut()
        self._modify = asyncio.Event()
        self._forget = asyncio.Event()

    def _cut(self) -> dict[int, bytes]:
        count = len(self._pods)
        return {
            first: _page(
                self._pods[first : first + PAGE], str(first + PAGE) if first + PAGE < count else ""
            )
            for first in range(0, count, PAGE)
        }

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/bench/requests":
            return web.json_response({"calls": self.calls, "watches": self.open_watches})
        if request.path == "/bench/modify":
            self._make_events(int(request.query["events"]))
            self._modify.set()
            return web.json_response({})
        if request.path == "/bench/forget":
            forget, self._forget = self._forget, asyncio.Event()
            forget.set()
            return web.json_response({})
        if request.path == "/bench/counts":
            return web.json_response(self.counts)
        who = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.calls.setdefault(who, []).append(f"{request.method} {request.path_qs}")
        self.counts[f"{request.method} {request.path.rpartition('/')[2]}"] += 1
        return await super()._handle(request)

    def _make_events(self, count: int) -> None:
        for number in range(count):
            obj = {
                "kind": "Pod",
                "apiVersion": "v1",
                **pod(number, self._namespaces, 200_000 + number),
            }
            self.events.append(_compact({"type": "MODIFIED", "object": obj}) + b"\n")

    def _list(self, kind: ResourceKind, namespace: str, query: dict[str, str]) -> web.Response:
        if kind.plural != "pods" or namespace or not self._pods:
            return super()._list(kind, namespace, query)
        if "limit" in query:
            first = int(query.get("continue") or "0")
            body, is_last = self._pages[first], first + PAGE >= len(self._pods)
        else:
            body, is_last = _page(self._pods, ""), True
        self.counts["all pods"] += is_last
        return web.Response(body=body, content_type="application/json")

    async def _stream(
        self, request: web.Request, stream: Any, kind: ResourceKind, trouble: Any
    ) -> None:
        if kind.plural != "pods" or not self._pods:
            await super()._stream(request, stream, kind, trouble)
            return
        mark = {"kind": "Pod", "metadata": {"resourceVersion": str(self.version)}}
        forget = self._forget
        waits = [asyncio.create_task(event.wait()) for event in (self._modify, forget)]
        try:
            while not self._modify.is_set() and not forget.is_set():
                await asyncio.wait(waits, timeout=_BOOKMARKS_S, return_when=asyncio.FIRST_COMPLETED)
                await stream.write(_compact({"type": "BOOKMARK", "object": mark}) + b"\n")
        finally:
            for wait in waits:
                wait.cancel()
        if forget.is_set():
            gone = {"kind": "Status", "status": "Failure", "reason": "Expired", "code": 410}
            await stream.write(_compact({"type": "ERROR", "object": gone}) + b"\n")
            return
        for first in range(0, len(self.events), _EVENTS_IN_A_WRITE):
            await stream.write(b"".join(self.events[first : first + _EVENTS_IN_A_WRITE]))
        await asyncio.Event().wait()


async def main(port: int, pods: int, namespaces: Sequence[str]) -> None:
    await FakeCluster(pods, namespaces).start(port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
