"""What a DELETE does to an object: remove it, mark it, or nothing. Pure decisions.

Follows https://github.com/kubernetes/apiserver/blob/v0.36.3/pkg/registry/rest/delete.go
(BeforeDelete) and .../registry/generic/registry/store.go (finalizers for garbage collection).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from onebox.api.resources import Obj, Resource
from onebox.api.store import clone
from onebox.api.timestamps import format_time, parse_time

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
DEFAULT_POD_GRACE_S = 30


class Step(Enum):
    """What has to be done."""

    NOTHING = "nothing"  # a deletion is already under way
    MARK = "mark"
    REMOVE = "remove"


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """What the client asked for.

    Attributes:
        propagation: "Background", "Foreground", "Orphan" or None for the kind's default.
        grace_s: seconds a pod gets to end, None for its own setting.
    """

    propagation: str | None = None
    grace_s: int | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """The step, and the object as it is after it (REMOVE: its last state, written before)."""

    step: Step
    obj: Obj


def decide_deletion(
    resource: Resource, obj: Obj, request: DeleteRequest, now: datetime
) -> Decision:
    """Decide what a DELETE does to `obj`, which is not changed."""
    grace_s = request.grace_s
    if grace_s is not None and grace_s < 0:
        grace_s = 1  # as upstream: a negative period means "almost at once"
    new = clone(obj)
    if resource.plural == "namespaces":
        pending = _mark_namespace(new, now)
        if pending is not None:
            return Decision(pending, new)
    graceful_s: int | None = None
    if resource.plural == "pods":
        outcome = _grace_of_pod(new, grace_s, now)
        if outcome is Step.NOTHING:
            return Decision(Step.NOTHING, obj)
        graceful_s = outcome if isinstance(outcome, int) else None
    meta = new["metadata"]
    finalizers = _finalizers(resource, obj, request)
    if finalizers:
        meta["finalizers"] = finalizers
    else:
        meta.pop("finalizers", None)
    if graceful_s is None and finalizers:
        _mark(new, now)
    if finalizers or graceful_s:
        return Decision(Step.NOTHING if new == obj else Step.MARK, new)
    # A pod without any grace is still told of before it goes.
    return Decision(Step.REMOVE, obj if graceful_s is None else new)


def _mark_namespace(new: Obj, now: datetime) -> Step | None:
    meta = new["metadata"]
    if "deletionTimestamp" not in meta:
        meta["deletionTimestamp"] = format_time(now)
        new.setdefault("status", {})["phase"] = "Terminating"
        return Step.MARK
    if new.get("spec", {}).get("finalizers"):
        return Step.NOTHING
    return None


def _grace_of_pod(pod: Obj, asked_s: int | None, now: datetime) -> int | Step | None:
    """Mark a pod for a graceful end.

    Returns:
        the grace in seconds (0: remove at once), NOTHING when an earlier deletion stands,
        None when an earlier deletion has already used its grace up.
    """
    meta = pod["metadata"]
    if "deletionTimestamp" in meta:
        given_s = meta.get("deletionGracePeriodSeconds") or 0
        if given_s == 0:
            return None
        if asked_s is None or asked_s >= given_s:
            return Step.NOTHING
        moment = parse_time(meta["deletionTimestamp"]) + timedelta(seconds=asked_s - given_s)
        if moment < now:
            moment, asked_s = now, min(asked_s, 1)
        meta["deletionTimestamp"] = format_time(moment)
        meta["deletionGracePeriodSeconds"] = asked_s
        return asked_s
    spec = pod.get("spec", {})
    grace_s = asked_s
    if grace_s is None:
        grace_s = spec.get("terminationGracePeriodSeconds", DEFAULT_POD_GRACE_S)
    if not spec.get("nodeName") or pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        grace_s = 0
    if grace_s < 0:
        grace_s = 1
    meta["deletionTimestamp"] = format_time(now + timedelta(seconds=grace_s))
    meta["deletionGracePeriodSeconds"] = grace_s
    _bump_generation(meta)
    return int(grace_s)


def _mark(obj: Obj, now: datetime) -> None:
    meta = obj["metadata"]
    stamp = meta.get("deletionTimestamp")
    if stamp is None:
        _bump_generation(meta)
    if stamp is None or parse_time(stamp) > now:
        meta["deletionTimestamp"] = format_time(now)
    meta["deletionGracePeriodSeconds"] = 0


def _bump_generation(meta: Obj) -> None:
    if meta.get("generation"):
        meta["generation"] += 1


def _finalizers(resource: Resource, obj: Obj, request: DeleteRequest) -> list[str]:
    old: list[str] = obj["metadata"].get("finalizers", [])
    if resource.plural == "events":
        return old
    kept = [name for name in old if name not in (ORPHAN, FOREGROUND)]
    wanted = _propagation(resource, old, request)
    if wanted == "Orphan":
        kept.append(ORPHAN)
    elif wanted == "Foreground":
        kept.append(FOREGROUND)
    return old if set(kept) == set(old) else kept


def _propagation(resource: Resource, finalizers: list[str], request: DeleteRequest) -> str:
    if request.propagation is not None:
        return request.propagation
    # A finalizer that is already there overrides the default of the kind.
    if ORPHAN in finalizers:
        return "Orphan"
    if FOREGROUND in finalizers:
        return "Foreground"
    return "Orphan" if resource.orphans_by_default else "Background"


def is_finished_deleting(new: Obj, old: Obj) -> bool:
    """Tell whether an update took the last thing away that kept a deleted object alive."""
    meta = old["metadata"]
    if new["metadata"].get("finalizers") or "deletionTimestamp" not in meta:
        return False
    if new["kind"] == "Namespace" and new.get("spec", {}).get("finalizers"):
        return False
    return not meta.get("deletionGracePeriodSeconds")
