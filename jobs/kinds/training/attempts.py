"""Whether another attempt of a training follows a failed one, why, and what that costs. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from jobs.kinds.state import AttemptRow, WorkloadRow
from jobs.kinds.training.decision import Outcome
from jobs.kinds.training.replicas import Situation
from jobs.rules import reasons, restarts
from jobs.rules.reasons import Reason
from jobs.rules.restarts import Cause


@dataclass(frozen=True)
class NextAttempt:
    """Everything is made anew under new names.

    Attributes:
        why: what is said of it.
        counts: names of notes -> what they are by then.
    """

    cause: Cause
    why: Reason
    counts: Mapping[str, int]


def cause_of(row: WorkloadRow) -> Cause:
    """Why the current attempt began, as far as the row tells."""
    if row.notes.attempt_cause:
        return Cause(row.notes.attempt_cause)
    if row.attempt == 1:
        return Cause.FIRST
    return Cause.RETRY if row.notes.retries_used else Cause.WITHDRAWN


def follow(now: Situation, attempt: AttemptRow, outcome: Outcome) -> NextAttempt | Reason:
    """The next attempt after a failed one, or why the training has failed."""
    if outcome.lost:
        return _follow_loss(now, attempt, outcome)
    root = now.observed.root
    # A Job of an earlier version has tried again by itself, as often as it may.
    is_over = root is not None and root.retries_itself
    if not outcome.may_retry or is_over or not _has_retries(now):
        return outcome.reason
    counts = _counts(now, attempt, is_retry=True)
    return NextAttempt(Cause.RETRY, _retrying(now, outcome.reason), {**counts, "free_attempts": 0})


def _follow_loss(now: Situation, attempt: AttemptRow, outcome: Outcome) -> NextAttempt | Reason:
    """The cluster ended the attempt: another one costs nothing, unless that has become the rule."""
    is_steady = _was_steady(attempt, now.now)
    free = 0 if is_steady else now.row.notes.free_attempts
    if free < restarts.FREE_IN_A_ROW:
        counts = _counts(now, attempt, is_retry=False)
        more = {"free_attempts": 0 if is_steady else free + 1}
        return NextAttempt(outcome.cause, outcome.reason, {**counts, **more})
    why = reasons.make("disrupted_often", count=free, who=outcome.lost)
    if not _has_retries(now):
        return why
    counts = _counts(now, attempt, is_retry=True)
    return NextAttempt(outcome.cause, _retrying(now, why), counts)


def _has_retries(now: Situation) -> bool:
    return now.row.notes.retries_used < now.run_policy.retries


def _was_steady(attempt: AttemptRow, now: datetime) -> bool:
    """Whether it ran for long enough to begin counting anew."""
    since = attempt.started_at
    return since is not None and (now - since).total_seconds() >= restarts.STEADY_S


def _counts(now: Situation, attempt: AttemptRow, *, is_retry: bool) -> dict[str, int]:
    notes = now.row.notes
    short = 1 if _was_steady(attempt, now.now) else notes.short_attempts + 1
    return {"short_attempts": short, "retries_used": notes.retries_used + is_retry}


def _retrying(now: Situation, cause: Reason) -> Reason:
    number, most = now.row.notes.retries_used + 1, now.run_policy.retries
    return reasons.make("retrying", cause=cause.text, number=number, most=most)
