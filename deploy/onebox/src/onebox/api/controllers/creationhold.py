"""Holds back the creation of pods that the API has refused, until there is hope.

A workload whose pod was refused (mostly by a quota) tries again after 1 s, 2 s, ... 60 s, or as
soon as a quota of its namespace has more room. Without this every change of one of its pods would
be another refused attempt and another FailedCreate Event.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from onebox.api.controllers.objects import Key, namespace_of, status_of, uid_of
from onebox.api.resources import Obj
from onebox.quantity import parse_quantity

# DefaultJobApiBackOff and MaxJobApiBackOff upstream.
FIRST_HOLD_S = 1.0
LONGEST_HOLD_S = 60.0


@dataclass(frozen=True)
class Hold:
    """One refusal: the API's sentence, and until when to wait."""

    message: str
    until: datetime
    attempts: int

    def left_s(self, now: datetime) -> float:
        """Seconds still to wait; 0 when the time is over."""
        return max(0.0, (self.until - now).total_seconds())


class CreationHolds:
    """The holds of one controller, by the workload's key."""

    def __init__(self) -> None:
        self._holds: dict[Key, Hold] = {}
        self._room: dict[str, tuple[dict[str, str], dict[str, str]]] = {}  # quota uid: hard, used

    def find(self, key: Key, now: datetime) -> Hold | None:
        """The hold on a workload, if its time is not over."""
        hold = self._holds.get(key)
        return hold if hold is not None and hold.left_s(now) > 0 else None

    def refused(self, key: Key, message: str, now: datetime) -> Hold:
        """Note a refusal; the wait doubles each time in a row."""
        before = self._holds.get(key)
        attempts = before.attempts + 1 if before else 1
        wait_s = min(LONGEST_HOLD_S, FIRST_HOLD_S * 2.0 ** min(attempts - 1, 16))
        hold = self._holds[key] = Hold(message, now + timedelta(seconds=wait_s), attempts)
        return hold

    def forget(self, key: Key) -> None:
        """Nothing is refused any more."""
        self._holds.pop(key, None)

    def relieve(self, event: str, quota: Obj) -> list[Key]:
        """End the holds that a change of a quota may have made pointless, and return them."""
        status = status_of(quota)
        hard, used = status.get("hard") or {}, status.get("used") or {}
        before = self._room.get(uid_of(quota))
        if event == "DELETED":
            self._room.pop(uid_of(quota), None)
        else:
            self._room[uid_of(quota)] = (hard, used)
            if before is not None and not _has_more_room(before, (hard, used)):
                return []
        keys = [key for key in self._holds if key[0] == namespace_of(quota)]
        for key in keys:
            self.forget(key)
        return keys


def _has_more_room(
    before: tuple[dict[str, str], dict[str, str]], after: tuple[dict[str, str], dict[str, str]]
) -> bool:
    if before[0] != after[0]:
        return True
    return any(
        parse_quantity(amount) < parse_quantity(before[1].get(name, amount))
        for name, amount in after[1].items()
    )
