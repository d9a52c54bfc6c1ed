"""What a service is, read from the API's objects: ports, endpoints, and the names it brings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from onebox.node.dns import DOMAIN


@dataclass(frozen=True)
class ServicePort:
    """One port of a service; endpoints name their port by the same `name` ("" for the only one)."""

    name: str
    port: int
    protocol: str = "TCP"
    node_port: int | None = None


@dataclass(frozen=True)
class Service:
    """A service; `cluster_ip` is None for a headless one."""

    namespace: str
    name: str
    cluster_ip: str | None
    ports: tuple[ServicePort, ...] = ()
    publish_not_ready: bool = False


@dataclass(frozen=True)
class Endpoint:
    """One address behind a service: `ports` is port name -> number."""

    ip: str
    ready: bool
    hostname: str | None = None
    ports: Mapping[str, int] = field(default_factory=dict)


def parse_service(obj: Mapping[str, Any]) -> Service:
    """Return the part of a Service object that matters here."""
    spec = obj["spec"]
    ip = spec.get("clusterIP")
    ports = tuple(
        ServicePort(
            name=port.get("name") or "",
            port=port["port"],
            protocol=port.get("protocol") or "TCP",
            node_port=port.get("nodePort") or None,
        )
        for port in spec.get("ports") or ()
    )
    return Service(
        namespace=obj["metadata"]["namespace"],
        name=obj["metadata"]["name"],
        cluster_ip=None if ip in (None, "", "None") else ip,
        ports=ports,
        publish_not_ready=bool(spec.get("publishNotReadyAddresses")),
    )


def parse_endpoints(slices: Iterable[Mapping[str, Any]]) -> tuple[Endpoint, ...]:
    """Return the endpoints of all EndpointSlices of one service.

    A slice without "ready" means ready
    (https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#conditions).
    """
    found: dict[str, Endpoint] = {}
    for obj in slices:
        if obj.get("addressType") not in (None, "IPv4"):
            continue
        ports = {p.get("name") or "": p["port"] for p in obj.get("ports") or () if p.get("port")}
        for entry in obj.get("endpoints") or ():
            ready = (entry.get("conditions") or {}).get("ready") is not False
            for ip in entry["addresses"]:
                known = found.get(ip)
                if known is not None:
                    merged = {**known.ports, **ports}
                    found[ip] = Endpoint(ip, known.ready or ready, known.hostname, merged)
                else:
                    found[ip] = Endpoint(ip, ready, entry.get("hostname"), ports)
    return tuple(found.values())


def service_names(service: Service, endpoints: Sequence[Endpoint]) -> dict[str, list[str]]:
    """Return the names that a service brings, each with its addresses."""
    base = f"{service.name}.{service.namespace}.svc.{DOMAIN}"
    if service.cluster_ip is not None:
        return {base: [service.cluster_ip]}
    published = [e for e in endpoints if e.ready]
    names = {base: [endpoint.ip for endpoint in published]}
    for endpoint in published:
        if endpoint.hostname:
            names.setdefault(f"{endpoint.hostname}.{base}", []).append(endpoint.ip)
    return names
