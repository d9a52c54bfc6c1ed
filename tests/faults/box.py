"""The cluster of the fault tables: onebox's API and controllers (`onebox.testing.Box`), to which Homeport's
own client speaks over HTTP, and a node whose pods live as `tests.jobs.engine.kubelet` has them.
"""

from __future__ import annotations

import copy
from collections import Counter
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

from onebox.testing import Box
from onebox.testing.box import ENDED, TOKEN, Clock
from portal.cluster.client import Cluster, Object
from portal.cluster.credentials import Credentials
from portal.cluster.kinds import get_kind
from portal.cluster.ratelimit import TokenBucket
from portal.cluster.transport import Request, Transport
from tests.jobs.engine.kubelet import START, Kubelet, Life


class Steady(Transport):
    """Waits that the server asks for pass on the test's clock; a silent relay is not waited for
    as long as a server is.
    """

    def __init__(self, account: Credentials, box: Box) -> None:
        super().__init__(account)
        self._box = box

    async def pause(self, wait_s: float) -> None:
        self._box.advance(wait_s)

    async def _once(self, request: Request, data: bytes | None) -> bytes:
        limit_s = self._box.relay.limit_s if self._box.relay is not None else None
        return await super()._once(replace(request, timeout_s=limit_s or request.timeout_s), data)


@dataclass
class FaultBox(Kubelet, Cluster):
    """The calls of `Cluster` are the real ones; open it in a running event loop, and shut it."""

    is_killed: bool = False
    ages: dict[str, int] = field(default_factory=dict)
    others: set[str] = field(default_factory=set)  # namespaces that the test is not about

    def __post_init__(self) -> None:
        self.box = Box(Clock(START), live=self._machines)
        self.box.add_node("node", **{"nvidia.com/gpu": "8"})
        self.api = self.box.api

    async def open(self, *, relayed: bool = False) -> FaultBox:
        url = await self.box.serve(relayed=relayed)
        configuration = SimpleNamespace(refresh_api_key_hook=None, api_key={"BearerToken": TOKEN})
        self._transport = Steady(Credentials(url, None, None, configuration), self.box)
        self._writes = TokenBucket(1e9, 10**9)
        self.calls = Counter()
        return self

    async def shut(self) -> None:
        await self._transport.close()
        await self.box.stop_serving()
        self.box.close()

    # --- what the simulated node asks for ---
    def of(self, kind: str) -> list[Object]:
        """All objects of a kind, to be looked at; a pod's status is a copy, to be written back by `touch`."""
        row = get_kind(kind)
        found = []
        for stored in self.api.list(row.plural):
            meta = {"namespace": "", **stored["metadata"]}
            status = stored.get("status", {})
            if kind == "Pod":
                status = copy.deepcopy(status)
                if meta["uid"] in self.ages:
                    meta["age"] = self.ages[meta["uid"]]
            head = {"apiVersion": row.api_version, "kind": kind}
            found.append({**head, **stored, "metadata": meta, "status": status})
        return found

    @property
    def version(self) -> int:
        """Grows with every change."""
        return self.box.store.resource_version

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
        self.api.update(*where, {**found, "status": status}, subresource="status")

    def remove(self, obj: Object) -> None:
        """The kubelet's last word on a pod that was deleted."""
        self.box.remove(obj)

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
        self.box.advance(seconds)

    def settle(self) -> None:
        """The controllers do what they can do now, and claims get their volumes."""
        self.box.settle()
        self.box.provision()
        self.box.settle()

    def _machines(self, box: Box) -> None:
        self.seconds = box.clock.seconds()
        box.provision()
        box.settle()
        self._kubelet()

    def _kubelet(self) -> None:
        for pod in self.of("Pod"):
            if "deletionTimestamp" in pod["metadata"] and not pod["spec"].get("nodeName"):
                self.remove(pod)  # was never anywhere
        super()._kubelet()
        for pod in self.of("Pod"):
            is_over = pod["status"].get("phase") in ENDED
            if is_over and "deletionTimestamp" in pod["metadata"]:
                self.remove(pod)
