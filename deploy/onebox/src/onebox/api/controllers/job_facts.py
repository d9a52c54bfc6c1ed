"""What a Job and its pods amount to: who is active, what is newly finished, what is counted. Pure.

Counting is exact over a restart at any instant because every pod of a Job carries the finalizer
`batch.kubernetes.io/job-tracking` until the status says that it is counted
(https://kubernetes.io/docs/concepts/workloads/controllers/job/#job-tracking-with-finalizers):
a finished pod with the finalizer is new, one without is already in the numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from onebox.api.controllers.intervals import parse_indexes
from onebox.api.controllers.job_backoff import Backoff, after
from onebox.api.controllers.job_policy import match_failure
from onebox.api.controllers.objects import (
    annotations_of,
    finalizers_of,
    has_condition,
    is_deleting,
    spec_of,
    status_of,
    uid_of,
)
from onebox.api.controllers.podstate import (
    finished_at,
    is_active,
    is_ready,
    is_terminating,
    phase_of,
)
from onebox.api.resources import Obj

TRACKING = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
DEFAULT_BACKOFF_LIMIT = 6


@dataclass(frozen=True)
class JobSpec:
    """The numbers of a Job's spec, defaults filled in.

    Attributes:
        completions: None for a work queue (any success is enough).
        limit_per_index: backoffLimitPerIndex, None when not set.
        replaces_only_failed: a pod that is being deleted is not replaced before it has ended.
    """

    indexed: bool
    completions: int | None
    parallelism: int
    backoff_limit: int
    limit_per_index: int | None
    suspended: bool
    replaces_only_failed: bool

    def is_index(self, index: int | None) -> bool:
        """True for an index that the Job has."""
        return index is not None and index < (self.completions or 0)


def read_spec(job: Obj) -> JobSpec:
    """Read the spec of a Job."""
    spec = spec_of(job)
    parallelism = spec.get("parallelism")
    limit = spec.get("backoffLimit")
    return JobSpec(
        indexed=spec.get("completionMode") == "Indexed",
        completions=spec.get("completions"),
        parallelism=1 if parallelism is None else int(parallelism),
        backoff_limit=DEFAULT_BACKOFF_LIMIT if limit is None else int(limit),
        limit_per_index=spec.get("backoffLimitPerIndex"),
        suspended=bool(spec.get("suspend")),
        replaces_only_failed=spec.get("podReplacementPolicy") == "Failed"
        or spec.get("podFailurePolicy") is not None,
    )


@dataclass(frozen=True)
class Facts:
    """A Job, its pods, and what follows from them at one moment.

    Attributes:
        active: neither finished nor being deleted, in the Api's order.
        condemned: active without the finalizer: their removal was begun and not finished.
        succeeded, failed: the counts including what has newly finished.
        counted_indexes, succeeded_indexes: before and including what has newly succeeded.
        failed_indexes: None when the Job has no limit per index.
        replaceable: per index, the last failed pod, which is kept until its replacement exists
            because it carries the index's failure count.
        backoff: including what has newly finished.
    """

    job: Obj
    spec: JobSpec
    pods: tuple[Obj, ...]
    now: datetime
    active: tuple[Obj, ...]
    condemned: tuple[Obj, ...]
    terminating: int
    ready: int
    succeeded: int
    failed: int
    counted_indexes: frozenset[int]
    succeeded_indexes: frozenset[int]
    failed_indexes: frozenset[int] | None
    replaceable: dict[int, Obj]
    backoff: Backoff


def index_of(pod: Obj) -> int | None:
    """The completion index of a pod, or None."""
    text = annotations_of(pod).get(INDEX, "")
    return int(text) if text.isdecimal() else None


def is_tracked(pod: Obj) -> bool:
    """True while the pod is not counted yet."""
    return TRACKING in finalizers_of(pod)


def annotated_count(pod: Obj, annotation: str) -> int:
    """A count kept in an annotation; 0 when it is absent or no number."""
    text = annotations_of(pod).get(annotation, "")
    return int(text) if text.isdecimal() else 0


def is_failed(pod: Obj, spec: JobSpec) -> bool:
    """True if the pod counts as failed.

    A pod that is being deleted counts at once, unless only failed pods are replaced.
    """
    if phase_of(pod) == "Failed":
        return True
    if spec.replaces_only_failed:
        return False
    return is_deleting(pod) and phase_of(pod) != "Succeeded"


def is_to_fail(job: Obj) -> bool:
    """True once it is written that the Job fails."""
    return has_condition(job, "FailureTarget")


def uncounted(job: Obj) -> tuple[list[str], list[str]]:
    """The uids in status.uncountedTerminatedPods: succeeded, failed."""
    lists = status_of(job).get("uncountedTerminatedPods") or {}
    return list(lists.get("succeeded") or ()), list(lists.get("failed") or ())


def look(job: Obj, pods: Sequence[Obj], now: datetime, backoff: Backoff) -> Facts:
    """Work out the facts; `backoff` is the one before the pods that newly finished."""
    spec = read_spec(job)
    status = status_of(job)
    noted_succeeded, noted_failed = uncounted(job)
    new_succeeded = _new(spec, pods, noted_succeeded, lambda p: phase_of(p) == "Succeeded")
    new_failed = _new(spec, pods, noted_failed, lambda p: is_failed(p, spec))
    active = tuple(pod for pod in pods if is_active(pod))
    counted, succeeded_indexes = _succeeded_indexes(job, spec, pods)
    failed_indexes = _failed_indexes(job, spec, pods)
    succeeded = int(status.get("succeeded") or 0) + len(new_succeeded) + len(noted_succeeded)
    heavy = [pod for pod in new_failed if match_failure(job, pod).counted]
    return Facts(
        job=job,
        spec=spec,
        pods=tuple(pods),
        now=now,
        active=active,
        condemned=tuple(pod for pod in active if not is_tracked(pod)),
        terminating=sum(1 for pod in pods if is_terminating(pod)),
        ready=sum(1 for pod in active if is_ready(pod)),
        succeeded=len(succeeded_indexes) if spec.indexed else succeeded,
        failed=int(status.get("failed") or 0) + len(heavy) + len(noted_failed),
        counted_indexes=counted,
        succeeded_indexes=succeeded_indexes,
        failed_indexes=failed_indexes,
        replaceable=_replaceable(spec, pods, active, succeeded_indexes | (failed_indexes or set())),
        backoff=after(backoff, new_succeeded, new_failed),
    )


def _new(
    spec: JobSpec, pods: Sequence[Obj], noted: Sequence[str], test: Callable[[Obj], bool]
) -> list[Obj]:
    return [
        pod
        for pod in pods
        if is_tracked(pod)
        and uid_of(pod) not in noted
        and (not spec.indexed or spec.is_index(index_of(pod)))
        and test(pod)
    ]


def _succeeded_indexes(
    job: Obj, spec: JobSpec, pods: Sequence[Obj]
) -> tuple[frozenset[int], frozenset[int]]:
    if not spec.indexed:
        return frozenset(), frozenset()
    counted = parse_indexes(status_of(job).get("completedIndexes"), spec.completions or 0)
    new = {
        index
        for pod in pods
        if phase_of(pod) == "Succeeded"
        and is_tracked(pod)
        and (index := index_of(pod)) is not None
        and spec.is_index(index)
    }
    return frozenset(counted), frozenset(counted | new)


def _failed_indexes(job: Obj, spec: JobSpec, pods: Sequence[Obj]) -> frozenset[int] | None:
    if not spec.indexed or spec.limit_per_index is None:
        return None
    failed = parse_indexes(status_of(job).get("failedIndexes"), spec.completions or 0)
    if is_to_fail(job):
        return frozenset(failed)  # pods that now end were ended by us
    for pod in pods:
        index = index_of(pod)
        if index is None or not spec.is_index(index) or not is_tracked(pod):
            continue
        if is_failed(pod, spec) and _fails_index(job, pod, spec.limit_per_index):
            failed.add(index)
    return frozenset(failed)


def _fails_index(job: Obj, pod: Obj, limit: int) -> bool:
    match = match_failure(job, pod)
    if match.action == "FailIndex":
        return True
    return match.counted and annotated_count(pod, FAILURES) >= limit


def _replaceable(
    spec: JobSpec, pods: Sequence[Obj], active: Sequence[Obj], settled: frozenset[int] | set[int]
) -> dict[int, Obj]:
    if not spec.indexed or spec.limit_per_index is None:
        return {}
    busy = {index_of(pod) for pod in active}
    last: dict[int, Obj] = {}
    for pod in pods:
        index = index_of(pod)
        if index is None or not spec.is_index(index) or not is_tracked(pod):
            continue
        if index in settled or index in busy or not is_failed(pod, spec):
            continue
        if index not in last or _is_later(pod, last[index]):
            last[index] = pod
    return last


def _is_later(pod: Obj, other: Obj) -> bool:
    return attempts_of(pod) >= attempts_of(other) and finished_at(pod) >= finished_at(other)


def attempts_of(pod: Obj) -> int:
    """Failures of the pod's index before it, ignored ones included."""
    return annotated_count(pod, FAILURES) + annotated_count(pod, IGNORED_FAILURES)
