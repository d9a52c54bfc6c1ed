"""Which fields are never owned, and what an object of a kind has before anything is set. Pure."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from onebox.api.managed.fieldset import Tree, union
from onebox.api.managed.fieldset import path_set as _path
from onebox.api.resources import Obj, Resource

_SERVER_FIELDS = (
    "name",
    "namespace",
    "creationTimestamp",
    "selfLink",
    "uid",
    "clusterName",
    "generation",
    "managedFields",
    "resourceVersion",
)

STRIPPED: Tree = {
    "f:apiVersion": {},
    "f:kind": {},
    "f:metadata": {".": {}, **{f"f:{field}": {} for field in _SERVER_FIELDS}},
}
"""Fields that identify an object, or that the server sets: nobody owns them."""

_WITH_STATUS = _path(("f:status",))
_WITH_SPEC = _path(("f:spec",))
_IN_STATUS_WRITES: dict[str, Tree] = {
    "deployments": union(_WITH_SPEC, _path(("f:metadata", "f:labels"))),
    "pods": union(
        _WITH_SPEC,
        {"f:metadata": {"f:deletionTimestamp": {}, "f:ownerReferences": {}}},
    ),
}


def reset_fields(resource: Resource, subresource: str | None) -> Tree:
    """Give what a write leaves alone whatever the client sends, so that it is not owned either."""
    if not resource.has_status:
        return {}
    if subresource == "status":
        return _IN_STATUS_WRITES.get(resource.plural, _WITH_SPEC)
    return _WITH_STATUS


_TEMPLATE: Obj = {"metadata": {}, "spec": {"containers": None}}
_ROLE_REF: Obj = {"apiGroup": "", "kind": "", "name": ""}
_NODE_INFO = (
    "machineID",
    "systemUUID",
    "bootID",
    "kernelVersion",
    "osImage",
    "containerRuntimeVersion",
    "kubeletVersion",
    "kubeProxyVersion",
    "operatingSystem",
    "architecture",
)
# Go writes structs and fields without "omitempty" even when nothing was set: these parts of an
# object are nobody's doing.
_ZERO: dict[str, Obj] = {
    "clusterrolebindings": {"roleRef": _ROLE_REF},
    "clusterroles": {"rules": None},
    "deployments": {
        "spec": {"selector": None, "template": _TEMPLATE, "strategy": {}},
        "status": {},
    },
    "endpointslices": {"addressType": "", "endpoints": None, "ports": None},
    "events": {
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    },
    "jobs": {"spec": {"template": _TEMPLATE}, "status": {}},
    "leases": {"spec": {}},
    "limitranges": {"spec": {"limits": None}},
    "namespaces": {"spec": {}, "status": {}},
    "networkpolicies": {"spec": {"podSelector": {}}},
    "nodes": {
        "spec": {},
        "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": dict.fromkeys(_NODE_INFO, ""),
        },
    },
    "persistentvolumeclaims": {"spec": {"resources": {}}, "status": {}},
    "persistentvolumes": {"spec": {}, "status": {}},
    "pods": {"spec": {"containers": None}, "status": {}},
    "priorityclasses": {"value": 0},
    "replicasets": {
        "spec": {"selector": None, "template": _TEMPLATE},
        "status": {"replicas": 0},
    },
    "resourcequotas": {"spec": {}, "status": {}},
    "rolebindings": {"roleRef": _ROLE_REF},
    "roles": {"rules": None},
    "services": {"spec": {}, "status": {"loadBalancer": {}}},
    "storageclasses": {"provisioner": ""},
}


@lru_cache(maxsize=64)
def zero_object(resource: Resource) -> Any:
    """Give an object of a kind with nothing set; it is shared: read it only."""
    parts = _ZERO.get(resource.plural, {})
    head = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": {}}
    return {**head, **parts}
