"""What the manifests of all kinds have in common. Pure, except for reading settings and names of secrets."""

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.conf import settings

from jobs.models import UserSecret
from portal import quantity
from portal.catalog import get_catalog
from portal.cluster import labels, names
from portal.cluster.manifests import Object, spec_hash
from portal.pools import DEFAULT, HOSTNAME, Pool, get_pool, node_terms
from tenants.manifests import ACCOUNT
from tenants.models import Tenant

# In each namespace, of PORTAL_PULL_SECRET_FILE and POD_AUTHORITIES_FILE.
PULL_SECRET = "homeport-pull"
AUTHORITIES = "homeport-authorities"
PREFERRED_MOST = 20  # names of nodes; each is a term of its own in every pod
ATTEMPTS_MAX = 999  # names count attempts up to here, then from 1 again


@dataclass(frozen=True)
class PodSecrets:
    """Secrets of the person that pods are given, by the names of their objects in the cluster.

    Attributes:
        pull: by which images are pulled.
        env: whose values are variables of the program.
        files: name of the secret -> its object; read-only at `/secrets/NAME`.
        git: what `fetch` alone is given; empty: none.
        variables: names of those variables, whose values are shown to nobody.
    """

    pull: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    git: str = ""
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class PodPlace:
    """What brings a pod to the nodes of its pool, and there beside others of its workload or away from them.

    Attributes:
        terms: of required node affinity, see `pools.node_terms`; empty: there are no pools.
        placement: any, pack or spread; the two go by `topology_key`.
    """

    terms: Sequence[Sequence[Mapping[str, Any]]] = ()
    tolerations: Sequence[Mapping[str, str]] = ()
    scheduler_name: str = ""
    placement: str = "any"
    topology_key: str = HOSTNAME


@dataclass(frozen=True)
class PodSettings:
    """What all pods of a person have in common in this installation; limits in bytes.

    Attributes:
        disk: as much as each container may write to its node's disk, as Kubernetes writes it.
        account: ServiceAccount of the tenant's namespace; it may do nothing and has no token.
        node_selector: labels of the nodes that they run on.
        avoided_nodes: names of nodes that are kept for others.
        preferred_nodes: names of nodes where admission found room for them.
        known_pools: those of the catalog; none where it does not matter on which nodes they run.
        pools: role -> the name of its pool; what is not named is in `default`.
        secrets: those of the person, as they are at this moment.
        authorities: name of the ConfigMap of those that pods are given to trust; empty: none.
    """

    portal_url: str
    portal_image: str
    uid: int
    gid: int
    log_archive_bytes: int
    artifacts_bytes: int
    bundle_bytes: int
    disk: str
    account: str = ACCOUNT
    node_selector: Mapping[str, str] = field(default_factory=dict)
    avoided_nodes: tuple[str, ...] = ()
    preferred_nodes: tuple[str, ...] = ()
    known_pools: tuple[Pool, ...] = ()
    pools: Mapping[str, str] = field(default_factory=dict)
    secrets: PodSecrets = field(default_factory=PodSecrets)
    authorities: str = ""

    def place_of(self, role: str, placement: str = "any") -> PodPlace:
        """Where the pods of a role run."""
        pool = get_pool(self.pools.get(role, DEFAULT), self.known_pools)
        return PodPlace(
            node_terms(pool, self.known_pools),
            [one.document for one in pool.tolerations],
            pool.scheduler_name,
            placement,
            pool.topology_key,
        )


@dataclass(frozen=True, kw_only=True)
class Grant:
    """What an attempt was given when it was given room.

    Attributes:
        deadline_s: seconds that are left of its deadline; None: it has none.
        begins_at: now, aware; None: it does not begin, but is only shown.
        avoided_nodes: names of nodes that are kept for others.
        found_nodes: names of nodes where there was room for it; empty: nobody knows.
        pools: role -> the name of its pool; what is not named is in `default`.
    """

    deadline_s: int | None = None
    begins_at: datetime | None = None
    avoided_nodes: Collection[str] = ()
    found_nodes: Collection[str] = ()
    pools: Mapping[str, str] = field(default_factory=dict)

    @property
    def deadline_at(self) -> datetime | None:
        """Until then it may run at least."""
        if self.begins_at is None or self.deadline_s is None:
            return None
        return self.begins_at + timedelta(seconds=self.deadline_s)


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


def _pod_secrets(tenant: Tenant, uses: Mapping[str, str], git: str) -> PodSecrets:
    """Each secret in its latest revision. One query."""
    rows = UserSecret.objects.filter(tenant=tenant, is_deleted=False).order_by("name")
    latest = {row.name: row for row in rows}

    def of(name: str) -> str:
        # Of what has been deleted since there is no such object, which is told before pods are made.
        return latest[name].object_name if name in latest else names.user_secret_name(name, 0)

    of_env = [name for name, use in uses.items() if use == "env"]
    return PodSecrets(
        pull=tuple(row.object_name for row in rows if row.kind == UserSecret.Kind.REGISTRY),
        env=tuple(map(of, of_env)),
        files={name: of(name) for name, use in uses.items() if use == "files"},
        git=of(git) if git else "",
        variables=tuple(
            sorted({key for name in of_env if name in latest for key in latest[name].keys})
        ),
    )


def named_secrets(documents: Iterable[Object], *, besides: str) -> set[str]:
    """Names of the Secrets without which the pods of these documents do not start.

    Args:
        besides: one that is created with them.
    """
    found = set()
    for document in documents:
        pod = document.get("spec", {}).get("template", {}).get("spec", {})
        found |= {one["secret"]["secretName"] for one in pod.get("volumes", ()) if "secret" in one}
        for container in pod.get("containers", ()):
            found |= {one["secretRef"]["name"] for one in container.get("envFrom", ())}
    return found - {besides}


def pod_settings(
    tenant: Tenant | None = None,
    uses: Mapping[str, str] | None = None,
    git: str = "",
    *,
    grant: Grant | None = None,
) -> PodSettings:
    """The settings and secrets as they are now. One query.

    Args:
        tenant: whose pods; None: nobody's.
        uses: name of a secret -> `env` or `files`; None: the pods need none.
        git: name of the secret that `fetch` needs for the code; empty: none.
        grant: of their attempt; None: they are of none, and may run on any node.
    """
    catalog = get_catalog()
    secrets = _pod_secrets(tenant, uses or {}, git) if tenant else PodSecrets()
    if settings.PORTAL_PULL_SECRET_FILE:
        secrets = replace(secrets, pull=(PULL_SECRET, *secrets.pull))
    return PodSettings(
        portal_url=settings.POD_PORTAL_URL,
        portal_image=settings.PORTAL_IMAGE or catalog.portal_image,
        uid=catalog.run_as_uid,
        gid=catalog.run_as_gid,
        log_archive_bytes=settings.LOG_ARCHIVE_MAX_BYTES,
        artifacts_bytes=settings.ARTIFACTS_MAX_BYTES,
        bundle_bytes=settings.BUNDLE_MAX_BYTES,
        disk=catalog.container_disk_text,
        node_selector=settings.NODE_SELECTOR,
        avoided_nodes=() if grant is None else tuple(grant.avoided_nodes),
        preferred_nodes=() if grant is None else tuple(grant.found_nodes)[:PREFERRED_MOST],
        known_pools=() if grant is None else catalog.pools,
        pools={} if grant is None else grant.pools,
        secrets=secrets,
        authorities=AUTHORITIES if settings.POD_AUTHORITIES_FILE else "",
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
