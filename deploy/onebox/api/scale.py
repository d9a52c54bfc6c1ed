"""The scale subresource of Deployments and ReplicaSets. Pure."""

from __future__ import annotations

from deploy.onebox.api.resources import Obj, Resource
from deploy.onebox.api.rules import fields
from deploy.onebox.api.status import invalid
from deploy.onebox.api.tables.cells import NONE, format_selector


def scale_of(obj: Obj) -> Obj:
    """Give the Scale of a workload."""
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    selector = format_selector(obj["spec"].get("selector"))
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "spec": {"replicas": obj["spec"].get("replicas", 0)},
        "status": {
            "replicas": obj.get("status", {}).get("replicas", 0),
            "selector": "" if selector == NONE else selector,
        },
    }


def read_scale(resource: Resource, name: str, scale: Obj) -> tuple[int, str | None, str | None]:
    """Read a Scale.

    Returns:
        replicas; resourceVersion and uid that it relies on, or None.

    Raises:
        StatusError: 422.
    """
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        cause = fields.invalid("spec.replicas", replicas, fields.NEGATIVE)
        raise invalid(resource, name, [cause])
    meta = scale.get("metadata") or {}
    return replicas, meta.get("resourceVersion") or None, meta.get("uid") or None
