"""Asks the cluster what it would say to objects that are only tried, and keeps that for whoever asked.

Nothing is made (`dryRun=All`), and no place in the queue is taken. Whoever is killed in between has done
nothing: the next reconciler finds the question as it was.
"""

import asyncio
import copy
import logging
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from uuid import UUID

from django.db.models import QuerySet
from django.utils import timezone

from jobs.engine.looks import keep_looking
from jobs.kinds.manifests import with_owner
from jobs.leader.lease import Lease
from jobs.questions import DryRun
from jobs.rules import reasons
from jobs.rules.patterns import is_over_quota
from portal.cluster import labels
from portal.cluster.client import Cluster
from portal.cluster.errors import ClusterError, QuotaExceeded, TooManyRequests, Unavailable
from portal.cluster.manifests import Object

log = logging.getLogger(__name__)

_KEPT = timedelta(minutes=10)  # a question that has ended, or whose asker died
_CALLS_AT_ONCE = 8

Told = dict[str, str]


class DryRunsPass:
    """Answers what is asked, and forgets what nobody came back for."""

    def __init__(self, cluster: Cluster, lease: Lease) -> None:
        self._cluster = cluster
        self._lease = lease
        self._calls = asyncio.Semaphore(_CALLS_AT_ONCE)
        self.wanted = asyncio.Event()  # somebody may have asked

    async def run(self) -> None:
        """Until it is cancelled.

        Raises:
            LeaseLostError: another reconciler answers.
        """
        await keep_looking(self.run_once, self.wanted, "dry runs cannot be answered")

    async def run_once(self) -> None:
        """One look; what the cluster does not answer is asked again by the next one."""
        rows = DryRun.objects.filter(answer__isnull=True).order_by("asked_at")
        asked = [row async for row in rows]
        if not asked and not await _forgotten().aexists():
            return
        answers = await asyncio.gather(*(self._ask(row) for row in asked))
        told = {row.pk: one for row, one in zip(asked, answers, strict=True) if one is not None}
        await self._lease.commit(partial(_save, told))

    async def _ask(self, row: DryRun) -> list[Told] | None:
        """What the cluster says to each object; None: it did not answer."""
        try:
            objects = objects_of(row.documents, str(row.pk))
            return await asyncio.gather(*map(self._try, objects))
        except ClusterError as error:
            log.warning("a dry run is not answered: %s", error.message)
        except Exception:  # the named fence: one poisoned row stops no other
            log.exception("a dry run cannot be asked")
        return None

    async def _try(self, obj: Object) -> Told:
        about = {"kind": obj["kind"], "name": obj["metadata"]["name"]}
        async with self._calls:
            try:
                await self._cluster.try_create(obj)
            except (Unavailable, TooManyRequests):
                raise
            except ClusterError as error:
                is_later = isinstance(error, QuotaExceeded) and not is_over_quota(error.message)
                state = "queued" if is_later else "refused"
                return {**about, "state": state, "text": reasons.clip(error.message)}
        return {**about, "state": "accepted", "text": ""}


def objects_of(documents: Sequence[Object], owner_uid: str) -> list[Object]:
    """What is tried: all that would be made, as it would be sent, and of each role a pod.

    Limits, quotas and Pod Security look at pods, which only controllers make.

    Args:
        documents: as rendered, the root first.
        owner_uid: stands for the uid of the root.
    """
    root, *others = documents
    owner = {**root, "metadata": {**root["metadata"], "uid": owner_uid}}
    pods: dict[str, Object] = {}
    for document in documents:
        if template := document.get("spec", {}).get("template"):
            role = template["metadata"]["labels"][labels.ROLE]
            pods.setdefault(role, _pod(document["metadata"], template))
    return [copy.deepcopy(root), *(with_owner(one, owner) for one in others), *pods.values()]


def _pod(of: Object, template: Object) -> Object:
    about = {"name": f"{of['name']}-0", "namespace": of["namespace"]}
    meta = {**about, "labels": template["metadata"]["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": template["spec"]}


def _save(told: dict[UUID, list[Told]]) -> None:
    """Inside `Lease.commit`."""
    for pk, answer in told.items():
        DryRun.objects.filter(pk=pk).update(answer=answer)
    _forgotten().delete()


def _forgotten() -> QuerySet[DryRun]:
    return DryRun.objects.filter(asked_at__lt=timezone.now() - _KEPT)
