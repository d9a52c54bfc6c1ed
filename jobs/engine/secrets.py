"""Moves the values of people's secrets from their rows into the cluster, and removes what nobody needs there.

Each revision is an immutable object of its own: the new one is created, then the row is blanked, then
older ones are deleted once no workload names them. Every step may be repeated: `UserSecret.revisions` has
a revision before its object can exist, and loses it when that object is gone.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from hashlib import sha256
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import Q, TextField
from django.db.models.functions import Cast
from django.utils import timezone

from jobs.engine.looks import keep_looking
from jobs.kinds.state import WorkloadRow
from jobs.leader.lease import Lease
from jobs.models import UserSecret, Workload
from jobs.rules import reasons
from jobs.secrets.sealing import unseal
from portal.cluster import labels
from portal.cluster.client import Cluster
from portal.cluster.errors import ClusterError, Conflict, NotFound
from portal.cluster.manifests import Object, spec_hash
from portal.cluster.names import secret_of_object, user_secret_name
from tenants.models import Tenant

log = logging.getLogger(__name__)

_CHECK_S = 300.0  # between two looks at whether the cluster still has them all
# What was rendered with an older revision is in its row by then.
_KEPT = timedelta(seconds=60)
_NEW = timedelta(seconds=60)
_TYPES = {
    UserSecret.Kind.GENERIC: "Opaque",
    UserSecret.Kind.REGISTRY: "kubernetes.io/dockerconfigjson",
}

Columns = dict[str, Any]


class SecretsPass:
    """Looks at the secrets that have work, and now and then at all."""

    def __init__(self, cluster: Cluster, lease: Lease) -> None:
        self._cluster = cluster
        self._lease = lease
        self._checked_at = float("-inf")
        self.wanted = asyncio.Event()  # somebody may have changed one

    async def run(self) -> None:
        """Until it is cancelled.

        Raises:
            LeaseLostError: nothing more may be changed by us.
        """
        await keep_looking(self.run_once, self.wanted, "secrets cannot be tended")

    async def run_once(self) -> None:
        """One look; what fails is tried again by the next one."""
        began_at = time.monotonic()
        is_check = began_at - self._checked_at >= _CHECK_S
        for row, unneeded in await sync_to_async(_load)(all_of_them=is_check):
            try:
                await self._tend(row, unneeded)
            except ClusterError as error:
                if not error.status:  # none of the others will be answered
                    log.warning("secrets cannot be tended: %s", error.message)
                    return
                log.warning("the secret %s: %s", row.object_name, error.message)
                await self._save(row, partial(_refused, reasons.clip(error.message)))
        if is_check:
            self._checked_at = began_at

    async def _tend(self, row: UserSecret, unneeded: list[int]) -> None:
        namespace = row.tenant.namespace
        if row.tenant.desired == Tenant.Desired.PURGED:
            await self._lease.commit(UserSecret.objects.filter(pk=row.pk).delete)
            return
        if row.sealed:
            await self._write(row, namespace)
        elif row.state == "ready" and not await self._find(namespace, row.object_name):
            await self._save(row, partial(_without, row.revision))
        for revision in unneeded:
            await self._remove(row, namespace, revision)
        if row.has_work:
            await self._save(row, lambda now: {})

    async def _write(self, row: UserSecret, namespace: str) -> None:
        def blanked(now: UserSecret) -> Columns:
            return {"sealed": ""} if now.sealed == row.sealed else {}

        def lost(now: UserSecret) -> Columns:
            return {**blanked(now), **_without(row.revision, now)}

        def renumbered(now: UserSecret) -> Columns:
            number = now.revision + 1
            return {"revision": number, "revisions": [*now.revisions, number]}

        values = unseal(row.sealed)
        if values is None:
            await self._save(row, lost)
            return
        self._lease.check()
        try:
            await self._cluster.create_or_adopt(_document(row, namespace, values))
        except Conflict as error:
            if error.reason not in {"Foreign", "OtherSpec"}:
                raise
            # Of this number there is other content: older than a restored database, or somebody else's.
            await self._save(row, renumbered)
        else:
            await self._save(row, blanked)

    async def _find(self, namespace: str, name: str) -> Object | None:
        with suppress(NotFound):
            return await self._cluster.get("Secret", namespace, name)
        return None

    async def _remove(self, row: UserSecret, namespace: str, revision: int) -> None:
        name = user_secret_name(row.name, revision)
        found = await self._find(namespace, name)
        if found is not None and _is_of(row, found):
            self._lease.check()
            await self._cluster.delete("Secret", namespace, name, uid=found["metadata"]["uid"])
            found = await self._find(namespace, name)
        if found is None or not _is_of(row, found):
            await self._save(row, partial(_without, revision))

    async def _save(self, row: UserSecret, change: Callable[[UserSecret], Columns]) -> None:
        await self._lease.commit(partial(_save, row.pk, change))


def _is_of(row: UserSecret, found: Object) -> bool:
    return (found["metadata"].get("labels") or {}).get(labels.OWNER) == str(row.tenant_id)


def _document(row: UserSecret, namespace: str, values: dict[str, str]) -> Object:
    """The object of a revision. What is sealed in it is part of what it is adopted by."""
    marks = {
        labels.MANAGED_BY: labels.MANAGER,
        labels.OWNER: str(row.tenant_id),
        labels.SEAL: sha256(row.sealed.encode()).hexdigest()[:16],
    }
    meta: Object = {"name": row.object_name, "namespace": namespace, "labels": marks}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": _TYPES[UserSecret.Kind(row.kind)]}
    marked = {**meta, "annotations": {labels.SPEC_HASH: spec_hash({**kind, "metadata": meta})}}
    return {**kind, "metadata": marked, "immutable": True, "stringData": values}


# --- the database; blocking ---
def _load(*, all_of_them: bool) -> list[tuple[UserSecret, list[int]]]:
    """Secrets with those of their revisions that are to be removed."""
    chosen = Q() if all_of_them else Q(has_work=True)
    rows = UserSecret.objects.filter(chosen).select_related("tenant").order_by("pk")
    return [(row, _unneeded(row)) for row in rows]


def _unneeded(row: UserSecret) -> list[int]:
    """Revisions that no workload names any more, and none will."""
    old = [one for one in row.revisions if row.is_deleted or one != row.revision]
    if not old or row.sealed or timezone.now() - row.changed_at < _KEPT:
        return []
    plans = Workload.objects.filter(tenant=row.tenant_id, cleaned_at=None, plan__isnull=False)
    texts = plans.annotate(text=Cast("plan", TextField()))
    names = {one: f'"{user_secret_name(row.name, one)}"' for one in old}
    return [one for one in old if not texts.filter(text__contains=names[one]).exists()]


def _refused(problem: str, now: UserSecret) -> Columns:
    return {"problem": problem}


def _without(revision: int, now: UserSecret) -> Columns:
    return {"revisions": [one for one in now.revisions if one != revision]}


def _save(pk: int, change: Callable[[UserSecret], Columns]) -> None:
    """Writes what changes of the row as it is now, and whether it has work; inside `Lease.commit`."""
    now = UserSecret.objects.select_for_update().filter(pk=pk).first()
    if now is None:
        return
    names = ("revision", "revisions", "sealed")
    columns = {"problem": "", **{name: getattr(now, name) for name in names}, **change(now)}
    if now.is_deleted and not columns["revisions"]:
        now.delete()
        return
    has_old = set(columns["revisions"]) - {columns["revision"]}
    has_work = bool(columns["sealed"] or now.is_deleted or has_old)
    UserSecret.objects.filter(pk=pk).update(**columns, has_work=has_work)


def awaits(row: WorkloadRow, object_name: str) -> bool:
    """Whether the reconciler is still to write these values; else the secret is looked at soon.

    Args:
        object_name: in the cluster, where it was not found.
    """
    name = secret_of_object(object_name)
    rows = UserSecret.objects.filter(tenant__namespace=row.namespace, name=name)
    rows.update(has_work=True)
    # It may have been written since it was looked for.
    new = timezone.now() - _NEW
    found = [one for one in rows if one.object_name == object_name]
    return any(one.sealed or one.changed_at > new for one in found)
