"""Defaults of pods and pod templates.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/v1/defaults.go
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from onebox.api.resources import Obj
from onebox.quantity import NANOS, Quantity, parse_quantity

_VOLUME_FILE_MODE = 0o644
_MODE_SOURCES = ("configMap", "secret", "downwardAPI", "projected")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE_DEFAULTS = {
    "timeoutSeconds": 1,
    "periodSeconds": 10,
    "successThreshold": 1,
    "failureThreshold": 3,
}
_MILLI = NANOS // 1000


def containers_of(spec: Obj) -> Iterator[Obj]:
    """Give the init containers and then the containers of a pod spec."""
    yield from spec.get("initContainers", ())
    yield from spec.get("containers", ())


def default_template(spec: Obj) -> None:
    """Fill in what holds for every pod spec, also inside templates."""
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("schedulerName", "default-scheduler")
    _pair_account_names(spec)
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    for container in containers_of(spec):
        default_container(container)


def _pair_account_names(spec: Obj) -> None:
    # serviceAccount is the old name of serviceAccountName; upstream always writes both.
    name = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if name:
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def default_pod(spec: Obj) -> None:
    """Fill in what holds for pods only, after `default_template`."""
    for container in containers_of(spec):
        resources = container["resources"]
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in containers_of(spec):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port.get("containerPort"))


def default_container(container: Obj) -> None:
    """Fill in what a container left out."""
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = (
            "Always" if _is_latest(container.get("image", "")) else "IfNotPresent"
        )
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for amounts in container.setdefault("resources", {}).values():
        if isinstance(amounts, dict):
            round_up_to_milli(amounts)
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        source = variable.get("valueFrom")
        if source and "fieldRef" in source:
            source["fieldRef"].setdefault("apiVersion", "v1")
        if source and "resourceFieldRef" in source:
            source["resourceFieldRef"].setdefault("divisor", "0")
    for name in _PROBES:
        if name in container:
            _default_probe(container[name])
    for handler in container.get("lifecycle", {}).values():
        if isinstance(handler, dict):
            _default_http_get(handler)


def round_up_to_milli(amounts: dict[str, str]) -> None:
    """Round amounts finer than a thousandth up, as upstream does for compatibility."""
    for name, text in amounts.items():
        amount = parse_quantity(text)
        if amount.nanos % _MILLI:
            amounts[name] = str(Quantity(amount.millis() * _MILLI, amount.style))


def _is_latest(image: str) -> bool:
    if "@" in image:
        return False
    tag = image.rpartition("/")[2].partition(":")[2]
    return tag in ("", "latest")


def _default_probe(probe: Obj) -> None:
    for name, value in _PROBE_DEFAULTS.items():
        if not probe.get(name):
            probe[name] = value
    _default_http_get(probe)
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http_get(handler: Obj) -> None:
    action: dict[str, Any] | None = handler.get("httpGet")
    if action is not None:
        action["path"] = action.get("path") or "/"
        action["scheme"] = action.get("scheme") or "HTTP"


def _default_volume(volume: Obj) -> None:
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}
    for source in _MODE_SOURCES:
        if source in volume:
            volume[source].setdefault("defaultMode", _VOLUME_FILE_MODE)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
    items = list(volume.get("downwardAPI", {}).get("items", ()))
    for projection in volume.get("projected", {}).get("sources", ()):
        if "serviceAccountToken" in projection:
            projection["serviceAccountToken"].setdefault("expirationSeconds", 3600)
        items.extend(projection.get("downwardAPI", {}).get("items", ()))
    for item in items:
        if "fieldRef" in item:
            item["fieldRef"].setdefault("apiVersion", "v1")
