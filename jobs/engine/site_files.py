"""What each namespace of people has of the installation's files: logins of registries, authorities."""

import asyncio
from pathlib import Path

from django.conf import settings
from django.utils.crypto import salted_hmac

from jobs.kinds.manifests import AUTHORITIES, PULL_SECRET
from portal.authorities import read_authorities
from portal.cluster import labels
from portal.cluster.client import Cluster
from portal.cluster.errors import Conflict
from portal.cluster.manifests import Object, spec_hash


class SiteFiles:
    """Brings them where pods are about to be made."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def ensure(self, namespace: str) -> None:
        """All of them; see below."""
        await self.ensure_pull_secret(namespace)
        await self.ensure_authorities(namespace)

    async def ensure_pull_secret(self, namespace: str) -> None:
        """Makes the Secret of PORTAL_PULL_SECRET_FILE where it is missing, and anew where the file has changed.

        Raises:
            ClusterError: the cluster does not take it.
            OSError: the file cannot be read.
        """
        if settings.PORTAL_PULL_SECRET_FILE:
            content = await asyncio.to_thread(Path(settings.PORTAL_PULL_SECRET_FILE).read_text)
            await self._renew(_logins(namespace, content))

    async def ensure_authorities(self, namespace: str) -> None:
        """Makes the ConfigMap of POD_AUTHORITIES_FILE where it is missing, and anew where the file has changed.

        Raises:
            ClusterError: the cluster does not take it.
            ConfigurationError: the file cannot be used; what is there stays.
        """
        if settings.POD_AUTHORITIES_FILE:
            content = await asyncio.to_thread(read_authorities, settings.POD_AUTHORITIES_FILE)
            await self._renew(_authorities(namespace, content))

    async def _renew(self, wanted: Object) -> None:
        """Makes an object, or anew what we made of another content."""
        try:
            await self._cluster.create_or_adopt(wanted)
        except Conflict as error:
            if error.reason != "OtherSpec":
                raise
            kind, meta = wanted["kind"], wanted["metadata"]
            found = await self._cluster.get(kind, meta["namespace"], meta["name"])
            uid = found["metadata"]["uid"]
            await self._cluster.delete(kind, meta["namespace"], meta["name"], uid=uid)
            await self._cluster.create_or_adopt(wanted)


def _logins(namespace: str, content: str) -> Object:
    seal = salted_hmac("homeport.pull", content, algorithm="sha256").hexdigest()[:16]
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/dockerconfigjson"}
    meta: Object = {"name": PULL_SECRET, "namespace": namespace, "labels": _labels(namespace)}
    meta["labels"][labels.SEAL] = seal
    # Not of the content, for a digest of it would lie open.
    return {**_marked({**kind, "metadata": meta}), "stringData": {".dockerconfigjson": content}}


def _authorities(namespace: str, content: str) -> Object:
    meta = {"name": AUTHORITIES, "namespace": namespace, "labels": _labels(namespace)}
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    return _marked({**kind, "metadata": meta, "data": {"authorities.pem": content}})


def _labels(namespace: str) -> dict[str, str]:
    # Of no workload: it stays until the namespace goes.
    return {labels.MANAGED_BY: labels.MANAGER, labels.OWNER: namespace}


def _marked(document: Object) -> Object:
    annotations = {labels.SPEC_HASH: spec_hash(document)}
    return {**document, "metadata": {**document["metadata"], "annotations": annotations}}
