"""Services: cluster addresses, node ports, rules.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/registry/core/service/storage/alloc.go
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from onebox.api.allocate import AllocationError, Allocator, RangeFullError
from onebox.api.resources import Obj, resource_named
from onebox.api.rules import fields, labels, names
from onebox.api.status import Cause, internal, invalid
from onebox.api.strategy import Context, Strategy

_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_EXTERNAL = ("LoadBalancer", "NodePort")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_AFFINITIES = ("ClientIP", "None")
_POLICIES = ("Cluster", "Local")
_MAX_AFFINITY_S = 86_400
_DEFAULT_AFFINITY_S = 10_800


def is_headless(service: Obj) -> bool:
    """Tell whether a Service has names but no address."""
    return bool(service["spec"].get("clusterIP") == "None")


class ServiceStrategy(Strategy):
    """The rules of Services."""

    checks_change_first = True

    @staticmethod
    def name_rule(name: str) -> list[str]:
        """Check a Service's name, which becomes a host name."""
        return names.dns_label(name)

    def defaults(self, obj: Obj) -> None:
        """Fill in what the user left out."""
        spec = obj.setdefault("spec", {})
        spec["type"] = spec.get("type") or "ClusterIP"
        spec["sessionAffinity"] = spec.get("sessionAffinity") or "None"
        if spec["sessionAffinity"] == "ClientIP":
            client = spec.setdefault("sessionAffinityConfig", {}).setdefault("clientIP", {})
            client.setdefault("timeoutSeconds", _DEFAULT_AFFINITY_S)
        else:
            spec.pop("sessionAffinityConfig", None)
        for port in spec.get("ports", ()):
            port["protocol"] = port.get("protocol") or "TCP"
            if port.get("targetPort") in (None, 0, ""):
                port["targetPort"] = port.get("port", 0)
        if spec["type"] in _EXTERNAL or spec.get("externalIPs"):
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if spec["type"] == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def prepare_create(self, ctx: Context, obj: Obj) -> None:
        """Give the Service its address and its ports."""
        obj["status"] = {"loadBalancer": {}}
        _allocate(ctx.api.allocator, obj, held=frozenset(), keeps_address=False)

    def prepare_update(self, ctx: Context, new: Obj, old: Obj) -> None:
        """Keep the address and the ports that the Service has, and give what it lacks."""
        after, before = new["spec"], old["spec"]
        both = after["type"] != "ExternalName" and before["type"] != "ExternalName"
        if both and not after.get("clusterIP"):
            for field in ("clusterIP", "clusterIPs"):
                if field in before:
                    after[field] = before[field]
        _keep_node_ports(after, before)
        held = frozenset(p["nodePort"] for p in before.get("ports", ()) if p.get("nodePort"))
        same = after.get("clusterIP") == before.get("clusterIP")
        _allocate(ctx.api.allocator, new, held=held, keeps_address=same)

    def validate(self, obj: Obj) -> list[Cause]:
        """Check the whole spec."""
        spec = obj["spec"]
        causes = list(_check_type(obj))
        causes.extend(_check_ports(spec))
        causes.extend(labels.check_labels("spec.selector", spec.get("selector")))
        affinity = spec["sessionAffinity"]
        causes.extend(fields.one_of("spec.sessionAffinity", affinity, _AFFINITIES))
        if affinity == "ClientIP":
            path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
            timeout_s = spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"]
            if not 0 < timeout_s <= _MAX_AFFINITY_S:
                text = f"must be greater than 0 and less than {_MAX_AFFINITY_S}"
                causes.append(fields.invalid(path, timeout_s, text))
        for field in ("externalTrafficPolicy", "internalTrafficPolicy"):
            if field in spec:
                causes.extend(fields.one_of(f"spec.{field}", spec[field], _POLICIES))
        if "externalTrafficPolicy" in spec and spec["type"] not in _EXTERNAL:
            text = "may only be set for externally-accessible services"
            path, policy = "spec.externalTrafficPolicy", spec["externalTrafficPolicy"]
            if not spec.get("externalIPs"):
                causes.append(fields.invalid(path, policy, text))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check that a Service keeps its address."""
        after, before = new["spec"], old["spec"]
        if "ExternalName" in (after["type"], before["type"]):
            return []
        addresses, had = after.get("clusterIPs"), before.get("clusterIPs")
        text = "may not change once set"
        return [
            *([] if addresses == had else [fields.invalid("spec.clusterIPs[0]", addresses, text)]),
            *fields.immutable("spec.ipFamilies", after.get("ipFamilies"), before.get("ipFamilies")),
        ]


def _keep_node_ports(after: Obj, before: Obj) -> None:
    if after["type"] not in _EXTERNAL:
        # Changed back to an inner Service: ports that it held are given back, as upstream does.
        held = {p.get("nodePort") for p in before.get("ports", ())}
        for port in after.get("ports", ()):
            if port.get("nodePort") in held:
                port.pop("nodePort", None)
        if "externalTrafficPolicy" in before and not after.get("externalIPs"):
            after.pop("externalTrafficPolicy", None)
        return
    known = {p.get("name", ""): p.get("nodePort") for p in before.get("ports", ())}
    for port in after.get("ports", ()):
        if not port.get("nodePort") and known.get(port.get("name", "")):
            port["nodePort"] = known[port.get("name", "")]


def _allocate(
    allocator: Allocator, service: Obj, *, held: frozenset[int], keeps_address: bool
) -> None:
    spec = service["spec"]
    if spec["type"] == "ExternalName":
        return
    if not keeps_address:
        _allocate_address(allocator, service)
    spec["clusterIPs"] = [spec["clusterIP"]]
    spec.setdefault("ipFamilies", ["IPv4"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    wants = spec["type"] == "NodePort" or (
        spec["type"] == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts")
    )
    if spec["type"] in _EXTERNAL:
        _allocate_ports(allocator, service, held, fill=bool(wants))


def _refuse(service: Obj, path: str, value: object, text: str) -> Exception:
    name = service["metadata"]["name"]
    return invalid(resource_named("services"), name, [fields.invalid(path, value, text)])


def _allocate_address(allocator: Allocator, service: Obj) -> None:
    spec = service["spec"]
    wanted = spec.get("clusterIP") or next(iter(spec.get("clusterIPs", ())), "")
    spec["clusterIP"] = wanted
    if wanted == "None":
        return
    wrong = names.ip_address(wanted) if wanted else []
    if wrong:
        raise _refuse(service, "spec.clusterIPs[0]", wanted, wrong[0])
    try:
        if wanted:
            allocator.check_address(wanted)
        else:
            spec["clusterIP"] = allocator.pick_address()
    except RangeFullError as error:
        name = service["metadata"]["name"]
        raise internal(f'failed to allocate a serviceIP for Service "{name}": {error}') from error
    except AllocationError as error:
        text = f"failed to allocate IP {wanted}: {error}"
        raise _refuse(service, "spec.clusterIPs", [wanted], text) from error


def _allocate_ports(
    allocator: Allocator, service: Obj, held: frozenset[int], *, fill: bool
) -> None:
    ports = service["spec"].get("ports", [])
    taken = {port["nodePort"] for port in ports if port.get("nodePort")}
    # The same number may serve TCP and UDP of one Service.
    for i, port in enumerate(ports):
        number = port.get("nodePort")
        if not number or number in held:
            continue
        try:
            allocator.check_port(number)
        except AllocationError as error:
            path = f"spec.ports[{i}].nodePort"
            raise _refuse(service, path, number, str(error)) from error
    for port in ports if fill else ():
        if not port.get("nodePort"):
            try:
                port["nodePort"] = allocator.pick_port(taken)
            except RangeFullError as error:
                raise internal(f"failed to allocate a nodePort: {error}") from error
            taken.add(port["nodePort"])


def _check_type(service: Obj) -> Iterable[Cause]:
    spec = service["spec"]
    kind, headless = spec["type"], is_headless(service)
    if kind not in _TYPES:
        yield fields.not_supported("spec.type", kind, _TYPES)
    if headless and kind in _EXTERNAL:
        text = f"may not be set to 'None' for {kind} services"
        yield fields.invalid("spec.clusterIPs[0]", "None", text)
    if kind == "ExternalName":
        for field in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
            if spec.get(field):
                text = "may not be set for ExternalName services"
                yield fields.forbidden(f"spec.{field}", text)
        name = spec.get("externalName", "").removesuffix(".")
        if not name:
            yield fields.required("spec.externalName")
        else:
            yield from fields.each_invalid("spec.externalName", name, names.dns_subdomain(name))
    elif not spec.get("ports") and not headless:
        yield fields.required("spec.ports")


def _check_ports(spec: Obj) -> Iterable[Cause]:
    ports = spec.get("ports", [])
    seen: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    node_ports: set[tuple[str, int]] = set()
    for i, port in enumerate(ports):
        path = f"spec.ports[{i}]"
        yield from _check_port(path, port, seen, needs_name=len(ports) > 1)
        key = (port["protocol"], port.get("port", 0))
        if key in numbers:
            yield fields.duplicate(path, {"protocol": key[0], "port": key[1]})
        numbers.add(key)
        number = port.get("nodePort")
        if not number:
            continue
        if spec["type"] == "ClusterIP":
            text = "may not be used when `type` is 'ClusterIP'"
            yield fields.forbidden(f"{path}.nodePort", text)
        if (port["protocol"], number) in node_ports:
            yield fields.duplicate(f"{path}.nodePort", number)
        node_ports.add((port["protocol"], number))


def _check_port(path: str, port: Obj, seen: set[str], *, needs_name: bool) -> Iterable[Cause]:
    name, number, target = port.get("name", ""), port.get("port", 0), port["targetPort"]
    if needs_name and not name:
        yield fields.required(f"{path}.name")
    elif name:
        yield from fields.each_invalid(f"{path}.name", name, names.dns_label(name))
        if name in seen:
            yield fields.duplicate(f"{path}.name", name)
        seen.add(name)
    yield from fields.each_invalid(f"{path}.port", number, names.port_number(number))
    yield from fields.one_of(f"{path}.protocol", port["protocol"], _PROTOCOLS)
    rule: Callable[..., list[str]]
    rule = names.port_number if isinstance(target, int) else names.port_name
    yield from fields.each_invalid(f"{path}.targetPort", target, rule(target))
