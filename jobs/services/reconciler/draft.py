"""A service's plan while it is being made: what has been decided so far, and the row as it will be."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from jobs.reconciler.record import Delete, EventNote, Plan, Thing
from jobs.reconciler.record import Step as Call
from jobs.rules import reasons
from jobs.rules.reasons import Reason
from jobs.services.models import ServiceState
from jobs.services.reconciler import memo as memos
from jobs.services.reconciler import steps
from jobs.services.reconciler.record import Observed, ServiceRow


class Draft:
    """Collects calls, changed columns and events; `row` is always current."""

    def __init__(self, row: ServiceRow, seen: Observed, now: datetime) -> None:
        self.before = row
        self.row = row
        self.seen = seen
        self.now = now
        self.is_settled = False
        self._calls: list[Call] = []
        self._events: list[EventNote] = []
        self._due: datetime | None = None
        self._delete_row = False

    # --- the row ---
    @property
    def memo(self) -> memos.Memo:
        return self.row.memo

    def set(self, **columns: Any) -> None:
        """Changes columns of the row."""
        self.row = replace(self.row, **columns)

    def note(self, **changes: Any) -> None:
        """Changes the reconciler's notes."""
        self.row = replace(self.row, memo=replace(self.row.memo, **changes))

    def turn(self, state: ServiceState, reason: Reason = reasons.NONE) -> None:
        """Changes state and reason; a change of state is an event."""
        if state != self.row.state:
            text = f"{self.row.state.value} -> {state.value}"
            is_failed = state is ServiceState.FAILED
            self.say("state", f"{text}: {reason.text}" if reason.text else text, warning=is_failed)
        self.set(state=state, reason=reason)

    def explain(self, reason: Reason) -> None:
        """Changes the reason only."""
        self.set(reason=reason)

    def show(
        self,
        done: Sequence[tuple[datetime | None, str]],
        *,
        detail: str = "",
        failed: bool = False,
    ) -> None:
        """Changes the start-up's steps, see `steps.line`."""
        shown = steps.line(done, self.row.steps, self.now, detail=detail, failed=failed)
        self.set(steps=shown)

    def say(self, reason: str, message: str, *, warning: bool = False) -> None:
        """An event of our own."""
        number = self.memo.said + 1
        self.note(said=number)
        self._events.append(EventNote(f"homeport-{number}", "", reason, message, warning))

    # --- the cluster ---
    def call(self, *calls: Call) -> None:
        """Adds calls, each once."""
        self._calls += [call for call in calls if call not in self._calls]

    def delete(self, *things: Thing) -> None:
        """Deletes what is not on its way out already."""
        for thing in things:
            if not thing.is_terminating:
                self.call(Delete(thing.kind, thing.name, thing.uid))

    def delete_row(self) -> None:
        self._delete_row = True

    # --- time ---
    def due(self, at: datetime) -> None:
        """Look again at this time at the latest."""
        if self._due is None or at < self._due:
            self._due = at

    def is_past(self, since: datetime | None, seconds: float) -> bool:
        """Whether so many seconds have passed since then; else a look is due at that moment."""
        if since is None:
            return False
        at = since + timedelta(seconds=seconds)
        if self.now >= at:
            return True
        self.due(at)
        return False

    # --- the result ---
    def finish(self) -> Plan:
        """The plan, with nothing in it that does not change anything."""
        return Plan(
            steps=tuple(self._calls),
            columns=self._columns(),
            events=tuple(self._events),
            next_due=self._due,
            is_settled=self.is_settled,
            delete_row=self._delete_row,
        )

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        for name in _COLUMNS:
            value = getattr(self.row, name)
            if value != getattr(self.before, name):
                columns[name] = value
        if self.row.reason != self.before.reason:
            reason = self.row.reason
            columns |= {
                "reason_code": reason.code,
                "reason_text": reason.text,
                "reason_next_step": reason.next_step,
            }
        if self.row.memo != self.before.memo:
            columns["memo"] = memos.dump(self.row.memo)
        if self.row.steps != self.before.steps:
            columns["steps"] = steps.dump(self.row.steps)
        if self.before.has_plan and not self.row.has_plan:
            columns["plan"] = None
        return columns


_COLUMNS = (
    "state",
    "seen_start",
    "not_before",
    "admitted_at",
    "ready_at",
    "ended_at",
    "node",
    "gpus",
    "pod",
    "node_port",
    "restarts",
    "event_files",
    "root_uid",
    "cleaned_at",
)
