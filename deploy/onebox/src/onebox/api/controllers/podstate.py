"""What controllers want to know of a pod: active, ready, finished when.

Pure. The rules are those of k8s.io/kubernetes/pkg/controller (controller_utils.go) and
pkg/api/v1/pod.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from onebox.api.controllers.objects import (
    annotations_of,
    created_at,
    find_condition,
    find_time,
    is_deleting,
    name_of,
    spec_of,
    status_of,
)
from onebox.api.resources import Obj

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def phase_of(pod: Obj) -> str:
    """The phase; a pod that nobody has looked at yet is Pending."""
    return str(status_of(pod).get("phase") or "Pending")


def is_terminal(pod: Obj) -> bool:
    """True if no container of the pod will ever run again."""
    return phase_of(pod) in ("Succeeded", "Failed")


def is_active(pod: Obj) -> bool:
    """True if the pod counts as running: neither finished nor being deleted."""
    return not is_terminal(pod) and not is_deleting(pod)


def is_terminating(pod: Obj) -> bool:
    """True if the pod is being deleted but its containers have not all ended."""
    return not is_terminal(pod) and is_deleting(pod)


def is_ready(pod: Obj) -> bool:
    """True if the pod's Ready condition is True."""
    condition = find_condition(status_of(pod).get("conditions"), "Ready")
    return condition is not None and condition.get("status") == "True"


def ready_since(pod: Obj) -> datetime | None:
    """Since when the pod is ready; None if it is not."""
    condition = find_condition(status_of(pod).get("conditions"), "Ready")
    if condition is None or condition.get("status") != "True":
        return None
    return find_time(condition.get("lastTransitionTime"))


def available_in_s(pod: Obj, min_ready_s: int, now: datetime) -> float | None:
    """Seconds until the pod is available: 0 is now, None means it is not ready."""
    if not is_ready(pod):
        return None
    if min_ready_s <= 0:
        return 0.0
    since = ready_since(pod)
    if since is None:
        return None
    return max(0.0, (since + timedelta(seconds=min_ready_s) - now).total_seconds())


def finished_at(pod: Obj) -> datetime:
    """When the pod ended, by the best evidence there is.

    Order as upstream (pkg/controller/job/backoff_utils.go): the latest end of its containers, the
    moment it lost readiness, the moment its deletion was asked for, its creation.
    """
    return (
        _containers_finished_at(pod)
        or _unready_since(pod)
        or _deletion_asked_at(pod)
        or created_at(pod)
    )


def _containers_finished_at(pod: Obj) -> datetime | None:
    latest: datetime | None = None
    for status in status_of(pod).get("containerStatuses") or ():
        terminated = (status.get("state") or {}).get("terminated")
        moment = find_time((terminated or {}).get("finishedAt"))
        if moment is None:
            return None
        latest = moment if latest is None else max(latest, moment)
    return latest


def _unready_since(pod: Obj) -> datetime | None:
    condition = find_condition(status_of(pod).get("conditions"), "Ready")
    if condition is None or condition.get("status") != "False":
        return None
    return find_time(condition.get("lastTransitionTime"))


def _deletion_asked_at(pod: Obj) -> datetime | None:
    moment = find_time(pod["metadata"].get("deletionTimestamp"))
    grace_s = pod["metadata"].get("deletionGracePeriodSeconds") or 0
    return moment - timedelta(seconds=grace_s) if moment else None


def restart_count(pod: Obj) -> int:
    """Restarts of all containers and init containers together."""
    status = status_of(pod)
    every = (status.get("initContainerStatuses") or []) + (status.get("containerStatuses") or [])
    return sum(int(s.get("restartCount") or 0) for s in every)


def cheapest_first(pods: Iterable[Obj]) -> list[Obj]:
    """Sort so that the pods whose loss costs least come first.

    Unassigned before assigned, pending before running, unready before ready, lower deletion cost,
    ready for a shorter time, more restarts, younger (controller.ActivePods upstream); then by name.
    """
    return sorted(pods, key=_loss)


def _loss(pod: Obj) -> tuple[int, int, int, int, float, int, float, str]:
    since = ready_since(pod)
    return (
        1 if spec_of(pod).get("nodeName") else 0,
        {"Pending": 0, "Unknown": 1}.get(phase_of(pod), 2),
        1 if is_ready(pod) else 0,
        _deletion_cost(pod),
        -since.timestamp() if since else 0.0,
        -restart_count(pod),
        -created_at(pod).timestamp(),
        name_of(pod),
    )


def _deletion_cost(pod: Obj) -> int:
    try:
        return int(annotations_of(pod).get(DELETION_COST, "0"))
    except ValueError:
        return 0
