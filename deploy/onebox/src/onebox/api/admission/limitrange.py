"""LimitRange: defaults for containers, and bounds for containers, pods and claims. Pure.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/plugin/pkg/admission/limitranger/admission.go
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onebox.api.admission.totals import Amounts, pod_total, read_amounts
from onebox.api.kinds.pod_defaults import containers_of
from onebox.api.resources import Obj
from onebox.quantity import Quantity

ANNOTATION = "kubernetes.io/limit-ranger"


def apply_defaults(pod: Obj, limit_range: Obj) -> None:
    """Give containers without amounts the defaults, and say so in an annotation."""
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for limit in limit_range["spec"]["limits"]:
        if limit["type"] == "Container":
            requests.update(limit.get("defaultRequest", {}))
            limits.update(limit.get("default", {}))
    if not requests and not limits:
        return
    notes: list[str] = []
    for kind, word in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(kind, ()):
            resources = container.setdefault("resources", {})
            for side, defaults, text in (
                ("requests", requests, "request"),
                ("limits", limits, "limit"),
            ):
                have = resources.get(side, {})
                missing = sorted(defaults.keys() - have.keys())
                if missing:
                    resources[side] = {**have, **{name: defaults[name] for name in missing}}
                    notes.append(
                        f"{', '.join(missing)} {text} for {word} {container.get('name', '')}"
                    )
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def find_problems(plural: str, obj: Obj, limit_range: Obj) -> list[str]:
    """Name every bound that a new pod or claim breaks."""
    problems: list[str] = []
    for limit in limit_range["spec"]["limits"]:
        kind = limit["type"]
        if plural == "persistentvolumeclaims" and kind == "PersistentVolumeClaim":
            asked = read_amounts(obj["spec"].get("resources", {}).get("requests"))
            problems.extend(_check(limit, asked, {}, only_requests=True))
        elif plural == "pods" and kind == "Container":
            for container in containers_of(obj["spec"]):
                resources = container.get("resources", {})
                requests = read_amounts(resources.get("requests"))
                limits = read_amounts(resources.get("limits"))
                problems.extend(_check(limit, requests, limits))
        elif plural == "pods" and kind == "Pod":
            spec = obj["spec"]
            problems.extend(_check(limit, pod_total(spec, "requests"), pod_total(spec, "limits")))
    return problems


def _check(
    limit: Obj, requests: Amounts, limits: Amounts, *, only_requests: bool = False
) -> Iterator[str]:
    kind = limit["type"]
    for name, least in read_amounts(limit.get("min")).items():
        start = f"minimum {name} usage per {kind} is {least}"
        yield from _below(start, least, requests.get(name), limits.get(name))
    for name, most in read_amounts(limit.get("max")).items():
        start = f"maximum {name} usage per {kind} is {most}"
        yield from _above(start, most, requests.get(name), limits.get(name), only_requests)
    for name, ratio in read_amounts(limit.get("maxLimitRequestRatio")).items():
        start = f"{name} max limit to request ratio per {kind} is {ratio}"
        yield from _over_ratio(start, ratio, requests.get(name), limits.get(name))


def _below(
    start: str, least: Quantity, request: Quantity | None, limit: Quantity | None
) -> Iterable[str]:
    if request is None:
        return [f"{start}.  No request is specified"]
    if request < least:
        return [f"{start}, but request is {request}"]
    if limit is not None and limit < least:
        return [f"{start}, but limit is {limit}"]
    return []


def _above(
    start: str,
    most: Quantity,
    request: Quantity | None,
    limit: Quantity | None,
    only_requests: bool,
) -> Iterable[str]:
    if only_requests:
        if request is None:
            return [f"{start}.  No request is specified"]
    elif limit is None:
        return [f"{start}.  No limit is specified"]
    elif most < limit:
        return [f"{start}, but limit is {limit}"]
    if request is not None and most < request:
        return [f"{start}, but request is {request}"]
    return []


def _over_ratio(
    start: str, ratio: Quantity, request: Quantity | None, limit: Quantity | None
) -> Iterable[str]:
    if request is None or not request.nanos:
        return [f"{start}, but no request is specified or request is 0"]
    if limit is None or not limit.nanos:
        return [f"{start}, but no limit is specified or limit is 0"]
    found = limit.nanos / request.nanos
    if found * 1_000_000_000 > ratio.nanos:
        return [f"{start}, but provided ratio is {found:f}"]
    return []
