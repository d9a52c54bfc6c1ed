"""Onebox's API half in this process, with all its controllers, on a clock that the test turns.

Homeport's own client speaks to it over HTTP. The test plays what machines do: a node whose pods live
as `tests.jobs.reconciler.simulation` has them, and the provisioner of its volumes.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

from onebox.api.bootstrap import PROVISIONER, ensure_first_objects
from onebox.api.controllers import Controller, Runtime, all_controllers
from onebox.api.controllers.nodelife import NodeLifecycle
from onebox.api.controllers.objects import Key
from onebox.api.controllers.scheduler import Scheduler
from onebox.api.registry import Api
from onebox.api.server import Access, Server
from onebox.api.store import Store, clone
from portal.cluster.bucket import TokenBucket
from portal.cluster.client import Cluster, Object
from portal.cluster.credentials import Credentials
from portal.cluster.kinds import get_kind
from portal.cluster.transport import Request, Transport
from tests.faults.relay import Relay
from tests.jobs.reconciler.simulation import ENDED, START, Life
from tests.jobs.services.reconciler.simulation import ServiceSim

TOKEN = "the-token-of-the-tests"
ROOM = {"cpu": "64", "memory": "256Gi", "pods": "110", "nvidia.com/gpu": "8"}


class Steady(Transport):
    """Waits that the server asks for pass on the test's clock; a silent relay is not waited for
    as long as a server is.
    """

    def __init__(self, account: Credentials, box: Box) -> None:
        super().__init__(account)
        self._box = box

    async def pause(self, wait_s: float) -> None:
        self._box.pass_time(wait_s)

    async def _once(self, request: Request, data: bytes | None) -> bytes:
        limit_s = self._box.relay.limit_s if self._box.relay is not None else None
        return await super()._once(replace(request, timeout_s=limit_s or request.timeout_s), data)


class MoodyScheduler(Scheduler):
    """The real one, but it does not place anything while the box has no room."""

    def __init__(self, api: Api, box: Box) -> None:
        super().__init__(api)
        self._box = box

    def sync(self, key: Key) -> float | None:
        return super().sync(key) if self._box.has_room else None


@dataclass
class Box(ServiceSim):
    """The calls of `Cluster` are the real ones; open it in a running event loop, and close it."""

    now: datetime = START
    ages: dict[str, int] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)  # namespaces that the test is not about
    relay: Relay | None = None  # between the client and the API, where one is wanted
    has_room: bool = True  # whether the scheduler agrees with what nodes say they have

    def __post_init__(self) -> None:
        self.backend = Store(None)
        self.api = Api(self.backend, clock=lambda: self.now)
        ensure_first_objects(self.api)
        self.runtime = Runtime(self.api, self._controllers(), monotonic_s=self._seconds)
        self.runtime.start()
        status = {
            "allocatable": ROOM,
            "capacity": ROOM,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        self.api.create("nodes", None, {"metadata": {"name": "node"}, "status": status})
        self.runtime.run_until_idle()

    def _controllers(self) -> list[Controller]:
        """All but the one that would find that the node sends no heartbeats."""
        known = all_controllers(self.api)
        for one in known:
            if isinstance(one, Scheduler):
                known[known.index(one)] = MoodyScheduler(self.api, self)
        return [one for one in known if not isinstance(one, NodeLifecycle)]

    async def open(self, *, relayed: bool = False) -> Box:
        self.http = Server(self.api, Access({TOKEN: "homeport"}))
        port = await self.http.start(0, None)
        configuration = SimpleNamespace(refresh_api_key_hook=None, api_key={"BearerToken": TOKEN})
        url = f"http://127.0.0.1:{port}"
        if relayed:
            self.relay = Relay(url)
            await self.relay.open()
            url = self.relay.url
        account = Credentials(url, None, None, configuration)
        self._transport = Steady(account, self)
        self._writes = TokenBucket(1e9, 10**9)
        self.calls = Counter()
        return self

    async def shut(self) -> None:
        await self._transport.close()
        if self.relay is not None:
            await self.relay.close()
        await self.http.stop()
        self.runtime.stop()
        self.backend.close()

    # --- the calls: those of the real client ---
    get = Cluster.get
    list = Cluster.list
    create = Cluster.create
    merge_patch = Cluster.merge_patch
    delete = Cluster.delete

    # --- what the simulated node asks for ---
    def _seconds(self) -> float:
        return (self.now - START).total_seconds()

    def of(self, kind: str) -> list[Object]:
        """All objects of a kind, to be looked at; a pod's status is a copy, to be written back by `touch`."""
        row = get_kind(kind)
        found = []
        for stored in self.api.list(row.plural):
            meta = {"namespace": "", **stored["metadata"]}
            status = stored.get("status", {})
            if kind == "Pod":
                status = clone(status)
                if meta["uid"] in self.ages:
                    meta["age"] = self.ages[meta["uid"]]
            head = {"apiVersion": row.api_version, "kind": kind}
            found.append({**head, **stored, "metadata": meta, "status": status})
        return found

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self.backend.resource_version

    def uids(self, kind: str) -> set[str]:
        return {obj["metadata"]["uid"] for obj in self.of(kind)}

    def live_things(self) -> list[str]:
        kinds = ("Job", "Deployment", "Service", "ConfigMap", "Secret", "Pod")
        return sorted(
            f"{kind}/{obj['metadata']['name']}"
            for kind in kinds
            for obj in self.of(kind)
            if obj["metadata"]["name"] != "kube-root-ca.crt"
        )

    def touch(self, obj: Object) -> None:
        """What the kubelet writes: a pod's status."""
        meta, status = obj["metadata"], obj["status"]
        age = meta.pop("age", None)
        if age is not None:
            self.ages[meta["uid"]] = age
        where = ("pods", meta["namespace"], meta["name"])
        found = self.api.find(*where)
        if found is None or found["metadata"]["uid"] != meta["uid"]:
            return
        for name in ("initContainerStatuses", "containerStatuses"):
            for one in status.get(name, []):
                known = {"image": "an-image", "imageID": "", "ready": False, "restartCount": 0}
                one |= {key: value for key, value in known.items() if key not in one}
        new = clone(found)
        new["status"] = status
        self.api.update(*where, new, subresource="status")

    def remove(self, obj: Object) -> None:
        """The kubelet's last word on a pod that was deleted."""
        meta = obj["metadata"]
        if self.api.find("pods", meta["namespace"], meta["name"]) is not None:
            self.api.delete("pods", meta["namespace"], meta["name"], grace_s=0, uid=meta["uid"])

    def _life(self, pod: Object) -> Life:
        # What others run is not counted, and goes well.
        is_watched = pod["metadata"]["namespace"] not in self.others
        return super()._life(pod) if is_watched else Life("ok")

    def _schedule(self, pod: Object, life: Any) -> None:
        """The scheduler is the real one."""

    # --- time ---
    def step(self) -> None:
        """One second of the cluster's own life."""
        self.pass_time(1.0)

    def pass_time(self, seconds: float) -> None:
        until = self.now + timedelta(seconds=seconds)
        while (due_s := self.runtime.next_due_s()) is not None:
            due = self.now + timedelta(seconds=due_s)
            if due > until:
                break
            # A clock of whole microseconds must not stop just before the moment.
            self.now = due + timedelta(microseconds=1)
            self.runtime.run_until_idle()
        self.now = max(until, self.now)
        self.seconds = self._seconds()
        self._provision()
        self.runtime.run_until_idle()
        self._kubelet()
        self.runtime.run_until_idle()

    def settle(self) -> None:
        """The controllers do what they can do now."""
        self.runtime.run_until_idle()
        self._provision()
        self.runtime.run_until_idle()

    def _kubelet(self) -> None:
        for pod in self.of("Pod"):
            if "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName"):
                self.remove(pod)  # was never anywhere
        super()._kubelet()
        for pod in self.of("Pod"):
            is_over = pod["status"].get("phase") in ENDED
            if is_over and "deletionTimestamp" in pod["metadata"]:
                self.remove(pod)

    def _provision(self) -> None:
        for claim in self.api.list("persistentvolumeclaims"):
            spec, meta = claim["spec"], claim["metadata"]
            name = f"pvc-{meta['uid']}"
            is_made = self.api.find("persistentvolumes", None, name) is not None
            if spec.get("volumeName") or is_made or "deletionTimestamp" in meta:
                continue
            reference = {key: meta[key] for key in ("name", "namespace", "uid")}
            volume = {
                "capacity": spec["resources"]["requests"],
                "accessModes": spec["accessModes"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": spec.get("storageClassName", ""),
                "claimRef": {"kind": "PersistentVolumeClaim", "apiVersion": "v1", **reference},
                "hostPath": {"path": f"/volumes/{name}"},
            }
            marks = {"pv.kubernetes.io/provisioned-by": PROVISIONER}
            body = {"metadata": {"name": name, "annotations": marks}, "spec": volume}
            self.api.create("persistentvolumes", None, body)
        for volume in self.api.list("persistentvolumes"):
            is_released = volume.get("status", {}).get("phase") == "Released"
            if is_released and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete":
                self.api.delete("persistentvolumes", None, volume["metadata"]["name"])
