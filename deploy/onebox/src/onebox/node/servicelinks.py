"""The NAME_SERVICE_HOST-like environment variables that describe services to a pod.

Rule: pkg/kubelet/envvars/envvars.go. Only services with a cluster IP; a pod sees those of its
own namespace when `enableServiceLinks` is not false, and always `kubernetes` of `default`.
"""

from __future__ import annotations

from collections.abc import Iterable

from onebox.node.client import Json


def service_links(
    namespace: str, services: Iterable[Json], *, own_namespace: bool
) -> dict[str, str]:
    """Make the variables for a pod of `namespace`.

    Args:
        services: Service objects of any namespace.
        own_namespace: the pod's enableServiceLinks.
    """
    chosen: dict[str, Json] = {}
    for service in services:
        meta = service["metadata"]
        if service["spec"].get("clusterIP") in (None, "", "None"):
            continue
        is_master = meta["namespace"] == "default" and meta["name"] == "kubernetes"
        if own_namespace and meta["namespace"] == namespace:
            chosen[meta["name"]] = service
        elif is_master:
            chosen.setdefault(meta["name"], service)
    variables: dict[str, str] = {}
    for name in sorted(chosen):
        variables.update(_variables(chosen[name]))
    return variables


def _variables(service: Json) -> dict[str, str]:
    ports = service["spec"].get("ports") or []
    if not ports:
        return {}
    host = service["spec"]["clusterIP"]
    prefix = service["metadata"]["name"].upper().replace("-", "_")
    variables = {
        f"{prefix}_SERVICE_HOST": host,
        f"{prefix}_SERVICE_PORT": str(ports[0]["port"]),
    }
    for port in ports:
        if port.get("name"):
            suffix = port["name"].upper().replace("-", "_")
            variables[f"{prefix}_SERVICE_PORT_{suffix}"] = str(port["port"])
    variables.update(_docker_style(prefix, host, ports))
    return variables


def _docker_style(prefix: str, host: str, ports: list[Json]) -> dict[str, str]:
    variables = {}
    for index, port in enumerate(ports):
        protocol = port.get("protocol", "TCP")
        url = f"{protocol.lower()}://{host}:{port['port']}"
        if index == 0:
            variables[f"{prefix}_PORT"] = url
        name = f"{prefix}_PORT_{port['port']}_{protocol.upper()}"
        variables[name] = url
        variables[f"{name}_PROTO"] = protocol.lower()
        variables[f"{name}_PORT"] = str(port["port"])
        variables[f"{name}_ADDR"] = host
    return variables
