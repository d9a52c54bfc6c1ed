"""Faults for tests: ends the process, loses a reply or refuses, at one chosen mutating call.

In a process of its own (`serve.py` beside this) HOMEPORT_FAULT says which, for example
`create:Job:2:before` (killed before the second creation of a Job is sent), or `delete:Job:1:403:*`
(the deletion of that Job is refused for ever).
"""

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from portal.cluster.errors import ClusterError, Unavailable, error_of

_VERBS = ("create", "patch", "delete")
SAID = "a fault on purpose (HOMEPORT_FAULT)"
RETRY_AFTER_S = 2
# What the API server answers with each status: the one word of its Status object.
_REFUSALS = {
    "403": "Forbidden",
    "404": "NotFound",
    "409": "Conflict",
    "422": "Invalid",
    "429": "TooManyRequests",
    "500": "InternalError",
}
# Killed before it is sent; killed after it was answered; done, but the reply is lost; not done, and
# no answer in time; refused by a status.
POINTS = ("before", "after", "lost", "timeout", *_REFUSALS)
ALWAYS = 0  # as `times`


def error_at(point: str) -> ClusterError:
    """What a caller gets who is not killed."""
    if point in {"lost", "timeout"}:
        return Unavailable(0, "Timeout", f"no answer in time: {SAID}")
    body = {"reason": _REFUSALS[point], "message": f"refused: {SAID}"}
    return error_of(int(point), body, {"Retry-After": str(RETRY_AFTER_S)})


def _end_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Fault:
    """Strikes at the nth call of a verb on a kind ("*": any), and again when that same call is made
    again, `times` in all.

    Attributes:
        point: one of `POINTS`.
        end: ends the process; a test that has no process of its own raises something instead.
        struck: how often it has struck.
        target: verb, kind, namespace and name of the call, once it has struck.
    """

    verb: str
    kind: str
    nth: int
    point: str
    times: int = 1
    end: Callable[[], None] = field(default=_end_process, repr=False)
    seen: int = 0
    struck: int = 0
    target: tuple[str, str, str, str] | None = None
    _marked: dict[str, Any] | None = field(default=None, repr=False)

    def __call__(self, point: Literal["before", "after"], verb: str, obj: dict[str, Any]) -> None:
        """Counts one passage; kills this process, or raises, when it is the one.

        Raises:
            ClusterError: what the point stands for.
        """
        if point == "before" and self._counts(verb, obj):
            self._marked = obj
        # Other calls may pass between the two passages of the one that is meant.
        if obj is not self._marked or (point == "after") != (self.point in {"after", "lost"}):
            return
        self._marked = None
        self.struck += 1
        if self.point in {"before", "after"}:
            self.end()
        raise error_at(self.point)

    def _counts(self, verb: str, obj: dict[str, Any]) -> bool:
        if self.times != ALWAYS and self.struck >= self.times:
            return False
        meta = obj["metadata"]
        this = (verb, obj["kind"], meta.get("namespace") or "", meta["name"])
        if self.target is not None:
            return this == self.target
        if self.verb not in {verb, "*"} or self.kind not in {obj["kind"], "*"}:
            return False
        self.seen += 1
        if self.seen != self.nth:
            return False
        self.target = this
        return True


def parse(text: str) -> Fault:
    """`<verb>:<kind>:<nth>:<point>`, and `:<times>` or `:*` (for ever) unless it is once.

    Raises:
        ValueError: not of that form.
    """
    parts = text.split(":")
    verb, kind, nth, point, times = [*parts, "1"] if len(parts) == 4 else (parts + [""] * 5)[:5]
    if (
        len(parts) not in {4, 5}
        or verb not in {*_VERBS, "*"}
        or not nth.isdigit()
        or point not in POINTS
        or not (times == "*" or times.isdigit())
    ):
        raise ValueError(
            f"HOMEPORT_FAULT={text!r}: write <verb>:<kind>:<nth>:<point>[:<times>], verb one of "
            f"{' '.join(_VERBS)} *, point one of {' '.join(POINTS)}, for example create:Job:1:after"
        )
    return Fault(verb, kind, int(nth), point, ALWAYS if times == "*" else int(times))
