"""What `homeport doctor` makes of what it saw: steps, a verdict, words. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime

from .answers import Json, reason_of
from .exits import REFUSED, ClientError
from .sanitize import one_line
from .version import install_step

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
_MARKS = {PASSED: "✓", FAILED: "✗", SKIPPED: "-"}
COLOURS = {PASSED: "green", FAILED: "red", SKIPPED: "yellow"}
# Why something is queued though Homeport is well, and why it is refused.
_NO_ROOM = frozenset({"quota", "nodes", "nodes_closed", "queue", "withdrawn"}) | {
    "over_quota",
    "over_node",
    "over_cluster",
}
_NO_FAULT = frozenset({"never_fits", "too_many", "too_many_changes"})
_PULLS = frozenset({"Pulling", "Pulled", "Failed", "BackOff", "ErrImageNeverPull"})
ADMIN = "Tell your admin; the health page may say more."


@dataclass(frozen=True)
class DoctorStep:
    """One step. `took_s` is all its time, of which it was queued and waited for images."""

    name: str
    outcome: str
    words: str
    next_step: str = ""
    took_s: float = 0
    queued_s: float = 0
    pull_s: float = 0

    @property
    def line(self) -> str:
        """It on one line, without its next step."""
        apart = [("queued", self.queued_s), ("pulling images", self.pull_s)]
        told = "".join(f", {word} {spent:.0f} s" for word, spent in apart if spent >= 1)
        time = f"{self.took_s:5.1f} s"
        return f"{_MARKS[self.outcome]} {self.outcome:7}  {self.name:11}  {time}  {one_line(self.words)}{told}"


def cannot_try(text: str, next_step: str) -> ClientError:
    """It cannot be tried, and that is no fault of Homeport's."""
    return ClientError(text, next_step, REFUSED)


def outcome_of(error: ClientError) -> str:
    """Whether an error is a fault of what was tried, or was only in its way."""
    is_no_fault = error.code == REFUSED and not (
        error.status and not any(one.code in _NO_FAULT for one in error.refusals)
    )
    return SKIPPED if is_no_fault else FAILED


def verdict(steps: Sequence[DoctorStep]) -> str:
    """`failed` where one has; `incomplete` where one could not be tried; else `passed`."""
    found = {step.outcome for step in steps}
    return FAILED if FAILED in found else "incomplete" if SKIPPED in found else PASSED


def document(steps: Sequence[DoctorStep], version: str, at: datetime) -> Json:
    """What `-o json` prints and the health page shows; docs/users/cli.md."""
    rows = [asdict(step) for step in steps]
    for row in rows:
        row.update({key: round(row[key], 1) for key in ("took_s", "queued_s", "pull_s")})
    sums = {key: round(sum(row[key] for row in rows), 1) for key in ("queued_s", "pull_s")}
    took_s = round(sum(row["took_s"] for row in rows), 1)
    told = {"kind": "doctor", "at": at.isoformat(timespec="seconds"), "version": version}
    return {**told, "verdict": verdict(steps), "took_s": took_s, **sums, "checks": rows}


def summary(steps: Sequence[DoctorStep]) -> str:
    """The last line."""
    apart_s = sum(step.queued_s + step.pull_s for step in steps)
    took_s = sum(step.took_s for step in steps) - apart_s
    text = {
        PASSED: "All of it works",
        "incomplete": "Not all of it could be tried; what was tried works",
        FAILED: "Something does not work",
    }[verdict(steps)]
    besides = f", besides {apart_s:.0f} s in the queue and for images" if apart_s >= 1 else ""
    return f"{text}: {len(steps)} steps in {took_s:.0f} s{besides}."


def check_versions(own: str, portals: str, command_line: str) -> str:
    """Both in words, and what to do where they differ.

    Args:
        command_line: as of `install_step`.

    Raises:
        ClientError: they are of different releases, so that one may lack what the other asks for.
    """
    text = f"command line {own}, portal {portals or 'older than those that say their version'}"
    if own == portals:
        return text
    if own.split(".")[:2] != portals.split(".")[:2]:
        raise ClientError(text, install_step(command_line))
    return f"{text}. {install_step(command_line)}"


def phase_of(row: Json, events: Sequence[Json]) -> str:
    """What something that does not run yet waits for: `queue`, `pull` or `start`."""
    if row.get("state") == "queued":
        return "queue"
    pulls = [one for one in events if one.get("reason") in _PULLS]
    latest = max(pulls, key=lambda one: str(one.get("at")), default={})
    return "pull" if latest.get("reason") == "Pulling" else "start"


def too_slow(row: Json, phase: str, waited_s: float) -> ClientError:
    """Why something that does not run yet is waited for no longer."""
    why, step = reason_of(row)
    code = (row.get("reason") or {}).get("code")
    if phase == "queue" and code in _NO_ROOM:
        return cannot_try(f"There is no room for it. {why}", step or "Try again later.")
    if phase == "queue" and not why:
        why, step = "Nobody looked at it.", "Ask your admin whether the reconciler is at work."
    return ClientError(f"It is {row.get('state')} after {waited_s:.0f} s. {why}", step or ADMIN)
