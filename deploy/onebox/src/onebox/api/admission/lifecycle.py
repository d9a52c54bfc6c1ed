"""Namespace lifecycle: nothing new where the namespace is missing or ending.

https://github.com/kubernetes/apiserver/blob/v0.36.3/pkg/admission/plugin/namespace/lifecycle/admission.go
"""

from __future__ import annotations

from onebox.api.resources import Obj, Resource, resource_named
from onebox.api.status import StatusError, forbidden, not_found

IMMORTAL = frozenset({"default", "kube-node-lease", "kube-public", "kube-system"})


def check_namespace(resource: Resource, name: str, namespace: str, found: Obj | None) -> None:
    """Check that a namespace takes new objects.

    Raises:
        StatusError: 404 it does not exist, 403 it is ending.
    """
    if found is None:
        raise not_found(resource_named("namespaces"), namespace)
    ending = found.get("status", {}).get("phase") == "Terminating"
    if ending or "deletionTimestamp" in found["metadata"]:
        raise _ending(resource, name, namespace)


def _ending(resource: Resource, name: str, namespace: str) -> StatusError:
    cause = {
        "reason": "NamespaceTerminating",
        "message": f"namespace {namespace} is being terminated",
        "field": "metadata.namespace",
    }
    text = f"unable to create new content in namespace {namespace} because it is being terminated"
    return forbidden(resource, name, text, [cause])


def check_deletion(resource: Resource, name: str) -> None:
    """Check that a namespace may go.

    Raises:
        StatusError: 403 for those that the cluster itself lives in.
    """
    if resource.plural == "namespaces" and name in IMMORTAL:
        raise forbidden(resource, name, "this namespace may not be deleted")
