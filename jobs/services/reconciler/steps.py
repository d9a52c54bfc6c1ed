"""The start-up of a service as a list of steps, from what its pod shows. Pure.

Times are the cluster's where it tells them, brought into order, because the clocks of nodes differ.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from jobs.rules.reasons import clip

KEYS = ("requested", "admitted", "scheduled", "volumes", "image", "started", "ready")
DETAIL_MAX = 300  # characters: it is one line


@dataclass(frozen=True)
class Step:
    """One step; `state` is done, now, wait or failed; `at` is when it was done (or failed)."""

    key: str
    state: str = "wait"
    at: datetime | None = None
    detail: str = ""

    def as_json(self) -> dict[str, Any]:
        """As `Service.steps` keeps it."""
        at = self.at.isoformat(timespec="milliseconds") if self.at is not None else None
        return {"key": self.key, "state": self.state, "at": at, "detail": self.detail}


def load(raw: Sequence[Any]) -> tuple[Step, ...]:
    """The steps of a row; empty for one that nobody has looked at yet."""
    return tuple(
        Step(
            row["key"],
            row["state"],
            datetime.fromisoformat(row["at"]) if row["at"] else None,
            row["detail"],
        )
        for row in raw
    )


def dump(steps: Sequence[Step]) -> list[dict[str, Any]]:
    return [step.as_json() for step in steps]


def line(
    done: Sequence[tuple[datetime | None, str]],
    before: Sequence[Step],
    now: datetime,
    *,
    detail: str = "",
    failed: bool = False,
) -> tuple[Step, ...]:
    """The whole list: the first steps done, the next one going on (or failed), the others waiting.

    Args:
        done: when each step that is done was done, and a word about it; None: not known.
        before: the list so far, from which the times of what is done are kept.
        now: for what has no time at all.
        detail: of the step that goes on.
        failed: whether that step is where it ended.
    """
    kept = {step.key: step.at for step in before if step.state == "done"}
    steps: list[Step] = []
    latest: datetime | None = None
    for key, (at, word) in zip(KEYS, done, strict=False):
        told = kept.get(key) or at or now
        latest = told if latest is None else max(latest, told)
        # The cluster's clock may be ahead of ours.
        latest = min(latest, now)
        steps.append(Step(key, "done", latest, clip(word, DETAIL_MAX)))
    rest = KEYS[len(steps) :]
    if rest:
        state = "failed" if failed else "now"
        at = now if failed else None
        steps.append(Step(rest[0], state, at, clip(detail, DETAIL_MAX)))
        steps += [Step(key) for key in rest[1:]]
    return _with_kept_times(steps, before)


def _with_kept_times(steps: Sequence[Step], before: Sequence[Step]) -> tuple[Step, ...]:
    """Without changes that are none: a step that failed failed when it was first seen to."""
    known = {(step.key, step.state, step.detail): step.at for step in before}
    return tuple(
        replace(step, at=known.get((step.key, step.state, step.detail)) or step.at)
        if step.state == "failed"
        else step
        for step in steps
    )
