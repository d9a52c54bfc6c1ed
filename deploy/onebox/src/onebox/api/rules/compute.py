"""Rules for amounts of compute: which resources there are, and what may be asked for.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/helper/helpers.go
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onebox.api.rules import fields, names
from onebox.api.status import Cause
from onebox.quantity import parse_quantity

_CONTAINER = frozenset({"cpu", "memory", "ephemeral-storage"})
_INTEGER = frozenset(
    [
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    ]
)
_QUOTA = frozenset(
    [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.storage",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    ]
).union(_INTEGER)
_STANDARD = _QUOTA.union({"storage"})

_Rule = Callable[[str, str], list[Cause]]


def is_native(resource: str) -> bool:
    """Tell whether Kubernetes itself defines a resource ("cpu", "x.kubernetes.io/y")."""
    return "/" not in resource or "kubernetes.io/" in resource


def is_extended(resource: str) -> bool:
    """Tell whether a resource is a device such as nvidia.com/gpu: whole numbers only."""
    return not is_native(resource) and not resource.startswith("requests.")


def is_hugepages(resource: str) -> bool:
    """Tell whether a resource is huge pages."""
    return resource.startswith("hugepages-")


def may_overcommit(resource: str) -> bool:
    """Tell whether a limit may exceed the request."""
    return is_native(resource) and not is_hugepages(resource)


def check_name(path: str, resource: str) -> list[Cause]:
    """Check the name of any resource."""
    wrong = names.label_key(resource)
    if wrong:
        return fields.each_invalid(path, resource, wrong)
    if "/" not in resource and resource not in _STANDARD and not is_hugepages(resource):
        text = "must be a standard resource type or fully qualified"
        return [fields.invalid(path, resource, text)]
    return []


def check_container_name(path: str, resource: str) -> list[Cause]:
    """Check the name of a resource that a container asks for."""
    causes = check_name(path, resource)
    if "/" not in resource:
        if resource not in _CONTAINER and not is_hugepages(resource):
            text = "must be a standard resource for containers"
            causes.append(fields.invalid(path, resource, text))
    elif not is_native(resource) and not is_extended(resource):
        text = "doesn't follow extended resource name standard"
        causes.append(fields.invalid(path, resource, text))
    return causes


def check_quota_name(path: str, resource: str) -> list[Cause]:
    """Check the name of a resource in a ResourceQuota."""
    if resource in _QUOTA:
        return []
    causes = check_name(path, resource)
    if "/" not in resource and not is_hugepages(resource):
        text = "must be a standard resource for quota"
        causes.append(fields.invalid(path, resource, text))
    return causes


def check_amount(path: str, resource: str, text: str) -> list[Cause]:
    """Check that an amount is not negative, and whole where it counts things."""
    amount = parse_quantity(text)
    causes = []
    if amount.nanos < 0:
        causes.append(fields.invalid(path, text, fields.NEGATIVE))
    counts = resource in _INTEGER or is_extended(resource)
    if counts and not amount.is_whole():
        causes.append(fields.invalid(path, text, "must be an integer"))
    return causes


def check_requirements(path: str, requirements: dict[str, Any]) -> list[Cause]:
    """Check limits and requests of a container."""
    limits = requirements.get("limits", {})
    requests = requirements.get("requests", {})
    causes: list[Cause] = []
    for side, amounts in (("limits", limits), ("requests", requests)):
        causes.extend(check_list(f"{path}.{side}", amounts, check_container_name))
    for resource, text in requests.items():
        causes.extend(_check_pair(path, resource, text, limits.get(resource)))
    asked = limits.keys() | requests.keys()
    if any(is_hugepages(name) for name in asked) and not asked & {"cpu", "memory"}:
        causes.append(fields.forbidden(path, "HugePages require cpu or memory"))
    return causes


def check_list(path: str, amounts: dict[str, str], name_rule: _Rule) -> list[Cause]:
    """Check names and amounts of a resource list."""
    causes: list[Cause] = []
    for resource, text in amounts.items():
        where = f"{path}[{resource}]"
        causes.extend(name_rule(where, resource))
        causes.extend(check_amount(where, resource, text))
    return causes


def _check_pair(path: str, resource: str, request: str, limit: str | None) -> list[Cause]:
    if limit is None:
        if may_overcommit(resource):
            return []
        text = "Limit must be set for non overcommitable resources"
        return [fields.required(f"{path}.limits", text)]
    asked, most = parse_quantity(request), parse_quantity(limit)
    if asked.nanos != most.nanos and not may_overcommit(resource):
        text = f"must be equal to {resource} limit of {limit}"
        return [fields.invalid(f"{path}.requests", request, text)]
    if asked > most:
        text = f"must be less than or equal to {resource} limit of {limit}"
        return [fields.invalid(f"{path}.requests", request, text)]
    return []
