"""Tables: the form in which kubectl wants lists, with upstream's columns.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/printers/internalversion/printers.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from onebox.api.resources import Obj
from onebox.api.tables import cluster, pods, storage, workloads
from onebox.api.tables.cells import Cell, Column

_Row = Callable[[Obj, datetime], list[Cell]]

_PRINTERS: dict[str, tuple[tuple[Column, ...], _Row]] = {
    "clusterrolebindings": (cluster.BINDING, cluster.binding_row),
    "configmaps": (cluster.CONFIG_MAP, cluster.config_map_row),
    "deployments": (workloads.DEPLOYMENT, workloads.deployment_row),
    "endpointslices": (workloads.ENDPOINT_SLICE, workloads.endpoint_slice_row),
    "events": (cluster.EVENT, cluster.event_row),
    "jobs": (workloads.JOB, workloads.job_row),
    "leases": (cluster.LEASE, cluster.lease_row),
    "namespaces": (cluster.NAMESPACE, cluster.namespace_row),
    "networkpolicies": (cluster.POLICY, cluster.policy_row),
    "nodes": (cluster.NODE, cluster.node_row),
    "persistentvolumeclaims": (storage.CLAIM, storage.claim_row),
    "persistentvolumes": (storage.VOLUME, storage.volume_row),
    "pods": (pods.COLUMNS, pods.row),
    "priorityclasses": (cluster.PRIORITY, cluster.priority_row),
    "replicasets": (workloads.REPLICASET, workloads.replicaset_row),
    "resourcequotas": (cluster.QUOTA, cluster.quota_row),
    "rolebindings": (cluster.BINDING, cluster.binding_row),
    "secrets": (cluster.SECRET, cluster.secret_row),
    "serviceaccounts": (cluster.PLAIN, cluster.plain_row),
    "services": (workloads.SERVICE, workloads.service_row),
    "storageclasses": (storage.CLASS, storage.class_row),
}
_DEFAULT = (cluster.DEFAULT, cluster.default_row)


@dataclass(frozen=True, slots=True)
class TableStyle:
    """How a client wants its table.

    Attributes:
        version: of meta.k8s.io: "v1" or "v1beta1".
        include: what each row carries of its object: "None", "Metadata" or "Object".
    """

    version: str = "v1"
    include: str = "Metadata"


def table(plural: str, objects: Iterable[Obj], meta: Obj, now: datetime, style: TableStyle) -> Obj:
    """Make a Table.

    Args:
        objects: stored objects (events as core events).
        meta: the ListMeta: resourceVersion, continue.
    """
    columns, row = _PRINTERS.get(plural, _DEFAULT)
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{style.version}",
        "metadata": meta,
        "columnDefinitions": [column.body() for column in columns],
        "rows": [{"cells": row(obj, now), **_object(obj, style)} for obj in objects],
    }


def _object(obj: Obj, style: TableStyle) -> Obj:
    if style.include == "None":
        return {"object": None}
    if style.include == "Object":
        return {"object": obj}
    return {"object": partial(obj, style.version)}


def partial(obj: Obj, version: str = "v1") -> Obj:
    """Give the metadata of an object alone."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj["metadata"],
    }
