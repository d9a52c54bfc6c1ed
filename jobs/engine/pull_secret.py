"""The Secret by which people's pods pull images from the site's registry, in each of their namespaces."""

import asyncio
from pathlib import Path

from django.conf import settings
from django.utils.crypto import salted_hmac

from jobs.kinds.manifests import PULL_SECRET
from portal.cluster import labels
from portal.cluster.client import Cluster
from portal.cluster.errors import Conflict
from portal.cluster.manifests import Object, spec_hash


class PullSecret:
    """Brings it where pods are about to be made."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def ensure(self, namespace: str) -> None:
        """Makes it where it is missing, and anew where PORTAL_PULL_SECRET_FILE has changed since.

        Raises:
            ClusterError: the cluster does not take it.
            OSError: the file cannot be read.
        """
        if not settings.PORTAL_PULL_SECRET_FILE:
            return
        content = await asyncio.to_thread(Path(settings.PORTAL_PULL_SECRET_FILE).read_text)
        wanted = _document(namespace, content)
        try:
            await self._cluster.create_or_adopt(wanted)
        except Conflict as error:
            if error.reason != "OtherSpec":
                raise
            found = await self._cluster.get("Secret", namespace, PULL_SECRET)
            uid = found["metadata"]["uid"]
            await self._cluster.delete("Secret", namespace, PULL_SECRET, uid=uid)
            await self._cluster.create_or_adopt(wanted)


def _document(namespace: str, content: str) -> Object:
    marks = {
        labels.MANAGED_BY: labels.MANAGER,
        labels.OWNER: namespace,  # of no workload: it stays until the namespace goes
        labels.SEAL: salted_hmac("homeport.pull", content, algorithm="sha256").hexdigest()[:16],
    }
    meta: Object = {"name": PULL_SECRET, "namespace": namespace, "labels": marks}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson"}
    marked = {**meta, "annotations": {labels.SPEC_HASH: spec_hash({**kind, "metadata": meta})}}
    return {**kind, "metadata": marked, "stringData": {".dockerconfigjson": content}}
