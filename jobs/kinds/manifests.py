"""What the manifests of all kinds have in common. Pure, except for reading settings."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings

from portal import quantity
from portal.catalog import get_catalog
from portal.cluster import labels, names
from portal.cluster.manifests import Object, spec_hash
from tenants.manifests import ACCOUNT

ATTEMPTS_MAX = 999  # names count attempts up to here, then from 1 again


@dataclass(frozen=True)
class PodSettings:
    """What all pods have in common in this installation; limits in bytes.

    Attributes:
        account: ServiceAccount of the tenant's namespace; it may do nothing and has no token.
    """

    portal_url: str
    portal_image: str
    uid: int
    gid: int
    log_archive_bytes: int
    artifacts_bytes: int
    bundle_bytes: int
    account: str = ACCOUNT


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """Variables that the templates of all kinds have.

    Attributes:
        owner: id of the row.
        kube_name: NAME of the objects of the attempt.
        labels: of all that is made.
    """

    owner: str
    namespace: str
    kube_name: str
    template_version: str
    labels: Mapping[str, str]
    pods: PodSettings


def kube_name(name: str, workload_id: UUID, attempt: int) -> str:
    """NAME of the objects of an attempt; another one's than those of the attempt before."""
    return names.job_name(name, workload_id, (attempt - 1) % ATTEMPTS_MAX + 1)


def amounts(cpu_millicores: int, memory_bytes: int, gpu_count: int) -> dict[str, str]:
    """What a container asks for: its requests and limits alike."""
    asked = {
        "cpu": quantity.cpu_text(cpu_millicores),
        "memory": quantity.memory_text(memory_bytes),
    }
    return {**asked, "nvidia.com/gpu": str(gpu_count)} if gpu_count else asked


def pod_settings() -> PodSettings:
    """The settings as they are now."""
    catalog = get_catalog()
    return PodSettings(
        portal_url=settings.POD_PORTAL_URL,
        portal_image=catalog.portal_image,
        uid=catalog.run_as_uid,
        gid=catalog.run_as_gid,
        log_archive_bytes=settings.LOG_ARCHIVE_MAX_BYTES,
        artifacts_bytes=settings.ARTIFACTS_MAX_BYTES,
        bundle_bytes=settings.BUNDLE_MAX_BYTES,
    )


def with_owner(document: Object, root: Object) -> Object:
    """A copy of a stored document that goes when the root goes.

    The spec hash is taken anew over the owner, so that what an earlier root owned (and the cluster
    is about to remove) is never adopted.
    """
    sent = copy.deepcopy(document)
    sent["metadata"]["ownerReferences"] = [
        {
            "apiVersion": root["apiVersion"],
            "kind": root["kind"],
            "name": root["metadata"]["name"],
            "uid": root["metadata"]["uid"],
            "controller": False,
            # The root goes without waiting for what it owns.
            "blockOwnerDeletion": False,
        }
    ]
    sent["metadata"]["annotations"][labels.SPEC_HASH] = spec_hash(sent)
    return sent
