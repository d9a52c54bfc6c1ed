"""Whether the node takes a pod that was bound to it: resources, GPUs, and what it can do.

Rules: pkg/kubelet/lifecycle/predicate.go. The scheduler normally never sends a pod that does
not fit; pods bound by hand, or by two schedulers at once, are refused here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onebox.node.client import Json
from onebox.node.record import Role, roles
from onebox.quantity import parse_quantity


class RefusedError(Exception):
    """The node does not take the pod: it becomes Failed with this reason and message."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = f"Pod was rejected: {message}"


def pod_requests(pod: Json) -> dict[str, int]:
    """Sum what a pod requests, in billionths of each resource's unit.

    Init containers run one after the other, so the largest counts, on top of the sidecars that
    started before it.
    https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/#resource-sharing-within-containers
    """
    sidecars: dict[str, int] = {}
    mains: dict[str, int] = {}
    most: dict[str, int] = {}
    for role, container in roles(pod):
        wanted = _requests(container)
        if role is Role.SIDECAR:
            _add(sidecars, wanted)
        elif role is Role.INIT:
            for name, amount in wanted.items():
                most[name] = max(most.get(name, 0), amount + sidecars.get(name, 0))
        else:
            _add(mains, wanted)
    _add(mains, sidecars)
    total = {name: max(mains.get(name, 0), most.get(name, 0)) for name in {*mains, *most}}
    overhead = pod["spec"].get("overhead") or {}
    _add(total, {name: parse_quantity(str(text)).nanos for name, text in overhead.items()})
    return total


def _requests(container: Json) -> dict[str, int]:
    resources = container.get("resources") or {}
    # A limit without a request is a request as well (the API server defaults it so).
    merged = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: parse_quantity(str(text)).nanos for name, text in merged.items()}


def _add(total: dict[str, int], more: Mapping[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def check_resources(pod: Json, others: Iterable[Json], allocatable: Mapping[str, str]) -> None:
    """Check that a pod fits beside the others.

    Args:
        others: the pods that this node has taken and that are not finished.

    Raises:
        RefusedError: reason OutOf<resource>, with the kubelet's arithmetic.
    """
    used: dict[str, int] = {}
    count = 0
    for other in others:
        count += 1
        _add(used, pod_requests(other))
    capacity = {name: parse_quantity(str(text)).nanos for name, text in allocatable.items()}
    pods_unit = parse_quantity("1").nanos
    if count + 1 > capacity.get("pods", 0) // pods_unit:
        raise _out_of("pods", 1, count, capacity.get("pods", 0) // pods_unit)
    for name, wanted in sorted(pod_requests(pod).items()):
        if wanted and wanted + used.get(name, 0) > capacity.get(name, 0):
            # The kubelet writes CPU in millicores and everything else in whole units.
            unit = pods_unit // 1000 if name == "cpu" else pods_unit
            have = capacity.get(name, 0) // unit
            raise _out_of(name, wanted // unit, used.get(name, 0) // unit, have)


def _out_of(name: str, wanted: int, used: int, capacity: int) -> RefusedError:
    return RefusedError(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, "
        f"requested: {wanted}, used: {used}, capacity: {capacity}",
    )


def check_abilities(pod: Json) -> None:
    """Check that the pod asks for nothing that this node would have to fake.

    Raises:
        RefusedError: reason NotOfferedByNode, naming the field.
    """
    spec = pod["spec"]
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            raise RefusedError(
                "NotOfferedByNode", f"spec.{field} is not offered: pods here share nothing of it"
            )
    for _, container in roles(pod):
        if (container.get("securityContext") or {}).get("privileged"):
            raise RefusedError(
                "NotOfferedByNode",
                f'container "{container["name"]}" asks for privileged, which is not offered: '
                "containers of this node never get capabilities",
            )
