"""The object store: code bundles go in, archived logs and artifacts come out.

Two kinds with one surface (`store`): `s3` (any S3 server) and `folder` (a folder in HOMEPORT_HOME,
for one machine). `get_store` gives the one that the settings name.
"""

import functools
from pathlib import Path

from django.conf import settings

from portal.storage.folder import FolderStore
from portal.storage.s3 import S3Store
from portal.storage.store import Store


@functools.cache
def _s3(bucket: str, endpoint: str, region: str, pod_endpoint: str) -> S3Store:
    store = S3Store(bucket, endpoint, region, pod_endpoint)
    store.remove_stale()
    return store


@functools.cache
def _folder(root: Path, portal_url: str) -> FolderStore:
    store = FolderStore(root, portal_url)
    store.remove_stale()
    return store


def get_store() -> Store:
    """The store that the settings name."""
    if settings.S3_BUCKET:
        return _s3(
            settings.S3_BUCKET, settings.S3_ENDPOINT, settings.S3_REGION, settings.S3_POD_ENDPOINT
        )
    return _folder(settings.HOMEPORT_HOME / "store", settings.POD_PORTAL_URL)
