"""The status of a Job: its counts, its conditions, and which pods are counted in it. Pure.

A pod is counted in two writes, so that a kill between any two leaves it counted exactly once:
the first notes its uid in `uncountedTerminatedPods` (or its index in `completedIndexes`), then
its finalizer goes, then the second write turns the noted uids that have lost their finalizer
into the counters (k8s.io/kubernetes/pkg/controller/job/job_controller.go,
trackJobStatusAndRemoveFinalizers).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from datetime import datetime

from onebox.api.controllers.intervals import format_indexes
from onebox.api.controllers.job_facts import Facts, index_of, is_failed, is_tracked
from onebox.api.controllers.job_plan import FAILURE, Verdict, is_delayed
from onebox.api.controllers.job_policy import match_failure
from onebox.api.controllers.objects import find_condition, is_deleting, status_of, uid_of
from onebox.api.controllers.podstate import phase_of
from onebox.api.resources import Obj
from onebox.api.store import clone
from onebox.api.timestamps import format_time


@dataclass(frozen=True)
class Tally:
    """How many of the Job's pods are in which state, after what was just done to them."""

    active: int
    ready: int
    terminating: int


def is_finished(job: Obj) -> bool:
    """True once the Job is Complete or Failed; it then never changes any more."""
    return any(
        condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True"
        for condition in status_of(job).get("conditions") or ()
    )


def begin(facts: Facts, *, may_suspend: bool) -> tuple[Obj, str | None]:
    """Start a new status: start time and the Suspended condition.

    Args:
        may_suspend: False when the Job ends now, so that suspension no longer matters.

    Returns:
        the status, and "Suspended" or "Resumed" if that just happened.
    """
    status = clone(status_of(facts.job))
    if "startTime" not in status and not facts.spec.suspended:
        status["startTime"] = format_time(facts.now)
    if not may_suspend:
        return status, None
    if facts.spec.suspended:
        if not set_condition(status, "Suspended", ("JobSuspended", "Job suspended"), facts.now):
            return status, None
        status.pop("startTime", None)
        return status, "Suspended"
    suspended = find_condition(status.get("conditions"), "Suspended")
    if suspended is None or suspended.get("status") == "False":
        return status, None
    suspended.update(_condition("Suspended", "False", ("JobResumed", "Job resumed"), facts.now))
    # activeDeadlineSeconds counts the time since the last resume.
    status["startTime"] = format_time(facts.now)
    return status, "Resumed"


def note(status: Obj, facts: Facts, verdict: Verdict | None) -> tuple[Obj, ...]:
    """Note in the status what has newly finished, and the interim condition.

    Returns:
        the pods whose finalizer may go once this status is written.
    """
    lists = status.get("uncountedTerminatedPods") or {}
    succeeded, failed = list(lists.get("succeeded") or ()), list(lists.get("failed") or ())
    release: list[Obj] = []
    for pod in facts.pods:
        if not is_tracked(pod) or not _may_release(facts, verdict, pod):
            continue
        release.append(pod)
        uid = uid_of(pod)
        if phase_of(pod) == "Succeeded" and uid not in failed:
            if not facts.spec.indexed and uid not in succeeded:
                succeeded.append(uid)
        elif uid not in failed and _counts_as_failed(facts, verdict, pod):
            failed.append(uid)
    status["uncountedTerminatedPods"] = _lists(succeeded, failed)
    if facts.spec.indexed:
        _note_indexes(status, facts)
    if verdict is not None:
        reason = (verdict.reason, verdict.message)
        if find_condition(status.get("conditions"), verdict.interim) is None:
            set_condition(status, verdict.interim, reason, facts.now)
    return tuple(release)


def _note_indexes(status: Obj, facts: Facts) -> None:
    set_count(status, "succeeded", len(facts.succeeded_indexes))
    set_text(status, "completedIndexes", format_indexes(facts.succeeded_indexes))
    if facts.failed_indexes is not None:
        status["failedIndexes"] = format_indexes(facts.failed_indexes)


def _may_release(facts: Facts, verdict: Verdict | None, pod: Obj) -> bool:
    if is_deleting(facts.job) or verdict is not None or phase_of(pod) == "Succeeded":
        return True
    return is_failed(pod, facts.spec) and not is_delayed(facts, pod)


def _counts_as_failed(facts: Facts, verdict: Verdict | None, pod: Obj) -> bool:
    if facts.spec.indexed and not facts.spec.is_index(index_of(pod)):
        return False
    ended = phase_of(pod) == "Failed"
    if verdict is not None and verdict.by_policy:
        counts = ended  # what the success policy cuts short has not failed
    elif verdict is not None and verdict.interim == FAILURE:
        counts = True
    else:
        counts = is_failed(pod, facts.spec)
    return counts and match_failure(facts.job, pod).counted


def settle(status: Obj, tracked: Container[str]) -> None:
    """Turn noted uids into counts once their pods are gone or without finalizer.

    Args:
        tracked: uids of the Job's pods that still have the finalizer.
    """
    lists = status.get("uncountedTerminatedPods") or {}
    rest: dict[str, list[str]] = {}
    for kind in ("succeeded", "failed"):
        noted = list(lists.get(kind) or ())
        rest[kind] = [uid for uid in noted if uid in tracked]
        settled = len(noted) - len(rest[kind])
        set_count(status, kind, int(status.get(kind) or 0) + settled)
    status["uncountedTerminatedPods"] = _lists(rest["succeeded"], rest["failed"])


def _lists(succeeded: list[str], failed: list[str]) -> Obj:
    lists = {"succeeded": succeeded, "failed": failed}
    return {kind: uids for kind, uids in lists.items() if uids}


def put_tally(status: Obj, tally: Tally) -> None:
    """Write the present numbers."""
    set_count(status, "active", tally.active)
    status["ready"] = tally.ready
    status["terminating"] = tally.terminating


def close(status: Obj, verdict: Verdict, tally: Tally, now: datetime) -> bool:
    """Add the final condition if nothing is uncounted or still terminating; True if it did."""
    if status.get("uncountedTerminatedPods") or tally.terminating or tally.active:
        return False
    set_condition(status, verdict.final, (verdict.reason, verdict.message), now)
    if verdict.final == "Complete":
        status["completionTime"] = format_time(now)
    return True


def set_condition(status: Obj, type_: str, reason: tuple[str, str], now: datetime) -> bool:
    """Make a condition True with (reason, message); True if that changed anything."""
    conditions = status.setdefault("conditions", [])
    new = _condition(type_, "True", reason, now)
    old = find_condition(conditions, type_)
    if old is None:
        conditions.append(new)
        return True
    if all(old.get(field) == new[field] for field in ("status", "reason", "message")):
        return False
    old.update(new)
    return True


def _condition(type_: str, value: str, reason: tuple[str, str], now: datetime) -> Obj:
    moment = format_time(now)
    return {
        "type": type_,
        "status": value,
        "lastProbeTime": moment,
        "lastTransitionTime": moment,
        "reason": reason[0],
        "message": reason[1],
    }


def set_count(status: Obj, field: str, count: int) -> None:
    """Write a count; a zero is left out, as upstream does."""
    if count:
        status[field] = count
    else:
        status.pop(field, None)


def set_text(status: Obj, field: str, text: str) -> None:
    """Write a text; an empty one is left out."""
    if text:
        status[field] = text
    else:
        status.pop(field, None)
