"""EndpointSlices and NetworkPolicies.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/discovery/validation/validation.go
"""

from __future__ import annotations

import ipaddress

from onebox.api.resources import Obj
from onebox.api.rules import fields, labels, names
from onebox.api.status import Cause
from onebox.api.strategy import Strategy

_ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_POLICY_TYPES = ("Ingress", "Egress")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
MAX_ENDPOINTS = 1_000
MAX_ADDRESSES = 100


class EndpointSliceStrategy(Strategy):
    """The rules of EndpointSlices."""

    def defaults(self, obj: Obj) -> None:
        """Fill in what the writer left out."""
        obj.setdefault("endpoints", [])
        for port in obj.get("ports", ()):
            port.setdefault("name", "")
            port.setdefault("protocol", "TCP")

    def validate(self, obj: Obj) -> list[Cause]:
        """Check addresses and sizes."""
        kind = obj.get("addressType", "")
        causes = fields.one_of("addressType", kind, _ADDRESS_TYPES)
        endpoints = obj["endpoints"]
        if len(endpoints) > MAX_ENDPOINTS:
            text = f"must have at most {MAX_ENDPOINTS} items"
            causes.append(fields.invalid("endpoints", len(endpoints), text))
        for i, endpoint in enumerate(endpoints):
            path, addresses = f"endpoints[{i}].addresses", endpoint.get("addresses", [])
            if not addresses:
                causes.append(fields.required(path, "must contain at least 1 address"))
            if len(addresses) > MAX_ADDRESSES:
                text = f"must have at most {MAX_ADDRESSES} items"
                causes.append(fields.invalid(path, len(addresses), text))
            for j, address in enumerate(addresses):
                rule = names.dns_subdomain if kind == "FQDN" else names.ip_address
                causes.extend(fields.each_invalid(f"{path}[{j}]", address, rule(address)))
        seen: set[str] = set()
        for i, port in enumerate(obj.get("ports", [])):
            if port["name"] in seen:
                causes.append(fields.duplicate(f"ports[{i}].name", port["name"]))
            seen.add(port["name"])
            protocol = port["protocol"]
            causes.extend(fields.one_of(f"ports[{i}].protocol", protocol, _PROTOCOLS))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check that the address type stays."""
        return fields.immutable("addressType", new.get("addressType"), old.get("addressType"))


class NetworkPolicyStrategy(Strategy):
    """The rules of NetworkPolicies, which onebox keeps but does not enforce."""

    def defaults(self, obj: Obj) -> None:
        """Fill in what the user left out."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("podSelector", {})
        if not spec.get("policyTypes"):
            spec["policyTypes"] = ["Ingress", *(["Egress"] if spec.get("egress") else [])]
        for rule in [*spec.get("ingress", ()), *spec.get("egress", ())]:
            for port in rule.get("ports", ()):
                port.setdefault("protocol", "TCP")

    def validate(self, obj: Obj) -> list[Cause]:
        """Check selectors, ports and address blocks."""
        spec = obj["spec"]
        causes = labels.check_selector("spec.podSelector", spec["podSelector"])
        for i, kind in enumerate(spec["policyTypes"]):
            causes.extend(fields.one_of(f"spec.policyTypes[{i}]", kind, _POLICY_TYPES))
        for side, peers in (("ingress", "from"), ("egress", "to")):
            for i, rule in enumerate(spec.get(side, ())):
                path = f"spec.{side}[{i}]"
                for j, port in enumerate(rule.get("ports", ())):
                    causes.extend(_check_port(f"{path}.ports[{j}]", port))
                for j, peer in enumerate(rule.get(peers, ())):
                    causes.extend(_check_peer(f"{path}.{peers}[{j}]", peer))
        return causes


def _check_port(path: str, port: Obj) -> list[Cause]:
    causes = fields.one_of(f"{path}.protocol", port["protocol"], _PROTOCOLS)
    number = port.get("port")
    if isinstance(number, int):
        causes.extend(fields.in_range(f"{path}.port", number, 1, 65535))
    elif number is not None:
        causes.extend(fields.each_invalid(f"{path}.port", number, names.port_name(number)))
    return causes


def _check_peer(path: str, peer: Obj) -> list[Cause]:
    causes: list[Cause] = []
    if not peer:
        return [fields.required(path, "must specify a peer")]
    if "ipBlock" in peer and len(peer) > 1:
        text = "may not specify both ipBlock and another peer"
        causes.append(fields.forbidden(path, text))
    for selector in ("podSelector", "namespaceSelector"):
        causes.extend(labels.check_selector(f"{path}.{selector}", peer.get(selector)))
    block = peer.get("ipBlock")
    if block is not None:
        cidrs = [("cidr", block.get("cidr", ""))]
        cidrs.extend((f"except[{i}]", cidr) for i, cidr in enumerate(block.get("except", ())))
        for field, cidr in cidrs:
            causes.extend(_check_cidr(f"{path}.ipBlock.{field}", cidr))
        if not causes:
            causes.extend(_check_except(f"{path}.ipBlock.except", block))
    return causes


def _check_except(path: str, block: Obj) -> list[Cause]:
    whole = ipaddress.ip_network(block["cidr"], strict=False)
    causes: list[Cause] = []
    for i, cidr in enumerate(block.get("except", ())):
        part = ipaddress.ip_network(cidr, strict=False)
        is_inside = part.version == whole.version and part.subnet_of(whole)  # type: ignore[arg-type]
        if not is_inside or part == whole:
            text = "must be a strict subset of `cidr`"
            causes.append(fields.invalid(f"{path}[{i}]", cidr, text))
    return causes


def _check_cidr(path: str, cidr: str) -> list[Cause]:
    try:
        if "/" not in cidr:
            raise ValueError(cidr)
        ipaddress.ip_network(cidr, strict=False)
    except ValueError:
        text = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
        return [fields.invalid(path, cidr, text)]
    return []
