"""The EndpointSlice controller: which pods stand behind a Service, on which ports.

https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/ ; rules of
k8s.io/endpointslice. One slice per Service, or one for each set of port numbers where pods of
one Service resolve a named target port differently. Slices are not split by size.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onebox.api.controllers.matching import has_labels
from onebox.api.controllers.objects import (
    Key,
    controller_reference,
    is_controlled_by,
    is_deleting,
    key_of,
    labels_of,
    name_of,
    namespace_of,
    owners_of,
    spec_of,
    status_of,
    uid_of,
)
from onebox.api.controllers.podstate import is_ready, is_terminal
from onebox.api.controllers.runtime import Controller
from onebox.api.resources import Obj
from onebox.api.store import clone

SERVICE_NAME = "kubernetes.io/service-name"
MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
MANAGER = "endpointslice-controller.k8s.io"
HEADLESS = "service.kubernetes.io/headless"


def is_selected(service: Obj, pod: Obj) -> bool:
    """True if the pod belongs to the Service and has an address; readiness does not matter."""
    selector = spec_of(service).get("selector")
    if not selector or is_terminal(pod) or not status_of(pod).get("podIP"):
        return False
    return has_labels(labels_of(pod), selector)


def render_endpoint(service: Obj, pod: Obj) -> Obj:
    """Describe one pod as an endpoint."""
    terminating, serving = is_deleting(pod), is_ready(pod)
    unready_too = bool(spec_of(service).get("publishNotReadyAddresses"))
    endpoint: Obj = {
        "addresses": [status_of(pod)["podIP"]],
        "conditions": {
            "ready": unready_too or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "targetRef": {
            "kind": "Pod",
            "namespace": namespace_of(pod),
            "name": name_of(pod),
            "uid": uid_of(pod),
        },
    }
    if spec_of(pod).get("nodeName"):
        endpoint["nodeName"] = spec_of(pod)["nodeName"]
    if spec_of(pod).get("hostname") and spec_of(pod).get("subdomain") == name_of(service):
        endpoint["hostname"] = spec_of(pod)["hostname"]
    return endpoint


def resolve_ports(service: Obj, pod: Obj) -> list[Obj]:
    """The Service's ports as numbers of this pod; ports that the pod does not name are left out."""
    ports = []
    for port in spec_of(service).get("ports") or ():
        number = _target_number(port, pod)
        if number is None:
            continue
        resolved = {
            "name": port.get("name") or "",
            "port": number,
            "protocol": port.get("protocol") or "TCP",
        }
        if port.get("appProtocol"):
            resolved["appProtocol"] = port["appProtocol"]
        ports.append(resolved)
    return ports


def _target_number(port: Obj, pod: Obj) -> int | None:
    target = port.get("targetPort")
    if target in (None, "", 0):
        return int(port["port"])
    if isinstance(target, int) or str(target).isdecimal():
        return int(target)
    sidecars = [
        c for c in spec_of(pod).get("initContainers") or () if c.get("restartPolicy") == "Always"
    ]
    for container in [*sidecars, *(spec_of(pod).get("containers") or ())]:
        for candidate in container.get("ports") or ():
            same_protocol = (candidate.get("protocol") or "TCP") == (port.get("protocol") or "TCP")
            if candidate.get("name") == target and same_protocol:
                return int(candidate["containerPort"])
    return None


def render_slices(service: Obj, pods: Sequence[Obj]) -> list[Obj]:
    """Describe all slices of a Service; each has `ports` and `endpoints`, in a stable order."""
    groups: dict[str, Obj] = {}
    for pod in pods:
        if not is_selected(service, pod):
            continue
        ports = resolve_ports(service, pod)
        group = groups.setdefault(repr(ports), {"ports": ports, "endpoints": []})
        group["endpoints"].append(render_endpoint(service, pod))
    if not groups:
        return [{"ports": [], "endpoints": []}]
    return [groups[key] for key in sorted(groups)]


def slice_labels(service: Obj) -> dict[str, str]:
    """The labels of a Service's slices: its own, and those that say whose they are."""
    labels = {**labels_of(service), SERVICE_NAME: name_of(service), MANAGED_BY: MANAGER}
    if spec_of(service).get("clusterIP") == "None":
        labels[HEADLESS] = ""
    return labels


class EndpointSliceController(Controller):
    """Keeps the slices of Services that have a selector. Keys are (namespace, Service)."""

    name = "endpointslice-controller"
    kinds = ("services", "pods", "endpointslices")

    def keys(self, event: str, plural: str, obj: Obj) -> Iterable[Key]:
        """A Service wakes itself, a slice its Service, a pod all Services of its namespace."""
        if plural == "services":
            return (key_of(obj),)
        if plural == "endpointslices":
            labels = labels_of(obj)
            ours = labels.get(MANAGED_BY) == MANAGER and SERVICE_NAME in labels
            return ((namespace_of(obj), labels[SERVICE_NAME]),) if ours else ()
        if not status_of(obj).get("podIP"):
            return ()
        # All, because a change of the pod's labels also touches the Service that it leaves.
        return [key_of(s) for s in self.api.list("services", namespace_of(obj))]

    def sync(self, key: Key) -> float | None:
        """Bring the slices of one Service in order."""
        namespace, name = key
        service = self.api.find("services", namespace, name)
        slices = [s for s in self.api.list("endpointslices", namespace) if _is_of(s, name)]
        if service is None or is_deleting(service):
            self._delete(slices)
            return None
        if not spec_of(service).get("selector"):
            # Without a selector the slices are the user's; ours are left from before.
            self._delete([s for s in slices if is_controlled_by(s, service)])
            return None
        wanted = render_slices(service, self.api.list("pods", namespace))
        present = sorted(slices, key=name_of)
        for content in wanted:
            existing = next((s for s in present if s.get("ports") == content["ports"]), None)
            existing = existing or (present[0] if present and len(wanted) == 1 else None)
            self._put(service, existing, content)
            present = [s for s in present if s is not existing]
        self._delete(present)
        return None

    def _put(self, service: Obj, existing: Obj | None, content: Obj) -> None:
        namespace = namespace_of(service)
        labels, owner = slice_labels(service), controller_reference(service)
        if existing is None:
            metadata = {
                "generateName": f"{name_of(service)}-",
                "labels": labels,
                "ownerReferences": [owner],
            }
            new = {"metadata": metadata, "addressType": "IPv4", **content}
            self.api.create("endpointslices", namespace, new)
            return
        changed = clone(existing)
        changed.update(content)
        changed["metadata"]["labels"] = labels
        if owner["uid"] not in {ref.get("uid") for ref in owners_of(existing)}:
            changed["metadata"]["ownerReferences"] = [owner]
        self.api.update("endpointslices", namespace, name_of(existing), changed)

    def _delete(self, slices: Iterable[Obj]) -> None:
        for each in slices:
            self.api.delete("endpointslices", namespace_of(each), name_of(each), uid=uid_of(each))


def _is_of(endpointslice: Obj, service_name: str) -> bool:
    labels = labels_of(endpointslice)
    return labels.get(SERVICE_NAME) == service_name and labels.get(MANAGED_BY) == MANAGER
