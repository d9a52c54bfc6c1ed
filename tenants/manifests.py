"""The objects that a tenant is made of: from its row and the settings to Kubernetes documents.

Pure but for reading the settings; blocking (a few milliseconds), so called in a thread.
"""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

from portal import quantity
from portal.catalog import container_disk_text
from portal.cluster import manifests, resources
from portal.errors import ConfigurationError
from tenants.borrowing import borrowed
from tenants.models import Tenant
from tenants.record import record_text

QUOTA = LIMITS = ACCOUNT = "homeport"  # their names in each tenant's namespace
BOUNDARY = "homeport-boundary"
GATE = "homeport-gate"
DATA_VOLUME = "data"
LOG_VOLUME = "log"
# The oldest Kubernetes that Homeport supports; pinned, so that an upgrade of the cluster does not
# change what is allowed: https://kubernetes.io/docs/concepts/security/pod-security-admission/
POD_SECURITY_VERSION = "v1.33"
# Of notebooks and TensorBoards. Policies name it by number: the gate is a sidecar, and many network
# plugins find no names of ports there (projectcalico/calico#8881, kubernetes/kubernetes#125285).
GATE_PORT = 8888
# What is never the internet, whatever CLUSTER_CIDRS says; cloud services that trust whoever asks
# from a node are in it.
CLOSED_CIDRS = (
    "0.0.0.0/8",
    "100.64.0.0/10",  # between a provider and its customers; 100.100.100.200: metadata at Alibaba
    "127.0.0.0/8",
    "168.63.129.16/32",  # the host agent at Azure
    "169.254.0.0/16",  # link-local; 169.254.169.254: metadata, with the node's credentials
    "192.0.0.0/24",  # 192.0.0.192: metadata at Oracle
    "192.0.2.0/24",
    "192.88.99.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/128",
    "::1/128",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/23",
    "2001:db8::/32",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
)
# Resource name in a ResourceQuota -> our short name of it.
QUOTA_KEYS = {
    "requests.cpu": "cpu",
    "requests.memory": "memory",
    f"requests.{resources.GPU}": "gpu",
    "pods": "pods",
    "services.nodeports": "nodeports",
    "requests.storage": "storage",
}


@dataclass(frozen=True)
class RoleGrant:
    """What an account of Homeport's own may do in each tenant's namespace: a ClusterRole of
    `deploy/cluster`."""

    name: str
    role: str
    account: str
    account_namespace: str = "homeport"


# docs/cluster.md. Where an admin has not made these accounts, they name nobody.
ROLE_GRANTS = (
    RoleGrant("homeport-reconciler", "homeport-tenant", "reconciler"),
    RoleGrant("homeport-web", "homeport-tenant-logs", "web"),
)


@dataclass(frozen=True)
class EgressPeer:
    """Where pods may go besides the internet: addresses, or a namespace.

    Attributes:
        port: of the addresses; 0: any.
        labels: of the pods of the namespace that are meant, at that port; none: all of it.
    """

    cidr: str = ""
    port: int = 0
    namespace: str = ""
    labels: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Volume:
    name: str
    size: str


@dataclass(frozen=True)
class TenantManifest:
    """Variables of `tenant.yaml.j2`."""

    owner: str
    namespace: str
    record: str  # empty: of nobody
    quota_hard: tuple[tuple[str, str], ...]
    volumes: tuple[Volume, ...]
    storage_class: str
    portal_peers: tuple[EgressPeer, ...]
    gate_cidrs: tuple[str, ...]
    gate_doctor: bool  # whether Homeport's doctor may come to gates as browsers do
    closed_cidrs: tuple[str, ...]
    is_internet_open: bool
    disk: str  # that a container which says nothing may write to its node's
    role_grants: tuple[RoleGrant, ...] = ROLE_GRANTS
    pod_security_version: str = POD_SECURITY_VERSION
    quota_name: str = QUOTA
    limits_name: str = LIMITS
    account_name: str = ACCOUNT
    boundary_name: str = BOUNDARY
    gate_name: str = GATE
    gate_port: int = GATE_PORT


def quota_hard(tenant: Tenant, *, quota_closed: bool = False) -> dict[str, str]:
    """`spec.hard` of the tenant's ResourceQuota.

    Only `requests.` exists for GPUs: https://kubernetes.io/docs/concepts/policy/resource-quotas/

    Args:
        quota_closed: nothing may start: no pod and no NodePort while it is suspended, nothing but its
            volumes while it is being deleted.
    """
    hard = _full_quota(tenant)
    if not quota_closed:
        return hard
    is_leaving = tenant.desired != Tenant.Desired.SUSPENDED
    none = set(hard) - {"requests.storage"} if is_leaving else {"pods", "services.nodeports"}
    return {name: "0" if name in none else amount for name, amount in hard.items()}


