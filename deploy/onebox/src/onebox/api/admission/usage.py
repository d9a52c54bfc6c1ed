"""What objects count for in a ResourceQuota. Pure.

https://github.com/kubernetes/kubernetes/tree/v1.36.3/pkg/quota/v1/evaluator/core
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from onebox.api.admission.totals import Amounts, pod_total, read_amounts
from onebox.api.kinds.pod import qos_class
from onebox.api.kinds.pod_defaults import containers_of
from onebox.api.resources import Obj, Resource
from onebox.api.rules import compute
from onebox.api.timestamps import parse_time
from onebox.quantity import NANOS, Quantity

ONE = Quantity(NANOS)

_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_POD_NAMES = frozenset(
    {"pods"}
    | set(_COMPUTE)
    | {f"{side}.{name}" for side in ("requests", "limits") for name in _COMPUTE}
)
_MUST_SPECIFY = frozenset(
    ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"]
)
_PLAIN_COUNTS = {
    "configmaps": "configmaps",
    "resourcequotas": "resourcequotas",
    "secrets": "secrets",
    "services": "services",
    "persistentvolumeclaims": "persistentvolumeclaims",
}
_CLASS_INFIX = ".storageclass.storage.k8s.io/"


def count_name(resource: Resource) -> str:
    """Give the name under which a quota counts objects: count/jobs.batch, count/pods."""
    return f"count/{resource.group_resource}"


def covered_names(resource: Resource, names: Iterable[str]) -> frozenset[str]:
    """Give those of a quota's names that objects of a kind count for."""
    plural = resource.plural
    own = {count_name(resource), _PLAIN_COUNTS.get(plural, "")}
    if plural == "services":
        own |= {"services.nodeports", "services.loadbalancers"}
    if plural == "persistentvolumeclaims":
        own |= {"requests.storage"}
    return frozenset(
        name
        for name in names
        if name in own
        or (plural == "pods" and _counts_pods(name))
        or (plural == "persistentvolumeclaims" and _CLASS_INFIX in name)
    )


def _counts_pods(name: str) -> bool:
    if name in _POD_NAMES:
        return True
    plain = name.removeprefix("requests.")
    return compute.is_hugepages(plain) or (plain != name and not compute.is_native(plain))


def usage_of(resource: Resource, obj: Obj, now: datetime) -> Amounts:
    """Give what one object counts for."""
    usage: Amounts = {count_name(resource): ONE}
    if resource.plural in _PLAIN_COUNTS:
        usage[_PLAIN_COUNTS[resource.plural]] = ONE
    match resource.plural:
        case "pods":
            usage.update(_pod_usage(obj, now))
        case "services":
            usage.update(_service_usage(obj))
        case "persistentvolumeclaims":
            usage.update(_claim_usage(obj))
    return usage


def _pod_usage(pod: Obj, now: datetime) -> Amounts:
    if not _is_charged(pod, now):
        return {}
    spec = pod["spec"]
    usage: Amounts = {"pods": ONE}
    usage.update(_compute_usage(pod_total(spec, "requests"), pod_total(spec, "limits")))
    return usage


def _compute_usage(requests: Amounts, limits: Amounts) -> Amounts:
    usage: Amounts = {}
    for name, amount in requests.items():
        if name in _COMPUTE or compute.is_hugepages(name):
            usage[name] = usage[f"requests.{name}"] = amount
        elif compute.is_extended(name):
            usage[f"requests.{name}"] = amount
    for name, amount in limits.items():
        if name in _COMPUTE:
            usage[f"limits.{name}"] = amount
    return usage


def _is_charged(pod: Obj, now: datetime) -> bool:
    if pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        return False
    meta = pod["metadata"]
    grace_s = meta.get("deletionGracePeriodSeconds")
    if "deletionTimestamp" in meta and grace_s is not None:
        # A node that is gone must not hold the quota for ever.
        return now <= parse_time(meta["deletionTimestamp"]) + timedelta(seconds=grace_s)
    return True


