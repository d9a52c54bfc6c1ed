"""Looks at what REST answers, as far as it has the form that it should. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .sanitize import one_line

Json = dict[str, Any]  # an object; its values are looked at where they are used
SHORT_LENGTH = 8
MAX_REPLICAS = 10_000
# The states of a training, and their colours.
STATES = {
    "queued": "yellow",
    "starting": "cyan",
    "running": "cyan",
    "restarting": "yellow",
    "stopping": "yellow",
    "suspended": "dim",
    "succeeded": "green",
    "failed": "red",
    "stopped": "dim",
}
FINAL = frozenset({"succeeded", "failed", "stopped"})


def state_colour(state: str) -> str:
    return STATES.get(state, "")


def part(row: Any, name: str) -> Json:
    """An object within another; empty where there is none."""
    found = row.get(name) if isinstance(row, dict) else None
    return found if isinstance(found, dict) else {}


def parts(row: Any, name: str) -> list[Json]:
    """The objects in a list within an object."""
    found = row.get(name) if isinstance(row, dict) else None
    return [one for one in (found if isinstance(found, list) else []) if isinstance(one, dict)]


def short_id(row: Json) -> str:
    """The beginning of an id, enough to name it by."""
    return str(row.get("id", ""))[:SHORT_LENGTH]


def named(row: Json) -> str:
    """Name and short id."""
    return f"{one_line(row.get('name', ''))} ({short_id(row)})"


def reason_of(row: Json) -> tuple[str, str]:
    """Why something waits or how it ended, and what to do about it."""
    reason = part(row, "reason")
    return one_line(reason.get("text", "")), one_line(reason.get("next_step", ""))


def resources_of(job: Json) -> dict[str, Json]:
    """Role -> what each of its replicas asks for, in the portal's order: who serves comes last."""
    return {str(role): row for role, row in part(job, "resources").items() if isinstance(row, dict)}


def indexes_of(job: Json, role: str) -> Sequence[int]:
    """Of the replicas of a role that run: of an array that ran again for some, of these alone."""
    amounts = resources_of(job)[role]
    count = min(int(amounts.get("count") or 1), MAX_REPLICAS)
    chosen = job.get("indexes")
    if role != "worker" or not isinstance(chosen, str) or not chosen:
        return range(count)
    found: set[int] = set()
    for each in chosen.split(","):
        first, _, last = each.partition("-")
        if first.isdecimal() and (last or first).isdecimal():
            found.update(range(int(first), min(int(last or first), count - 1) + 1))
    return sorted(found)


def replica_names(job: Json) -> list[str]:
    """`worker-0` and so on, in the order of the roles."""
    return [f"{role}-{index}" for role in resources_of(job) for index in indexes_of(job, role)]
