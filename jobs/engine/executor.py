"""Carries out the steps of plans against the cluster and the object store.

Each step is idempotent: it may be repeated after a crash before or after it, and after a reply that
got lost. What a step found out goes back to the loop as a `StepResult` and is committed before the next
plan of the workload is made.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.core.exceptions import ObjectDoesNotExist
from django.db import DatabaseError

from jobs.engine import gangs, manifests, secrets
from jobs.engine.site_files import SiteFiles
from jobs.kinds.manifests import named_secrets
from jobs.kinds.plan import (
    CreateAll,
    Delete,
    Erase,
    LoosenGroup,
    PatchRoot,
    Rescue,
    Step,
    Sweep,
    Verify,
)
from jobs.kinds.registry import KINDS
from jobs.kinds.state import WorkloadRow
from jobs.leader.lease import LeaseLostError
from jobs.rules import reasons
from jobs.rules.patterns import find_code
from jobs.rules.reasons import Reason
from portal import metrics
from portal.cluster import labels
from portal.cluster.client import Cluster
from portal.cluster.errors import (
    ClusterError,
    Conflict,
    Invalid,
    NotFound,
    QuotaExceeded,
    TooManyRequests,
    Unavailable,
)
from portal.cluster.kinds import get_kind
from portal.cluster.manifests import Object
from portal.cluster.names import secret_of_object
from portal.errors import ConfigurationError
from portal.storage import get_store

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepBatch:
    """The steps of one row; `has_root` says whether its root was seen with the recorded uid."""

    workload_id: UUID
    row: WorkloadRow
    steps: tuple[Step, ...]
    has_root: bool


@dataclass(frozen=True)
class StepResult:
    """What the steps of one row found out.

    Attributes:
        root_uid: uid of the root, after it and all its children were made.
        absent_root: name of the root, when a fresh read did not find it.
        blocked: why the objects can never be made.
        trouble: why they cannot be made now.
        error: the sentence of what failed, to be tried again later; empty when all was done.
        is_outage: the cluster as a whole cannot be reached.
        retry_after_s: how long the cluster asks us to wait.
    """

    workload_id: UUID
    root_uid: str = ""
    absent_root: str = ""
    blocked: Reason = reasons.NONE
    trouble: Reason = reasons.NONE
    is_swept: bool = False
    is_erased: bool = False
    error: str = ""
    is_outage: bool = False
    retry_after_s: float = 0.0


class Executor:
    """Runs batches of steps; `check` is asked before each call that changes anything."""

    def __init__(
        self,
        cluster: Cluster,
        check: Callable[[], None],
        has_pod_groups: Callable[[], bool] = lambda: False,
    ) -> None:
        self._cluster = cluster
        self._check = check
        self._has_pod_groups = has_pod_groups
        self._site_files = SiteFiles(cluster)

    # --- the steps ---
    async def run(self, batch: StepBatch) -> StepResult:
        """All steps in order, up to the first that fails.

        Raises:
            LeaseLostError: nothing more may be changed by us.
        """
        result = StepResult(batch.workload_id)
        try:
            for step in batch.steps:
                self._check()
                result = await self._do_counted(batch, step, result)
        except LeaseLostError:
            raise
        except ClusterError as error:
            return _failed(result, error)
        except (ObjectDoesNotExist, DatabaseError, ConfigurationError, OSError) as error:
            return replace(result, error=f"{type(error).__name__}: {error}")
        except Exception as error:  # the named fence: one poisoned row must not stop the others
            log.exception("%s: a step failed", batch.workload_id)
            return replace(result, error=f"{type(error).__name__}: {error}")
        return result

    async def _do_counted(self, batch: StepBatch, step: Step, before: StepResult) -> StepResult:
        outcome = "failed"
        try:
            result = await self._do(batch, step, before)
            outcome = "done" if result.error == before.error else "failed"
            return result
        finally:
            metrics.STEPS.labels(type(step).__name__, outcome).inc()

    async def _do(self, batch: StepBatch, step: Step, result: StepResult) -> StepResult:
        match step:
            case CreateAll():
                return await self._create_all(batch, result)
            case PatchRoot():
                return await self._patch_root(batch, step, result)
            case Delete():
                await self._cluster.delete(step.kind, batch.row.namespace, step.name, uid=step.uid)
            case LoosenGroup():
                with suppress(NotFound):
                    patch = gangs.loosened(step.uid)
                    await self._cluster.merge_patch(
                        "PodGroup", batch.row.namespace, step.name, patch
                    )
            case Verify():
                return await self._verify(batch, step, result)
            case Rescue():
                await self._rescue(batch, step)
            case Sweep():
                await self._sweep(batch)
                return replace(result, is_swept=True)
            case Erase():
                await self._erase(batch)
                return replace(result, is_erased=True)
        return result

    # --- creating ---
    async def _create_all(self, batch: StepBatch, result: StepResult) -> StepResult:
        """The root, then what it owns; that it may run is a later step, once this is committed."""
        documents = await sync_to_async(manifests.load)(batch.row)
        if not documents:
            return replace(result, error="its manifests have not been rendered")
        lacking = await self._lacking_secret(batch, documents)
        if lacking is not None:
            return replace(result, **lacking)
        await self._site_files.ensure(batch.row.namespace)
        try:
            group = await asyncio.to_thread(gangs.group_of, batch.row, documents)
            if group is not None and self._has_pod_groups():
                documents = [gangs.naming(documents[0], group), *documents[1:]]
            root = await self._cluster.create_or_adopt(documents[0])
            if root["metadata"].get("deletionTimestamp"):
                return replace(result, error="an earlier root is still being removed")
            children = documents[1:]
            if group is not None and gangs.is_named(root):
                # The root of an earlier try says what all others do.
                children = [group, *(gangs.naming(one, group) for one in children)]
            for document in children:
                self._check()
                await self._create_child(batch, document, root)
        except Conflict as error:
            if error.reason == "Foreign":
                return replace(result, blocked=_said("name_taken", error))
            return replace(result, trouble=_said("leftover", error), error=error.message)
        except QuotaExceeded as error:
            return replace(
                result,
                trouble=_said(find_code("quota_refused", error.message), error),
                error=error.message,
            )
        except Invalid as error:
            return replace(result, blocked=_said("refused", error))
        except (Unavailable, TooManyRequests):
            raise
        except ClusterError as error:
            return replace(result, trouble=_said("refused", error), error=error.message)
        return replace(result, root_uid=str(root["metadata"]["uid"]))

    async def _lacking_secret(
        self, batch: StepBatch, documents: Sequence[Object]
    ) -> dict[str, Any] | None:
        """What a secret of the person that the cluster does not have means; None: it has them all.

        Pods would wait for it without an end.
        """
        for name in named_secrets(documents, besides=batch.row.kube_name):
            try:
                await self._cluster.get("Secret", batch.row.namespace, name)
            except NotFound:
                secret = secret_of_object(name)
                if await sync_to_async(secrets.awaits)(batch.row, name):
                    trouble = reasons.make("secret_pending", detail=secret)
                    return {"trouble": trouble, "error": trouble.text}
                return {"blocked": reasons.make("secret_gone", who="It", detail=secret)}
        return None

    async def _create_child(self, batch: StepBatch, document: Object, root: Object | None) -> None:
        await self._cluster.create_or_adopt(
            KINDS[batch.row.kind].complete(batch.row, document, root)
        )

    async def _rescue(self, batch: StepBatch, step: Rescue) -> None:
        """The pod and what it mounts: ConfigMap and Secret may have gone with the root."""
        root = _stub(batch) if batch.has_root else None
        for document in await sync_to_async(manifests.load)(batch.row):
            if document["kind"] in {"ConfigMap", "Secret"}:
                await self._create_child(batch, document, root)
        await self._site_files.ensure(batch.row.namespace)
        rescue = await sync_to_async(manifests.render_rescue)(batch.row, step)
        await self._cluster.create_or_adopt(rescue)

    # --- changing, reading ---
    async def _patch_root(
        self, batch: StepBatch, step: PatchRoot, result: StepResult
    ) -> StepResult:
        # The uid makes it a precondition: never the root of another try.
        patch: Object = {"metadata": {"uid": step.uid}, "spec": step.spec}
        try:
            await self._cluster.merge_patch(
                _root_kind(batch), batch.row.namespace, step.name, patch
            )
        except NotFound:
            return replace(result, absent_root=step.name)
        return result

    async def _verify(self, batch: StepBatch, step: Verify, result: StepResult) -> StepResult:
        try:
            found = await self._cluster.get(_root_kind(batch), batch.row.namespace, step.name)
        except NotFound:
            return replace(result, absent_root=step.name)
        if _owner(found) != batch.row.id:
            # Somebody else's of the same name: ours does not exist.
            return replace(result, absent_root=step.name)
        return result

    # --- removing ---
    async def _sweep(self, batch: StepBatch) -> None:
        for kind in ("ConfigMap", "Secret"):
            try:
                found = await self._cluster.get(kind, batch.row.namespace, batch.row.kube_name)
            except NotFound:
                continue
            if _owner(found) == batch.row.id:
                uid = str(found["metadata"]["uid"])
                await self._cluster.delete(kind, batch.row.namespace, batch.row.kube_name, uid=uid)

    async def _erase(self, batch: StepBatch) -> None:
        prefix = await sync_to_async(manifests.load_prefix)(batch.row)
        if prefix:
            await asyncio.to_thread(get_store().delete_prefix, prefix)


def _said(code: str, error: ClusterError) -> Reason:
    return reasons.make(code, detail=error.message)


def _owner(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get(labels.OWNER, ""))


def _root_kind(batch: StepBatch) -> str:
    return KINDS[batch.row.kind].lifecycle.root_kind


def _stub(batch: StepBatch) -> Object:
    """As much of the root as an ownerReference needs."""
    kind = get_kind(_root_kind(batch))
    meta = {"name": batch.row.root_name, "uid": batch.row.root_uid}
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta}


def _failed(result: StepResult, error: ClusterError) -> StepResult:
    # What will pass by itself is everybody's, and told by the banner; a refusal is this row's.
    will_pass = isinstance(error, Unavailable | TooManyRequests)
    return replace(
        result,
        error=error.message,
        trouble=reasons.NONE if will_pass else _said("change_refused", error),
        is_outage=isinstance(error, Unavailable),
        retry_after_s=error.retry_after_s if isinstance(error, TooManyRequests) else 0.0,
    )
