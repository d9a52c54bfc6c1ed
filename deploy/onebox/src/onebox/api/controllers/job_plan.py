"""What to do about a Job's pods now: end it, remove some, create some, or wait. Pure.

Decisions and sentences of k8s.io/kubernetes/pkg/controller/job/job_controller.go (1.36).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from onebox.api.controllers.job_backoff import Backoff
from onebox.api.controllers.job_facts import (
    FAILURES,
    IGNORED_FAILURES,
    Facts,
    annotated_count,
    attempts_of,
    index_of,
    is_failed,
    is_tracked,
)
from onebox.api.controllers.job_policy import match_failure, match_success
from onebox.api.controllers.objects import (
    find_condition,
    find_time,
    is_deleting,
    spec_of,
    status_of,
    uid_of,
)
from onebox.api.controllers.podstate import (
    cheapest_first,
    finished_at,
    is_terminating,
    phase_of,
    restart_count,
)
from onebox.api.resources import Obj

MOST_PODS_PER_SYNC = 500

SUCCESS = "SuccessCriteriaMet"
FAILURE = "FailureTarget"


@dataclass(frozen=True)
class Verdict:
    """How the Job ends.

    Attributes:
        interim: SuccessCriteriaMet or FailureTarget, set before the pods are counted.
        by_policy: the successPolicy decided; pods still running do not count as failed.
    """

    interim: str
    reason: str
    message: str
    by_policy: bool = False

    @property
    def final(self) -> str:
        """The condition that closes the Job."""
        return "Complete" if self.interim == SUCCESS else "Failed"


COMPLETED = Verdict(SUCCESS, "CompletionsReached", "Reached expected number of succeeded pods")


@dataclass(frozen=True)
class NewPod:
    """A pod to create: its index (None: not indexed) and the failures of its index before it."""

    index: int | None = None
    failures: int | None = None
    ignored_failures: int = 0


@dataclass(frozen=True)
class PodPlan:
    """What to do about the pods.

    Attributes:
        verdict: the Job ends; `end` are then all its active pods, which still get counted.
        end: delete, keeping the finalizer until the pod is counted.
        drop: delete without counting (suspended, too many, duplicate index).
        wake_after_s: look again then, even if nothing changes.
    """

    verdict: Verdict | None = None
    end: tuple[Obj, ...] = ()
    drop: tuple[Obj, ...] = ()
    create: tuple[NewPod, ...] = ()
    wake_after_s: float | None = None


def plan_pods(facts: Facts) -> PodPlan:
    """Decide about the pods of a Job that is not finished."""
    verdict = judge(facts)
    if verdict is not None:
        return PodPlan(verdict=verdict, end=facts.active)
    if is_deleting(facts.job):
        return PodPlan()
    deadline_s = deadline_in_s(facts)
    drop = _surplus(facts)
    if drop:
        return PodPlan(drop=drop, wake_after_s=deadline_s)
    create, wait_s = _missing(facts)
    waits = [s for s in (deadline_s, wait_s) if s is not None]
    return PodPlan(create=create, wake_after_s=min(waits, default=None))


def judge(facts: Facts) -> Verdict | None:
    """Decide whether the Job has to end before its completions are reached (or has to already)."""
    conditions = status_of(facts.job).get("conditions")
    for interim in (SUCCESS, FAILURE):
        met = find_condition(conditions, interim)
        if met is not None and met.get("status") == "True":
            reason, message = str(met.get("reason") or ""), str(met.get("message") or "")
            return Verdict(interim, reason, message, by_policy=reason == "SuccessPolicy")
    return _failure(facts) or _index_failure(facts) or _success_by_policy(facts)


def _failure(facts: Facts) -> Verdict | None:
    for pod in facts.pods:
        if is_failed(pod, facts.spec):
            message = match_failure(facts.job, pod).message
            if message is not None:
                return Verdict(FAILURE, "PodFailurePolicy", message)
    if facts.failed > facts.spec.backoff_limit or _restarts_exceed_limit(facts):
        return Verdict(
            FAILURE, "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        )
    deadline_s = deadline_in_s(facts)
    if deadline_s is not None and deadline_s <= 0:
        return Verdict(FAILURE, "DeadlineExceeded", "Job was active longer than specified deadline")
    return None


def _restarts_exceed_limit(facts: Facts) -> bool:
    template = spec_of(facts.job).get("template") or {}
    if spec_of(template).get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        restart_count(pod) for pod in facts.pods if phase_of(pod) in ("Running", "Pending")
    )
    limit = facts.spec.backoff_limit
    return restarts > 0 if limit == 0 else restarts >= limit


def _index_failure(facts: Facts) -> Verdict | None:
    if facts.failed_indexes is None:
        return None
    failed, most = len(facts.failed_indexes), spec_of(facts.job).get("maxFailedIndexes")
    if most is not None and failed > most:
        return Verdict(
            FAILURE,
            "MaxFailedIndexesExceeded",
            "Job has exceeded the specified maximal number of failed indexes",
        )
    if failed and failed + len(facts.succeeded_indexes) >= (facts.spec.completions or 0):
        return Verdict(FAILURE, "FailedIndexes", "Job has failed indexes")
    return None


def _success_by_policy(facts: Facts) -> Verdict | None:
    if not facts.spec.indexed:
        return None
    message = match_success(facts.job, facts.succeeded_indexes)
    return Verdict(SUCCESS, "SuccessPolicy", message, by_policy=True) if message else None


def deadline_in_s(facts: Facts) -> float | None:
    """Seconds until activeDeadlineSeconds is over; None when none runs."""
    limit_s = spec_of(facts.job).get("activeDeadlineSeconds")
    if limit_s is None or facts.spec.suspended:
        return None
    started = find_time(status_of(facts.job).get("startTime")) or facts.now
    return (started + timedelta(seconds=limit_s) - facts.now).total_seconds()


def is_complete(facts: Facts, active: int) -> bool:
    """True if enough pods have succeeded and none is active any more."""
    if active:
        return False
    if facts.spec.completions is None:
        return facts.succeeded > 0
    return facts.succeeded >= facts.spec.completions


def _wanted(facts: Facts) -> int:
    if facts.spec.completions is None:
        return len(facts.active) if facts.succeeded else facts.spec.parallelism
    return max(0, min(facts.spec.parallelism, facts.spec.completions - facts.succeeded))


def _surplus(facts: Facts) -> tuple[Obj, ...]:
    """Active pods to remove: all when suspended, else duplicates and those beyond the number."""
    if facts.spec.suspended:
        return facts.active
    extra = max(0, len(facts.active) - _wanted(facts))
    drop = list(facts.condemned)
    kept = [pod for pod in facts.active if is_tracked(pod)]
    if facts.spec.indexed:
        duplicates, kept = _duplicates(facts, kept)
        drop.extend(duplicates)
    if len(drop) < extra:
        drop.extend(cheapest_first(kept)[: extra - len(drop)])
    return tuple(drop[:MOST_PODS_PER_SYNC])


def _duplicates(facts: Facts, pods: list[Obj]) -> tuple[list[Obj], list[Obj]]:
    by_index: dict[int | None, list[Obj]] = {}
    for pod in pods:
        index = index_of(pod)
        by_index.setdefault(index if facts.spec.is_index(index) else None, []).append(pod)
    drop, kept = list(by_index.pop(None, [])), []
    for same in by_index.values():
        *rest, best = cheapest_first(same) if len(same) > 1 else same
        drop.extend(rest)
        kept.append(best)
    return drop, kept


def _missing(facts: Facts) -> tuple[tuple[NewPod, ...], float | None]:
    """Pods to create now, or the seconds until some may be created."""
    waiting_for = facts.terminating if facts.spec.replaces_only_failed else 0
    count = min(MOST_PODS_PER_SYNC, _wanted(facts) - waiting_for - len(facts.active))
    if facts.spec.suspended or count <= 0:
        return (), None
    if not facts.spec.indexed or facts.spec.limit_per_index is None:
        wait_s = facts.backoff.wait_s(facts.now)
        if wait_s > 0:
            return (), wait_s
    if not facts.spec.indexed:
        return (NewPod(),) * count, None
    return _missing_indexes(facts, count)


def _missing_indexes(facts: Facts, count: int) -> tuple[tuple[NewPod, ...], float | None]:
    taken = {index_of(pod) for pod in facts.active} | facts.succeeded_indexes
    taken |= facts.failed_indexes or frozenset()
    if facts.spec.replaces_only_failed:
        taken |= {index_of(pod) for pod in facts.pods if is_terminating(pod)}
    pending = [i for i in range(facts.spec.completions or 0) if i not in taken][:count]
    if facts.spec.limit_per_index is None:
        return tuple(NewPod(index) for index in pending), None
    waits = {index: _index_wait_s(facts.replaceable.get(index), facts.now) for index in pending}
    now = [index for index in pending if waits[index] <= 0]
    later = [wait_s for wait_s in waits.values() if wait_s > 0]
    return tuple(_replacement(facts, index) for index in now), min(later, default=None)


def _index_wait_s(failed: Obj | None, now: datetime) -> float:
    if failed is None:
        return 0.0
    return Backoff(attempts_of(failed) + 1, finished_at(failed)).wait_s(now)


def _replacement(facts: Facts, index: int) -> NewPod:
    failed = facts.replaceable.get(index)
    if failed is None:
        return NewPod(index, failures=0)
    failures = annotated_count(failed, FAILURES)
    ignored = annotated_count(failed, IGNORED_FAILURES)
    if match_failure(facts.job, failed).counted:
        failures += 1
    else:
        ignored += 1
    return NewPod(index, failures, ignored)


def is_delayed(facts: Facts, pod: Obj) -> bool:
    """True if a failed pod keeps its finalizer until its index has a replacement."""
    index = index_of(pod)
    if index is None or index not in facts.replaceable:
        return False
    return uid_of(facts.replaceable[index]) == uid_of(pod)
