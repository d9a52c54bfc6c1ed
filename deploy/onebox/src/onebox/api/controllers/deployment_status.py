"""The status of a Deployment: counts, Available, Progressing, ReplicaFailure. Pure.

Rules and sentences of k8s.io/kubernetes/pkg/controller/deployment/{sync,progress}.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from onebox.api.controllers.deployment_plan import (
    NO_DEADLINE_S,
    actual_of,
    available_of,
    unavailable_of,
)
from onebox.api.controllers.objects import (
    find_condition,
    find_time,
    name_of,
    spec_of,
    status_of,
)
from onebox.api.controllers.replicaset import wanted_replicas
from onebox.api.resources import Obj
from onebox.api.store import clone
from onebox.api.timestamps import format_time

PROGRESSING = "Progressing"
TIMED_OUT = "ProgressDeadlineExceeded"
FINISHED = "NewReplicaSetAvailable"


def deadline_s(deployment: Obj) -> int | None:
    """progressDeadlineSeconds; None when progress is not to be judged."""
    value = spec_of(deployment).get("progressDeadlineSeconds")
    return None if value is None or value == NO_DEADLINE_S else int(value)


def count_status(deployment: Obj, new: Obj | None, olds: Sequence[Obj], now: datetime) -> Obj:
    """The status with fresh counts and the Available condition; other conditions as they were."""
    every = [*olds, *([new] if new else [])]
    available = sum(available_of(rs) for rs in every)
    counts = {
        "replicas": sum(actual_of(rs) for rs in every),
        "updatedReplicas": actual_of(new) if new else 0,
        "readyReplicas": sum(int(status_of(rs).get("readyReplicas") or 0) for rs in every),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(wanted_replicas(rs) for rs in every) - available),
    }
    status = clone(status_of(deployment))
    for field, count in counts.items():
        if count:
            status[field] = count
        else:
            status.pop(field, None)
    ending = [status_of(rs).get("terminatingReplicas") for rs in every]
    if None not in ending:
        status["terminatingReplicas"] = sum(ending)
    status["observedGeneration"] = deployment["metadata"].get("generation", 1)
    if available >= wanted_replicas(deployment) - unavailable_of(deployment):
        reason = ("MinimumReplicasAvailable", "Deployment has minimum availability.")
        put_condition(status, "Available", ("True", *reason), now)
    else:
        text = "Deployment does not have minimum availability."
        put_condition(status, "Available", ("False", "MinimumReplicasUnavailable", text), now)
    return status


def is_complete(deployment: Obj, status: Obj) -> bool:
    """True if all replicas are of the new template and available, and nothing else is left."""
    replicas = wanted_replicas(deployment)
    fields = ("updatedReplicas", "replicas", "availableReplicas")
    seen = int(status.get("observedGeneration") or 0)
    return all(int(status.get(f) or 0) == replicas for f in fields) and seen >= deployment[
        "metadata"
    ].get("generation", 1)


def judge_progress(deployment: Obj, new: Obj | None, status: Obj, now: datetime) -> None:
    """Set the Progressing condition in `status` (fresh counts) against the stored status."""
    if deadline_s(deployment) is None:
        drop_condition(status, PROGRESSING)
        return
    current = find_condition(status.get("conditions"), PROGRESSING)
    all_updated = status.get("replicas", 0) == status.get("updatedReplicas", 0)
    if all_updated and current is not None and current.get("reason") == FINISHED:
        return  # no rollout is under way
    subject = f'ReplicaSet "{name_of(new)}"' if new else f'Deployment "{name_of(deployment)}"'
    if is_complete(deployment, status):
        text = f"{subject} has successfully progressed."
        put_condition(status, PROGRESSING, ("True", FINISHED, text), now)
    elif _progressed(status_of(deployment), status):
        text = f"{subject} is progressing."
        put_condition(
            status, PROGRESSING, ("True", "ReplicaSetUpdated", text), now, even_if_same=True
        )
    elif progress_left_s(deployment, status, now) == 0:
        text = f"{subject} has timed out progressing."
        put_condition(status, PROGRESSING, ("False", TIMED_OUT, text), now)


def _progressed(before: Obj, after: Obj) -> bool:
    def count(status: Obj, field: str) -> int:
        return int(status.get(field) or 0)

    olds_before = count(before, "replicas") - count(before, "updatedReplicas")
    olds_after = count(after, "replicas") - count(after, "updatedReplicas")
    grown = ("updatedReplicas", "readyReplicas", "availableReplicas")
    return olds_after < olds_before or any(count(after, f) > count(before, f) for f in grown)


def progress_left_s(deployment: Obj, status: Obj, now: datetime) -> float | None:
    """Seconds until the rollout counts as stuck (0: it does); None when nothing is to be judged."""
    limit_s = deadline_s(deployment)
    current = find_condition(status.get("conditions"), PROGRESSING)
    if limit_s is None or current is None or spec_of(deployment).get("paused"):
        return None
    if is_complete(deployment, status) or current.get("reason") == FINISHED:
        return None
    if current.get("reason") == TIMED_OUT:
        return 0.0
    since = find_time(current.get("lastUpdateTime")) or now
    return max(0.0, (since + timedelta(seconds=limit_s) - now).total_seconds())


def judge_pause(deployment: Obj, status: Obj, now: datetime) -> None:
    """Note in Progressing that the Deployment was paused or resumed."""
    if deadline_s(deployment) is None:
        return
    current = find_condition(status.get("conditions"), PROGRESSING)
    reason = current.get("reason") if current else None
    if reason == TIMED_OUT:
        return
    paused = bool(spec_of(deployment).get("paused"))
    if paused and reason != "DeploymentPaused":
        text = ("Unknown", "DeploymentPaused", "Deployment is paused")
        put_condition(status, PROGRESSING, text, now)
    elif not paused and reason == "DeploymentPaused":
        text = ("Unknown", "DeploymentResumed", "Deployment is resumed")
        put_condition(status, PROGRESSING, text, now)


def carry_failure(status: Obj, new: Obj | None, olds: Sequence[Obj]) -> None:
    """Show the ReplicaFailure of the new ReplicaSet, else of an old one."""
    drop_condition(status, "ReplicaFailure")
    for rs in [*([new] if new else []), *olds]:
        failure = find_condition(status_of(rs).get("conditions"), "ReplicaFailure")
        if failure is not None:
            moment = failure.get("lastTransitionTime")
            status.setdefault("conditions", []).append({**failure, "lastUpdateTime": moment})
            return


def put_condition(
    status: Obj,
    type_: str,
    value: tuple[str, str, str],
    now: datetime,
    *,
    even_if_same: bool = False,
) -> None:
    """Set a condition to (status, reason, message).

    The same status and reason change nothing, unless `even_if_same`: then the time of the last
    update moves, which is what the progress deadline counts from.
    """
    conditions = status.setdefault("conditions", [])
    old = find_condition(conditions, type_)
    if old is not None and not even_if_same and (old["status"], old["reason"]) == value[:2]:
        return
    moment = format_time(now)
    same_status = old is not None and old["status"] == value[0]
    new = {
        "type": type_,
        "status": value[0],
        "lastUpdateTime": moment,
        "lastTransitionTime": old["lastTransitionTime"] if old and same_status else moment,
        "reason": value[1],
        "message": value[2],
    }
    if old is None:
        conditions.append(new)
    else:
        old.clear()
        old.update(new)


def drop_condition(status: Obj, type_: str) -> None:
    """Remove a condition."""
    rest = [c for c in status.get("conditions") or () if c.get("type") != type_]
    if rest:
        status["conditions"] = rest
    else:
        status.pop("conditions", None)
