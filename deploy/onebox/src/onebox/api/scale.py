"""The scale subresource of Deployments and ReplicaSets. Pure."""

from __future__ import annotations

from onebox.api.resources import Obj, Resource
from onebox.api.rules import fields
from onebox.api.status import bad_request, invalid
from onebox.api.tables.cells import NONE, format_selector

SCALE = Resource("autoscaling", "v1", "scales", "Scale")
SCALE_VERSION = SCALE.api_version


def scale_of(obj: Obj) -> Obj:
    """Give the Scale of a workload."""
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    selector = format_selector(obj["spec"].get("selector"))
    return {
        "kind": "Scale",
        "apiVersion": SCALE_VERSION,
        "metadata": {key: meta[key] for key in kept if key in meta},
        # Go leaves a zero out.
        "spec": {"replicas": obj["spec"]["replicas"]} if obj["spec"].get("replicas") else {},
        "status": {
            "replicas": obj.get("status", {}).get("replicas", 0),
            "selector": "" if selector == NONE else selector,
        },
    }


def scale_config(resource: Resource, config: Obj) -> Obj:
    """Give what an applied Scale says of its workload.

    Raises:
        StatusError: 400, it is no Scale.
    """
    given = (config.get("apiVersion"), config.get("kind"))
    if given != (SCALE_VERSION, "Scale"):
        group, _slash, version = str(given[0] or "").rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={given[1] or ''}")
    spec = config.get("spec") or {}
    kept = {"replicas": spec["replicas"]} if isinstance(spec, dict) and "replicas" in spec else {}
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "metadata": config.get("metadata") or {},
        "spec": kept,
    }


def read_scale(name: str, scale: Obj) -> tuple[int, str | None, str | None]:
    """Read a Scale.

    Returns:
        replicas; resourceVersion and uid that it relies on, or None.

    Raises:
        StatusError: 422.
    """
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        cause = fields.invalid("spec.replicas", replicas, fields.NEGATIVE)
        raise invalid(SCALE, name, [cause])
    meta = scale.get("metadata") or {}
    return replicas, meta.get("resourceVersion") or None, meta.get("uid") or None
