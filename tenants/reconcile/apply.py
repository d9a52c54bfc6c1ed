"""Does what the differences of a tenant's objects ask for: creates, patches, and says how it went."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from portal.cluster import labels
from portal.cluster.cache import ClusterCache
from portal.cluster.client import Cluster
from portal.cluster.errors import (
    ClusterError,
    Conflict,
    Forbidden,
    NotFound,
    QuotaExceeded,
    TooManyRequests,
    Unavailable,
)
from portal.cluster.informer import Informer
from portal.cluster.objects import KubePVC, ObjectMeta
from portal.cluster.workqueue import RateLimiter
from tenants.models import Tenant, TenantObject
from tenants.reconcile.objects import ClaimContext, Difference, Object, State, compare, foreign
from tenants.reconcile.store import NOT_CHANGED, ObjectKey, ObjectStatus

_WAIT_S = (0.2, 20.0)  # when a cause is mended, nobody waits longer than half a minute
_CALM_S = 60.0  # an object left alone for so long starts with short waits again
_CLASS_KNOWN_S = 60.0
_RIGHTS = "Homeport's permissions in the namespace"
_NO_RIGHT = " cannot create resource "  # as the API server's authorizer says it
_HEARD_S = 10.0  # by then every API server knows of a RoleBinding
_JUST_MADE = "created a moment ago"
_WAS_THERE = "was removed, and cannot be "  # as every version has begun it

Key = tuple[UUID, str, str]  # tenant, kind, name
_Changed = tuple[str, Object | None]  # resourceVersion that was seen, and the patch


@dataclass(frozen=True)
class SyncResult:
    """The objects in order, and when (monotonic) to look again; None: when something changes."""

    objects: list[ObjectStatus]
    again_at: float | None


@dataclass(frozen=True)
class _ObjectSync:
    """One object on its way through a pass."""

    key: Key
    document: Object
    row: TenantObject | None
    difference: Difference

    @property
    def had_it(self) -> bool:
        """Whether the object is known to have existed."""
        row = self.row
        is_known = row is not None and row.state in {State.WAITING, State.READY}
        return is_known or (row is not None and _WAS_THERE in row.detail)

    def status(self, state: str, detail: str = "", *, was_repaired: bool = False) -> ObjectStatus:
        return ObjectStatus(self.key[1], self.key[2], state, detail, was_repaired)


class Provisioner:
    """Remembers per object when it was last written, so that no quarrel becomes a storm."""

    def __init__(self, cache: ClusterCache, cluster: Cluster) -> None:
        self._cache = cache
        self._cluster = cluster
        # Each try counts, for one that succeeds may be undone at once by somebody else.
        self._tries = RateLimiter[Key](time.monotonic, *_WAIT_S)
        self._open: set[Key] = set()  # which the last try did not settle yet
        self._kept: dict[Key, str] = {}  # why what is not wanted any more is still there
        self._made: dict[Key, str] = {}  # uid of what we made or found last
        self._changed: dict[Key, _Changed] = {}  # what we changed last
        self._bound_at: dict[UUID, float] = {}  # tenant -> when we were given rights in it
        self._classes: dict[str, tuple[float, ClaimContext]] = {}
        self._informers: dict[str, Informer[Any]] = {
            "Namespace": cache.namespaces,
            "ResourceQuota": cache.quotas,
            "LimitRange": cache.limit_ranges,
            "NetworkPolicy": cache.network_policies,
            "ServiceAccount": cache.service_accounts,
            "RoleBinding": cache.role_bindings,
            "PersistentVolumeClaim": cache.claims,
        }

    def has(self, kind: str, namespace: str, name: str) -> bool:
        """Whether the cache shows an object; false for kinds that no tenant is made of."""
        informer = self._informers.get(kind)
        inside = "" if kind == "Namespace" else namespace
        return informer is not None and informer.get(inside, name) is not None

    async def sync(
        self, tenant: Tenant, documents: Sequence[Object], rows: Mapping[ObjectKey, TenantObject]
    ) -> SyncResult:
        """One look at all objects of a tenant; writes what is missing or wrong."""
        objects: list[ObjectStatus] = []
        lacks = ""  # what the rest cannot be made without
        keys = []
        for document in documents:
            kind, name = document["kind"], document["metadata"]["name"]
            key = (tenant.pk, kind, name)
            keys.append(key)
            row = rows.get((kind, name))
            is_binding = kind == "RoleBinding"
            waits_for = "" if is_binding and lacks == _RIGHTS else lacks
            found = await self._sync_object(key, document, row, waits_for)
            if kind == "Namespace" and found.state != State.READY:
                lacks = "the namespace"
            elif is_binding and found.state in {State.MISSING, State.WAITING}:
                # One that is refused is told; whoever may do everything does not need it.
                lacks = lacks or _RIGHTS
            objects.append(found)
        former = await self._remove_former(tenant, documents)
        keys += former
        objects += [
            ObjectStatus(*key[1:], State.READY, former[key]) for key in former if former[key]
        ]
        again = [self._tries.until(key) for key in keys if key in self._open]
        return SyncResult(objects, min(again, default=None))

    async def _sync_object(
        self, key: Key, document: Object, row: TenantObject | None, waits_for: str
    ) -> ObjectStatus:
        meta = document["metadata"]
        seen = self._informers[key[1]].get(meta.get("namespace", ""), meta["name"])
        difference = compare(document, seen, await self._context(seen))
        sync = _ObjectSync(key, document, row, difference)
        change = (seen.metadata.resource_version if seen is not None else "", difference.patch)
        # The watch may tell of what we changed after the next look.
        is_changed = self._changed.get(key) == change
        if not difference.must_create and (not difference.patch or is_changed):
            self._open.discard(key)
            self._tries.forget_after(key, _CALM_S)
            return sync.status(difference.state, difference.detail)
        if waits_for:
            state = State.WAITING if sync.had_it else State.MISSING
            return sync.status(state, f"waiting for {waits_for}")
        self._open.add(key)
        if self._tries.is_backing_off(key):
            return self._held_back(sync)
        self._tries.back_off(key)
        try:
            if difference.must_create:
                return await self._create(sync)
            found = await self._change(sync)
            self._changed[key] = change
            return found
        except ClusterError as error:
            if isinstance(error, TooManyRequests):
                self._tries.postpone(key, error.retry_after_s)
            return self._status_after(sync, error)

    # --- writing ---
    async def _create(self, sync: _ObjectSync) -> ObjectStatus:
        document = sync.document
        meta = document["metadata"]
        if sync.had_it and sync.key[1] == "PersistentVolumeClaim":
            warning = await self._tell_lost_volume(meta["namespace"], meta["name"])
            marks = {**meta["annotations"], labels.WARNING: warning}
            document = {**document, "metadata": {**meta, "annotations": marks}}
        try:
            made = await self._cluster.create_or_adopt(document)
        except Conflict as conflict:
            if conflict.reason == "Foreign":
                return sync.status(State.REFUSED, foreign(document))
            if conflict.reason != "OtherSpec":
                raise  # the cluster's own, when two requests were counted against a quota at once
            made = await self._cluster.get(sync.key[1], meta.get("namespace"), meta["name"])
        if made["metadata"]["labels"].get(labels.MANAGED_BY) != labels.MANAGER:
            # Somebody took the label by which we watch; with it the rest is seen and repaired.
            await self._patch(sync, {"metadata": {"labels": meta["labels"]}})
        uid = made["metadata"]["uid"]
        is_new = self._made.get(sync.key) != uid
        self._made[sync.key] = uid
        if sync.key[1] == "RoleBinding":
            self._bound_at[sync.key[0]] = time.monotonic()
        return sync.status(State.WAITING, _JUST_MADE, was_repaired=sync.had_it and is_new)

    async def _change(self, sync: _ObjectSync) -> ObjectStatus:
        difference = sync.difference
        assert difference.patch is not None
        await self._patch(sync, difference.patch)
        return sync.status(difference.state, difference.detail, was_repaired=difference.is_drift)

    async def _patch(self, sync: _ObjectSync, patch: Object) -> None:
        meta = sync.document["metadata"]
        await self._cluster.merge_patch(sync.key[1], meta.get("namespace"), meta["name"], patch)

    def _status_after(self, sync: _ObjectSync, error: ClusterError) -> ObjectStatus:
        difference = sync.difference
        if not difference.must_create:
            said = f"{NOT_CHANGED}{error.message}"
            detail = ". ".join(part for part in (difference.detail, said) if part)
            return sync.status(difference.state, detail)
        if isinstance(error, Unavailable | TooManyRequests):
            detail = f"the cluster does not respond ({error.message}); Homeport tries again"
        elif isinstance(error, QuotaExceeded | NotFound | Conflict) or self._is_early(sync, error):
            detail = f"not yet: {error.message}"
        else:
            # What is made anew after a refusal still tells that there was one before.
            before = f"{_WAS_THERE}created again: " if sync.had_it else ""
            return sync.status(State.REFUSED, f"{before}the cluster refuses it: {error.message}")
        return sync.status(State.WAITING if sync.had_it else State.MISSING, detail)

    def _is_early(self, sync: _ObjectSync, error: ClusterError) -> bool:
        """Whether the cluster may not have heard yet of the rights that we have just been given."""
        bound_at = self._bound_at.get(sync.key[0], float("-inf"))
        is_about_rights = isinstance(error, Forbidden) and _NO_RIGHT in error.message
        return is_about_rights and time.monotonic() - bound_at < _HEARD_S

    async def _remove_former(self, tenant: Tenant, documents: Sequence[Object]) -> dict[Key, str]:
        """Deletes our policies that are no longer wanted: settings decide how many there are.

        Returns:
            those that are still there, with what the cluster says against it.
        """
        found = {}
        wanted = {(document["kind"], document["metadata"]["name"]) for document in documents}
        for policy in self._cache.network_policies.of_owner(str(tenant.pk)):
            meta = policy.metadata
            key = (tenant.pk, "NetworkPolicy", meta.name)
            if key[1:] in wanted or meta.namespace != tenant.namespace:
                continue
            if meta.deletion_timestamp is None:
                await self._remove(key, meta)
            else:
                self._open.discard(key)
            found[key] = self._kept.get(key, "")
        for key in [key for key in self._kept if key[0] == tenant.pk and key not in found]:
            del self._kept[key]
        return found

    async def _remove(self, key: Key, meta: ObjectMeta) -> None:
        self._open.add(key)
        if self._tries.is_backing_off(key):
            return
        self._tries.back_off(key)
        try:
            await self._cluster.delete(key[1], meta.namespace, meta.name, uid=meta.uid)
        except ClusterError as error:  # the next pass tries again
            self._kept[key] = f"is not wanted any more; {NOT_CHANGED}{error.message}"

    @staticmethod
    def _held_back(sync: _ObjectSync) -> ObjectStatus:
        row, difference = sync.row, sync.difference
        if row is not None and not difference.must_create and NOT_CHANGED in row.detail:
            return sync.status(difference.state, row.detail)
        if row is None or not difference.must_create:
            return sync.status(difference.state, difference.detail)
        if row.state == State.READY:
            return sync.status(
                State.WAITING, "was removed again; it is created again after a pause"
            )
        return sync.status(row.state, row.detail)

    # --- what else a claim needs to know ---
    async def _context(self, seen: Any) -> ClaimContext:
        if not isinstance(seen, KubePVC) or seen.status.phase != "Pending":
            return ClaimContext()
        known = await self._class(seen.spec.storage_class_name)
        meta = seen.metadata
        events = self._cache.events_about(meta.namespace, "PersistentVolumeClaim", meta.name)
        return ClaimContext(known.binding_mode, known.problem, events)

    async def _class(self, name: str) -> ClaimContext:
        """Binding mode of a StorageClass, or why it cannot be used; asked once a minute."""
        until, known = self._classes.get(name, (0.0, ClaimContext()))
        if not name or time.monotonic() < until:
            return known
        try:
            found = await self._cluster.get("StorageClass", None, name)
            known = ClaimContext(str(found.get("volumeBindingMode") or "Immediate"))
        except NotFound:
            problem = (
                f"there is no StorageClass {name!r}; an admin can create it or set STORAGE_CLASS"
            )
            known = ClaimContext(problem=problem)
        except ClusterError:
            known = ClaimContext()
        self._classes[name] = (time.monotonic() + _CLASS_KNOWN_S, known)
        return known

    async def _tell_lost_volume(self, namespace: str, name: str) -> str:
        """What became of the data of a claim that somebody deleted."""
        begin = "the claim was deleted and created again, empty"
        try:
            volumes = await self._cluster.list("PersistentVolume")
        except ClusterError as error:
            return f"{begin}; what happened to the earlier data could not be read: {error.message}"
        for volume in volumes:
            spec = volume.get("spec") or {}
            claim = spec.get("claimRef") or {}
            if (claim.get("namespace"), claim.get("name")) != (namespace, name):
                continue
            volume_name = volume["metadata"]["name"]
            if spec.get("persistentVolumeReclaimPolicy") == "Retain":
                return (
                    f"{begin}; the earlier data is kept on the volume {volume_name}, which an admin can "
                    "restore"
                )
            return f"{begin}; the volume {volume_name} with the earlier data is being removed"
        # A storage that knows its folders by the claim's name may fill it again.
        return (
            "the claim was gone and was created again; the cluster knows no volume with the "
            "earlier data, so it is empty unless its storage kept the folder"
        )