def _service_usage(service: Obj) -> Amounts:
    spec = service["spec"]
    ports = spec.get("ports", [])
    node_ports = load_balancers = 0
    if spec.get("type") == "NodePort":
        node_ports = len(ports)
    elif spec.get("type") == "LoadBalancer":
        load_balancers = 1
        if spec.get("allocateLoadBalancerNodePorts") is False:
            ports = [port for port in ports if port.get("nodePort")]
        node_ports = len(ports)
    return {
        "services.nodeports": Quantity(node_ports * NANOS),
        "services.loadbalancers": Quantity(load_balancers * NANOS),
    }


def _claim_usage(claim: Obj) -> Amounts:
    usage: Amounts = {}
    spec = claim["spec"]
    name = spec.get("storageClassName")
    if name:
        usage[f"{name}{_CLASS_INFIX}persistentvolumeclaims"] = ONE
    asked = read_amounts(spec.get("resources", {}).get("requests")).get("storage")
    if asked is None:
        return usage
    held = read_amounts(claim.get("status", {}).get("allocatedResources")).get("storage")
    if held is not None and asked < held:
        asked = held
    size = Quantity(asked.units() * NANOS, asked.style)
    usage["requests.storage"] = size
    if name:
        usage[f"{name}{_CLASS_INFIX}requests.storage"] = size
    return usage


def missing_amounts(pod: Obj, names: Iterable[str]) -> str:
    """Name what containers must ask for because a quota bounds it; "" when nothing is missing."""
    if pod["spec"].get("resources"):
        return ""
    needed = sorted(_MUST_SPECIFY.intersection(names))
    lacking: dict[str, set[str]] = {}
    for container in containers_of(pod["spec"]):
        resources = container.get("resources", {})
        requests, limits = resources.get("requests", {}), resources.get("limits", {})
        have = _compute_usage(read_amounts(requests), read_amounts(limits))
        for name in needed:
            if name not in have:
                lacking.setdefault(name, set()).add(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(lacking[name]))}" for name in sorted(lacking))


def matches_scopes(resource: Resource, obj: Obj, quota: Obj) -> bool:
    """Tell whether a quota's scopes take an object; scopes only ever take pods."""
    spec = quota["spec"]
    terms = [{"scopeName": name, "operator": "Exists"} for name in spec.get("scopes", ())]
    terms.extend(spec.get("scopeSelector", {}).get("matchExpressions", ()))
    if terms and resource.plural != "pods":
        return False
    return all(_in_scope(obj["spec"], term) for term in terms)


def _in_scope(spec: Obj, term: Obj) -> bool:
    rule = _SCOPES.get(term["scopeName"])
    if rule is not None:
        return rule(spec)
    if term["scopeName"] != "PriorityClass":
        return False
    name = spec.get("priorityClassName", "")
    match term["operator"]:
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in term.get("values", ())
    return name not in term.get("values", ())


def _crosses_namespaces(spec: Obj) -> bool:
    affinity = spec.get("affinity", {})
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind, {})
        terms = list(rules.get("requiredDuringSchedulingIgnoredDuringExecution", ()))
        preferred = rules.get("preferredDuringSchedulingIgnoredDuringExecution", ())
        terms.extend(term.get("podAffinityTerm", {}) for term in preferred)
        if any(term.get("namespaces") or "namespaceSelector" in term for term in terms):
            return True
    return False


_SCOPES: dict[str, Callable[[Obj], bool]] = {
    "Terminating": lambda spec: spec.get("activeDeadlineSeconds") is not None,
    "NotTerminating": lambda spec: spec.get("activeDeadlineSeconds") is None,
    "BestEffort": lambda spec: qos_class(spec) == "BestEffort",
    "NotBestEffort": lambda spec: qos_class(spec) != "BestEffort",
    "CrossNamespacePodAffinity": _crosses_namespaces,
}
