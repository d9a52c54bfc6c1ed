"""Faults for crash tests: ends the process, or loses a reply, at one chosen mutating call.

Does nothing unless `serve` is started with HOMEPORT_FAULTS=1 and HOMEPORT_FAULT set, for example
`create:Job:2:before` (killed before the second creation of a Job is sent).
"""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from portal.cluster import client
from portal.cluster.errors import Unavailable

Point = Literal["before", "after", "lost"]
_POINTS: dict[str, Point] = {"before": "before", "after": "after", "lost": "lost"}
_VERBS = ("create", "patch", "delete")


@dataclass
class Fault:
    """At the nth call of a verb on a kind ("*": any): before it is sent, after it was answered, or
    answered but the reply is lost."""

    verb: str
    kind: str
    nth: int
    point: Point
    seen: int = 0

    def __call__(self, point: Literal["before", "after"], verb: str, obj: dict[str, Any]) -> None:
        """Counts one passage; kills this process, or raises Unavailable, when it is the one."""
        if self.verb not in {verb, "*"} or self.kind not in {obj["kind"], "*"}:
            return
        if point == "before":
            self.seen += 1
        if self.seen != self.nth or point != ("before" if self.point == "before" else "after"):
            return
        if self.point == "lost":
            self.nth = 0  # once
            raise Unavailable(0, "Fault", "the reply was lost on purpose (HOMEPORT_FAULT)")
        os.kill(os.getpid(), signal.SIGKILL)


def parse(text: str) -> Fault:
    """`<verb>:<kind>:<nth>:before|after|lost`; `*` stands for any verb or kind.

    Raises:
        ValueError: not of that form.
    """
    parts = text.split(":")
    if (
        len(parts) != 4
        or parts[0] not in {*_VERBS, "*"}
        or not parts[2].isdigit()
        or parts[3] not in _POINTS
    ):
        raise ValueError(
            f"HOMEPORT_FAULT={text!r}: write <verb>:<kind>:<nth>:before|after|lost, "
            f"verb one of {' '.join(_VERBS)} *, for example create:Job:1:after"
        )
    return Fault(parts[0], parts[1], int(parts[2]), _POINTS[parts[3]])


def install(environ: Mapping[str, str] = os.environ) -> bool:
    """Arms the fault that the environment asks for; says whether there is one."""
    if environ.get("HOMEPORT_FAULTS") != "1" or not environ.get("HOMEPORT_FAULT"):
        return False
    client.fault = parse(environ["HOMEPORT_FAULT"])
    return True
