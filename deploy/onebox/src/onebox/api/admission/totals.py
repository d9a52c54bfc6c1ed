"""What a pod asks for in all, from what its containers ask for. Pure.

https://github.com/kubernetes/component-helpers/blob/v0.36.3/resource/helpers.go
"""

from __future__ import annotations

from onebox.api.resources import Obj
from onebox.quantity import Quantity, parse_quantity

Amounts = dict[str, Quantity]

_POD_LEVEL = ("cpu", "memory")


def read_amounts(texts: dict[str, str] | None) -> Amounts:
    """Read a resource list."""
    return {name: parse_quantity(text) for name, text in (texts or {}).items()}


def add(one: Amounts, other: Amounts) -> Amounts:
    """Add two lists; what is missing counts as nothing."""
    total = dict(one)
    for name, amount in other.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def greatest(one: Amounts, other: Amounts) -> Amounts:
    """Take the greater of each amount."""
    result = dict(one)
    for name, amount in other.items():
        if name not in result or result[name] < amount:
            result[name] = amount
    return result


def pod_total(spec: Obj, side: str) -> Amounts:
    """Give the effective "requests" or "limits" of a pod.

    Containers and native sidecars add up; an ordinary init container counts with the sidecars
    started before it, and only when that is more than what runs later.
    """
    total: Amounts = {}
    for container in spec.get("containers", ()):
        total = add(total, _own(container, side))
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in spec.get("initContainers", ()):
        own = _own(container, side)
        if container.get("restartPolicy") == "Always":
            total = add(total, own)
            sidecars = add(sidecars, own)
            most = greatest(most, sidecars)
        else:
            most = greatest(most, add(own, sidecars))
    total = greatest(total, most)
    pod_level = read_amounts(spec.get("resources", {}).get(side))
    total.update({name: pod_level[name] for name in _POD_LEVEL if name in pod_level})
    return add(total, read_amounts(spec.get("overhead"))) if total else total


def _own(container: Obj, side: str) -> Amounts:
    return read_amounts(container.get("resources", {}).get(side))
