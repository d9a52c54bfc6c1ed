"""A cluster as a process: `python -m tests.bench.fakecluster PORT PODS`.

The API server of tests/portal/cluster/fake_api.py with `PODS` pods of other people, of the size that real
ones have (4.3 KB), whose list and whose events are made beforehand: they are what a measurement reads, and
must cost nothing while it does. `/bench/requests` tells which calls there were; watches of pods wait for
`/bench/modify?events=N`, which sends N changes of them as fast as they are read.
"""

import asyncio
import json
import sys
from contextlib import suppress
from typing import Any

from aiohttp import web

from portal.cluster.kinds import Kind
from tests.portal.cluster.fake_api import FakeApi

PAGE = 500
_EVENTS_IN_A_WRITE = 20
_BOOKMARKS_S = 15.0


def pod(number: int, version: int = 1) -> dict[str, Any]:
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
            "namespace": f"team-{number % 50}",
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
            "nodeName": f"gpu-{number % 1250}",
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


def _compact(obj: Any) -> bytes:
    """JSON as API servers write it."""
    return json.dumps(obj, separators=(",", ":")).encode()


def _page(items: list[bytes], more: str) -> bytes:
    meta = _compact({"resourceVersion": "100000", **({"continue": more} if more else {})})
    head = b'{"kind":"PodList","apiVersion":"v1","metadata":%b,"items":[' % meta
    return head + b",".join(items) + b"]}"


class FakeCluster(FakeApi):
    """The fake API server, with many pods that are not kept as objects."""

    def __init__(self, pods: int) -> None:
        super().__init__()
        self.version = 1_000_000
        self.bookmarks_s = _BOOKMARKS_S
        self.calls: dict[str, list[str]] = {}  # by who asks, as the token says
        self.events: list[bytes] = []
        self._pods = [_compact(pod(number)) for number in range(pods)]
        self._pages = {0: _page(self._pods, "")} if pods <= PAGE else self._cut()
        self._modify = asyncio.Event()

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
        who = request.headers.get("Authorization", "").removeprefix("Bearer ")
        self.calls.setdefault(who, []).append(f"{request.method} {request.path_qs}")
        return await super()._handle(request)

    def _make_events(self, count: int) -> None:
        for number in range(count):
            obj = {"kind": "Pod", "apiVersion": "v1", **pod(number, 200_000 + number)}
            self.events.append(_compact({"type": "MODIFIED", "object": obj}) + b"\n")

    def _list(self, kind: Kind, namespace: str, query: dict[str, str]) -> web.Response:
        if kind.plural != "pods" or namespace or not self._pods:
            return super()._list(kind, namespace, query)
        if "limit" in query:
            body = self._pages[int(query.get("continue") or "0")]
        else:
            body = _page(self._pods, "")
        return web.Response(body=body, content_type="application/json")

    async def _stream(self, request: web.Request, stream: Any, kind: Kind, trouble: Any) -> None:
        if kind.plural != "pods" or not self._pods:
            await super()._stream(request, stream, kind, trouble)
            return
        mark = {"kind": "Pod", "metadata": {"resourceVersion": str(self.version)}}
        while not self._modify.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._modify.wait(), _BOOKMARKS_S)
            await stream.write(_compact({"type": "BOOKMARK", "object": mark}) + b"\n")
        for first in range(0, len(self.events), _EVENTS_IN_A_WRITE):
            await stream.write(b"".join(self.events[first : first + _EVENTS_IN_A_WRITE]))
        await asyncio.Event().wait()


async def main(port: int, pods: int) -> None:
    await FakeCluster(pods).start(port)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
