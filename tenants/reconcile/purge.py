"""Removes a purged tenant: its namespace, and its data if that was chosen, on volumes and in the object store.

The only code of Homeport that removes a namespace or a volume, under an account of its own
(PURGE_KUBECONFIG), so that the account of every day needs no such right. In steps that each survive
a kill, with fresh reads, and uid preconditions on whatever destroys:

    note what there is (in the row)  ->  label the volumes with whose they are, and make sure that
    they outlive their claims  ->  remove the namespace  ->  wait until it is gone  ->  if the data
    is to go: remove what the object store keeps of it, hand each volume to its provisioner (reclaim
    policy Delete) and wait  ->  gone
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.utils import timezone

from portal.cluster import labels
from portal.cluster.client import Cluster
from portal.cluster.errors import ClusterError, CredentialsError, Forbidden, NotFound
from tenants.models import Tenant
from tenants.reconcile import blockers
from tenants.reconcile.objects import State
from tenants.reconcile.store import ObjectStatus

Object = dict[str, Any]

AGAIN_S = 1.0
FAILED_AGAIN_S = 5.0
# What was asked to end gets its grace (pods: at most two minutes) before its namespace is removed.
ENDING = timedelta(minutes=5)


@dataclass(frozen=True)
class Purged:
    """Where a purge stands.

    Attributes:
        memo: what to note in the row before anything follows from it; None: nothing new.
        again_s: when to look again.
    """

    text: str = ""
    next_step: str = ""
    is_gone: bool = False
    memo: Mapping[str, Any] | None = None
    objects: Sequence[ObjectStatus] = ()
    again_s: float = AGAIN_S


@asynccontextmanager
async def account(everyday: Cluster) -> AsyncIterator[Cluster]:
    """The client that may remove things.

    Raises:
        CredentialsError: PURGE_KUBECONFIG cannot be used.
    """
    if not settings.PURGE_KUBECONFIG:
        yield everyday
        return
    cluster = await Cluster.connect(settings.PURGE_KUBECONFIG)
    try:
        yield cluster
    finally:
        await cluster.close()


async def step(
    everyday: Cluster,
    tenant: Tenant,
    running: int,
    confirm: Callable[[], Awaitable[bool]],
    erase: Callable[[], Awaitable[bool]],
) -> Purged:
    """The next step of one purge; safe to repeat.

    Args:
        running: pods in the namespace that have not ended.
        confirm: asked right before something is destroyed: whether we are still the ones who may,
            and the row still says so.
        erase: removes what the object store keeps of the tenant; whether it has come to its end.
    """
    try:
        async with account(everyday) as cluster:
            return await _Purge(cluster, tenant, confirm, erase).step(running)
    except CredentialsError as error:
        fix = "Correct PURGE_KUBECONFIG, then start Homeport again."
        return Purged(f"The account for purging cannot be used: {error.message}", fix, again_s=60)
    except Forbidden as error:
        fix = (
            "Give the account of PURGE_KUBECONFIG this permission."
            if settings.PURGE_KUBECONFIG
            else (
                "Set PURGE_KUBECONFIG to that of an account that may; docs/cluster.md shows how to "
                "create one."
            )
        )
        return Purged(
            f"The cluster refuses the purge: {error.message}", fix, again_s=FAILED_AGAIN_S
        )
    except ClusterError as error:
        text = f"The cluster cannot purge it now: {error.message}"
        return Purged(text, "Homeport tries again automatically.", again_s=FAILED_AGAIN_S)


class _Purge:
    """One look at one tenant that is being purged."""

    def __init__(
        self,
        cluster: Cluster,
        tenant: Tenant,
        confirm: Callable[[], Awaitable[bool]],
        erase: Callable[[], Awaitable[bool]],
    ) -> None:
        self._cluster = cluster
        self._tenant = tenant
        self._confirm = confirm
        self._erase = erase
        self._memo: Mapping[str, Any] = tenant.purge_memo

    async def step(self, running: int) -> Purged:
        name = self._tenant.namespace
        namespace = await self._find("Namespace", name)
        if namespace is not None and not self._is_ours(namespace):
            return Purged(
                f"The namespace {name} in the cluster is not the one that Homeport created; it is "
                "left alone, and so are all volumes.",
                "Find out whose it is. When it is gone, the purge continues.",
                again_s=FAILED_AGAIN_S,
            )
        uid = str(namespace["metadata"]["uid"]) if namespace is not None else ""
        if not self._memo or (uid and uid != self._memo.get("namespace_uid")):
            return Purged(memo=await self._inventory(uid), again_s=0.0)
        if namespace is not None:
            return await self._remove_namespace(namespace, running)
        if self._tenant.purge_data != Tenant.Data.DELETE:
            return Purged(is_gone=True)
        if not self._memo.get("is_erased"):  # not in memos of earlier versions
            return await self._empty_store()
        return await self._remove_volumes()

    async def _find(self, kind: str, name: str) -> Object | None:
        try:
            return await self._cluster.get(kind, None, name)
        except NotFound:
            return None

    def _is_ours(self, namespace: Object) -> bool:
        marks = namespace["metadata"].get("labels") or {}
        return bool(marks.get(labels.OWNER) == str(self._tenant.pk))

    async def _inventory(self, namespace_uid: str) -> Object:
        """What there is. A namespace's name is never used again, so what names it is this one's."""
        volumes = []
        for volume in await self._cluster.list("PersistentVolume"):
            claim = (volume.get("spec") or {}).get("claimRef") or {}
            if claim.get("namespace") == self._tenant.namespace:
                meta = volume["metadata"]
                volumes.append(
                    {"name": meta["name"], "uid": meta["uid"], "claim": claim.get("name", "")}
                )
        return {"namespace_uid": namespace_uid, "volumes": volumes}

    # --- the namespace ---
    async def _remove_namespace(self, namespace: Object, running: int) -> Purged:
        meta = namespace["metadata"]
        if "deletionTimestamp" in meta:
            return await self._wait_for_namespace(namespace)
        if running and timezone.now() - self._tenant.desired_at < ENDING:
            return Purged("It waits for pods that are still ending.")
        for known in self._memo["volumes"]:
            await self._mark(known)
        if not await self._confirm():
            return Purged()
        await self._cluster.delete("Namespace", None, meta["name"], uid=meta["uid"])
        return Purged("The namespace is being removed.")

    async def _wait_for_namespace(self, namespace: Object) -> Purged:
        conditions = (namespace.get("status") or {}).get("conditions") or []
        held_up_by = await blockers.find(self._cluster, self._tenant.namespace, conditions)
        objects = [
            ObjectStatus(held.kind, held.name, State.WAITING, held.detail)
            for held in held_up_by.held
        ]
        return Purged(
            f"{held_up_by.text}.", held_up_by.next_step, objects=objects, again_s=2 * AGAIN_S
        )

    # --- the object store ---
    async def _empty_store(self) -> Purged:
        """Nothing that writes is left of the namespace by now."""
        if not await self._confirm():
            return Purged()
        try:
            is_over = await self._erase()
        except Exception as error:  # noqa: BLE001  the named fence: stores fail in many ways
            return Purged(
                f"The object store cannot remove its data now: {error}",
                "Homeport tries again automatically.",
                again_s=FAILED_AGAIN_S,
            )
        if not is_over:
            text = "The namespace is gone; its uploads, logs and files are being removed."
            return Purged(text, again_s=2 * AGAIN_S)
        return Purged(memo={**self._memo, "is_erased": True}, again_s=0.0)

    # --- volumes ---
    async def _volume(self, known: Mapping[str, str]) -> Object | None:
        """The volume as it is now; None when it is gone or its name is another one's."""
        volume = await self._find("PersistentVolume", known["name"])
        if volume is None or volume["metadata"]["uid"] != known["uid"]:
            return None
        claim = volume["spec"].get("claimRef") or {}
        return volume if claim.get("namespace") == self._tenant.namespace else None

    async def _mark(self, known: Mapping[str, str]) -> None:
        """Says on the volume whose it is, and that it outlives its claim."""
        volume = await self._volume(known)
        if volume is None:
            return
        tenant = self._tenant
        marks = {labels.OWNER: str(tenant.pk), labels.NAMESPACE: tenant.namespace}
        notes = {labels.KEPT_OF: f"{tenant.owner.username}: {known['claim']} of {tenant.namespace}"}
        meta = volume["metadata"]
        has_marks = marks.items() <= (meta.get("labels") or {}).items()
        is_kept = volume["spec"].get("persistentVolumeReclaimPolicy") == "Retain"
        if not has_marks or not is_kept:
            change = {"labels": marks, "annotations": notes}
            await self._patch_volume(volume, change, policy="Retain")

    async def _patch_volume(self, volume: Object, marks: Object, *, policy: str) -> None:
        meta = volume["metadata"]
        exactly = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        patch = {
            "metadata": {**exactly, **marks},
            "spec": {"persistentVolumeReclaimPolicy": policy},
        }
        await self._cluster.merge_patch("PersistentVolume", None, meta["name"], patch)

    async def _remove_volumes(self) -> Purged:
        left = []
        for known in self._memo["volumes"]:
            volume = await self._volume(known)
            if volume is None:
                continue
            left.append(volume)
            is_free = (volume.get("status") or {}).get("phase") == "Released"
            if not is_free or volume["spec"].get("persistentVolumeReclaimPolicy") == "Delete":
                continue
            if not await self._confirm():
                return Purged()
            await self._patch_volume(volume, {}, policy="Delete")
        if not left:
            return Purged(is_gone=True)
        return self._waits_for(left)

    @staticmethod
    def _waits_for(left: Sequence[Object]) -> Purged:
        """The namespace is gone, volumes are not."""
        names = ", ".join(str(volume["metadata"]["name"]) for volume in left)
        failed = [str((volume.get("status") or {}).get("message") or "") for volume in left]
        said = next((text for text in failed if text), "")
        objects = [
            ObjectStatus(
                "PersistentVolume", volume["metadata"]["name"], State.WAITING, "is being removed"
            )
            for volume in left
        ]
        text = f"The namespace is gone; its data is being removed: {names}."
        return Purged(
            f"{text} The cluster says: {said}" if said else text,
            "If it lasts, the storage cannot remove volumes automatically: remove the data by "
            "hand, then the volumes with kubectl delete pv.",
            objects=objects,
            again_s=2 * AGAIN_S,
        )
