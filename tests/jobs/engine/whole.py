"""The simulated cluster with what tenants are made of, and a reconciler that tends jobs and tenants.

Namespaces come and go with everything in them, quotas are confirmed, claims get volumes; a volume
that is released stays, or goes when its reclaim policy says so.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from portal.cluster.cache import ClusterChanges
from portal.cluster.client import Object
from portal.cluster.errors import AlreadyExists, Conflict, NotFound
from tests.jobs.engine.served_simulation import ServiceSim
from tests.jobs.engine.world import World

_OF_TENANTS = {
    "Namespace",
    "ResourceQuota",
    "LimitRange",
    "NetworkPolicy",
    "ServiceAccount",
    "RoleBinding",
    "PersistentVolumeClaim",
    "PersistentVolume",
}


@dataclass
class WholeSim(ServiceSim):
    """Trainings and services, and the parts of tenants."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for kind in ("Namespace", "ResourceQuota"):  # those of the simple simulation
            for obj in self.of(kind):
                super().remove(obj)

    def uids(self, kind: str) -> set[str]:
        return {obj["metadata"]["uid"] for obj in self.of(kind)}

    async def list(
        self, kind: str, namespace: str | None = None, label_selector: str | None = None
    ) -> list[Object]:
        """Of all namespaces when none is given; no selector is needed here."""
        del label_selector
        return [
            copy.deepcopy(obj)
            for obj in self.of(kind)
            if namespace in {None, obj["metadata"].get("namespace", "")}
        ]

    def _create(self, obj: Object) -> Object:
        if obj["kind"] not in _OF_TENANTS:
            return super()._create(obj)
        made = copy.deepcopy(obj)
        meta = made["metadata"]
        namespace = meta.setdefault("namespace", "")
        if (obj["kind"], namespace, meta["name"]) in self.store:
            raise AlreadyExists(409, "AlreadyExists", f"{obj['kind']} {meta['name']} exists")
        if namespace and ("Namespace", "", namespace) not in self.store:
            raise NotFound(404, "NotFound", f"namespace {namespace} not found")
        self._settle(self.put(made))
        return copy.deepcopy(made)

    def _settle(self, obj: Object) -> None:
        """What upstream's controllers would do."""
        kind, meta = obj["kind"], obj["metadata"]
        if kind == "Namespace":
            obj["status"] = {"phase": "Active"}
        elif kind == "ResourceQuota":
            hard = dict(obj["spec"]["hard"])
            obj["status"] = {"hard": hard, "used": dict.fromkeys(hard, "0")}
        elif kind == "PersistentVolumeClaim" and "volumeName" not in obj["spec"]:
            name = f"pvc-{meta['uid']}"
            obj["spec"]["volumeName"] = name
            obj["status"] = {"phase": "Bound"}
            claim = {key: meta[key] for key in ("namespace", "name", "uid")}
            spec = {"persistentVolumeReclaimPolicy": "Retain", "claimRef": claim}
            self.put(
                {
                    "apiVersion": "v1",
                    "kind": "PersistentVolume",
                    "metadata": {"name": name, "namespace": ""},
                    "spec": spec,
                    "status": {"phase": "Bound"},
                }
            )
        elif kind == "PersistentVolume" and _is_to_go(obj):
            super().remove(obj)

    async def merge_patch(
        self,
        kind: str,
        namespace: str | None,
        name: str,
        patch: Object,
        *,
        subresource: str | None = None,
    ) -> Object:
        if kind not in _OF_TENANTS:
            return await super().merge_patch(kind, namespace, name, patch, subresource=subresource)

        def patched() -> Object:
            obj = self.store.get((kind, namespace or "", name))
            if obj is None:
                raise NotFound(404, "NotFound", f"{kind} {name} not found")
            exactly = patch.get("metadata", {})
            for key in ("uid", "resourceVersion"):
                if exactly.get(key, obj["metadata"][key]) != obj["metadata"][key]:
                    raise Conflict(409, "Conflict", f"{key} differs")
            _merge(obj, patch)
            self.touch(obj)
            self._settle(obj)
            return copy.deepcopy(obj)

        about = {"kind": kind, "metadata": {"name": name}}
        done: Object = self._mutation("patch", about, patched)
        return done

    def remove(self, obj: Object) -> None:
        super().remove(obj)
        if obj["kind"] == "Namespace":
            inside = [o for key, o in self.store.items() if key[1] == obj["metadata"]["name"]]
            for other in inside:
                self.store.pop(_key(other), None)
                self._release(other)
        self._release(obj)

    def _release(self, obj: Object) -> None:
        if obj["kind"] != "PersistentVolumeClaim":
            return
        volume = self.store.get(("PersistentVolume", "", obj["spec"]["volumeName"]))
        if volume is not None:
            volume["status"] = {"phase": "Released"}
            self.touch(volume)
            self._settle(volume)


def _is_to_go(volume: Object) -> bool:
    is_released = volume.get("status", {}).get("phase") == "Released"
    return is_released and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"


def _key(obj: Object) -> tuple[str, str, str]:
    meta = obj["metadata"]
    return obj["kind"], meta.get("namespace") or "", meta["name"]


def _merge(target: Object, patch: Object) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            _merge(target.setdefault(key, {}), value)
        else:
            target[key] = value


@dataclass
class WholeWorld(World):
    """`World`, and in each round a look at all tenants too."""

    sim: WholeSim = field(default_factory=WholeSim)

    async def round(self, seconds: int = 1) -> None:
        await super().round(seconds)
        if self.shift is not None and not self.sim.is_killed:
            self.feed()
            # Twice: what one look writes, the next one sees.
            for _ in range(2):
                await self.shift._tenants.run_once(ClusterChanges(), everything=True)
                self.feed()

    async def rounds_until(self, what: Callable[[], Any], *, most: int = 200) -> None:
        """Rounds until the condition holds.

        Raises:
            AssertionError: it never did.
        """
        for _ in range(most):
            if what():
                return
            await self.round()
        raise AssertionError(f"not within {most} rounds; {sorted(self.sim.store)}")
