"""The downward API: fields and resources of a pod as text for variables and files. Pure.

Rules: pkg/fieldpath/fieldpath.go and pkg/api/v1/resource/helpers.go of Kubernetes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from onebox.node.client import Json
from onebox.quantity import Quantity, parse_quantity

_SUBSCRIPT = re.compile(r"^(metadata\.(?:annotations|labels))\['(.+)'\]$")


class DownwardError(ValueError):
    """A field or resource cannot be given; the message says which and why."""


@dataclass(frozen=True)
class PodView:
    """What a pod may learn of itself.

    Args:
        pod: the API object.
        pod_ip: None until the sandbox exists.
        allocatable: of the node, which stands in for limits that are not set.
    """

    pod: Json
    pod_ip: str | None
    host_ip: str
    allocatable: Mapping[str, str]


def field_text(view: PodView, path: str) -> str:
    """Give the text of a fieldRef.

    Raises:
        DownwardError: the path is not one that Kubernetes offers.
    """
    meta, spec = view.pod["metadata"], view.pod["spec"]
    subscript = _SUBSCRIPT.match(path)
    if subscript:
        values = meta.get(subscript[1].removeprefix("metadata.")) or {}
        return str(values.get(subscript[2], ""))
    simple = {
        "metadata.name": meta["name"],
        "metadata.namespace": meta["namespace"],
        "metadata.uid": meta["uid"],
        "metadata.labels": _lines(meta.get("labels")),
        "metadata.annotations": _lines(meta.get("annotations")),
        "spec.nodeName": spec.get("nodeName", ""),
        "spec.serviceAccountName": spec.get("serviceAccountName", ""),
        "status.hostIP": view.host_ip,
        "status.hostIPs": view.host_ip,
        "status.podIP": view.pod_ip or "",
        "status.podIPs": view.pod_ip or "",
    }
    if path not in simple:
        raise DownwardError(f"unsupported fieldPath: {path}")
    return str(simple[path])


def _lines(values: Mapping[str, str] | None) -> str:
    """Format labels or annotations as upstream does: sorted key="value" lines."""
    return "\n".join(f"{key}={_quote(values[key])}" for key in sorted(values)) if values else ""


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r") + '"'


def resource_text(view: PodView, ref: Json, own_container: Json | None) -> str:
    """Give the text of a resourceFieldRef, rounded up to the divisor.

    Args:
        own_container: the container that asks; used when the reference names none.

    Raises:
        DownwardError: unknown container or resource.
    """
    container = _named_container(view.pod, ref.get("containerName"), own_container)
    kind, _, resource = ref["resource"].partition(".")
    if kind not in ("limits", "requests") or not resource:
        raise DownwardError(f"unsupported container resource: {ref['resource']}")
    amount = _amount(container, kind, resource, view.allocatable)
    divisor = parse_quantity(str(ref.get("divisor") or "1"))
    if divisor.nanos <= 0:
        divisor = parse_quantity("1")
    return str(-(-amount.nanos // divisor.nanos))


def _amount(container: Json, kind: str, resource: str, allocatable: Mapping[str, str]) -> Quantity:
    text = ((container.get("resources") or {}).get(kind) or {}).get(resource)
    if text is None and kind == "limits":
        text = allocatable.get(resource)
    return parse_quantity(str(text if text is not None else "0"))


def _named_container(pod: Json, name: str | None, own: Json | None) -> Json:
    if not name:
        if own is None:
            raise DownwardError("a resourceFieldRef of a volume needs a containerName")
        return own
    spec = pod["spec"]
    for container in [*(spec.get("initContainers") or []), *spec["containers"]]:
        if container["name"] == name:
            return dict(container)
    raise DownwardError(f"container {name} not found")