def _full_quota(tenant: Tenant) -> dict[str, str]:
    beyond = borrowed(tenant)
    return {
        "pods": str(tenant.quota_pods + beyond["pods"]),
        "requests.cpu": quantity.cpu_text(tenant.quota_cpu_millicores + beyond["cpu"]),
        "requests.memory": quantity.memory_text(tenant.quota_memory_bytes + beyond["memory"]),
        f"requests.{resources.GPU}": str(tenant.quota_gpu_count + beyond["gpu"]),
        "requests.storage": quantity.memory_text(
            tenant.data_volume_bytes + tenant.log_volume_bytes
        ),
        "services.nodeports": str(tenant.quota_nodeports),
        "services.loadbalancers": "0",
    }


def observed(resources: dict[str, str]) -> dict[str, int]:
    """`status.hard` or `status.used` of a quota under our names, in our units; others left out."""
    return {
        short: (quantity.cpu_millicores if short == "cpu" else quantity.memory_bytes)(
            resources[name]
        )
        for name, short in QUOTA_KEYS.items()
        if name in resources
    }


def networks(name: str, texts: Iterable[str]) -> tuple[str, ...]:
    """CIDRs in canonical form, in order.

    Raises:
        ConfigurationError: one is no network; the text names the setting.
    """
    found = []
    for text in texts:
        try:
            found.append(str(ipaddress.ip_network(text, strict=False)))
        except ValueError as error:
            raise ConfigurationError(
                f"{name}: {text!r} is no network; write for example 10.0.0.0/8"
            ) from error
    return tuple(found)


def peer_of(url: str) -> EgressPeer | None:
    """What an egress rule must name so that pods reach a URL; None when the internet rule will do.

    A Service (`http://NAME.NAMESPACE.svc...`) is reached at its pods' own ports after translation,
    so its whole namespace is named.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    labels = host.split(".")
    if len(labels) >= 3 and labels[2] == "svc":
        return EgressPeer(namespace=labels[1])
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return EgressPeer(cidr=f"{address}/{address.max_prefixlen}", port=port)


def portal_peer() -> EgressPeer | None:
    """Where pods find the portal.

    A Service's whole namespace may hold a database as well, so with POD_PORTAL_SELECTOR its pods of
    these labels alone are named, at the port on which they listen for pods.
    """
    peer = peer_of(settings.POD_PORTAL_URL)
    if peer is None or not peer.namespace or not settings.POD_PORTAL_SELECTOR:
        return peer
    labels = tuple(sorted(settings.POD_PORTAL_SELECTOR.items()))
    return replace(peer, labels=labels, port=settings.POD_PORT)


def closed_networks(cidrs: Iterable[str]) -> tuple[str, ...]:
    """What the internet rule leaves out: IPv4 only, as its range is, and no range twice."""
    return tuple(
        dict.fromkeys(network for network in (*cidrs, *CLOSED_CIDRS) if ":" not in network)
    )


def tenant_manifest(tenant: Tenant, *, quota_closed: bool = False) -> TenantManifest:
    """The template's variables for one tenant; `quota_closed`: see `quota_hard`.

    Raises:
        ConfigurationError: a setting holds what is no network.
    """
    closed = closed_networks(networks("CLUSTER_CIDRS", settings.CLUSTER_CIDRS))
    stores = (settings.S3_ENDPOINT, settings.S3_POD_ENDPOINT)
    opened = networks("POD_EGRESS_CIDRS", settings.POD_EGRESS_CIDRS)
    peers = (
        portal_peer(),
        *(peer_of(url) for url in stores if url),
        *(EgressPeer(cidr=cidr) for cidr in opened),
    )
    return TenantManifest(
        owner=str(tenant.pk),
        namespace=tenant.namespace,
        record=record_text(tenant) if tenant.owner_id else "",
        quota_hard=tuple(quota_hard(tenant, quota_closed=quota_closed).items()),
        volumes=(
            Volume(DATA_VOLUME, quantity.memory_text(tenant.data_volume_bytes)),
            Volume(LOG_VOLUME, quantity.memory_text(tenant.log_volume_bytes)),
        ),
        storage_class=settings.STORAGE_CLASS,
        portal_peers=tuple(dict.fromkeys(peer for peer in peers if peer is not None)),
        gate_cidrs=(
            *networks("NODE_CIDRS", settings.NODE_CIDRS),
            *networks("CLIENT_CIDRS", settings.CLIENT_CIDRS),
        ),
        gate_doctor=bool(tenant.owner_id) and tenant.owner.username == settings.DOCTOR_USER,
        closed_cidrs=closed,
        # An `except` must be smaller than its range, so closing everything is no rule at all.
        is_internet_open="0.0.0.0/0" not in closed,
        disk=container_disk_text(),
    )


def render_tenant(tenant: Tenant, *, quota_closed: bool = False) -> list[dict[str, Any]]:
    """All objects of a tenant, in order of creation; the Namespace is first.

    Args:
        quota_closed: see `quota_hard`.

    Raises:
        ConfigurationError: a setting cannot be used; the text names it.
    """
    return manifests.render("tenant.yaml.j2", tenant_manifest(tenant, quota_closed=quota_closed))
