"""A plan while it is being made: what has been decided so far, and the job as it will then be."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from jobs.reconciler import memo as memos
from jobs.reconciler.record import (
    Delete,
    EventNote,
    JobRow,
    Observed,
    Plan,
    ReplicaKey,
    ReplicaRow,
    Step,
    Thing,
)
from jobs.rules import reasons
from jobs.rules.reasons import Reason
from jobs.rules.states import JobState


class Draft:
    """Collects steps, changed columns, rows and events; `job` and `replicas` are always current."""

    def __init__(self, job: JobRow, seen: Observed, now: datetime) -> None:
        self.before = job
        self.job = job
        self.seen = seen
        self.now = now
        self.replicas: dict[ReplicaKey, ReplicaRow] = dict(seen.replicas)
        self.is_settled = False
        self._steps: list[Step] = []
        self._forgotten: list[ReplicaKey] = []
        self._events: list[EventNote] = []
        self._due: datetime | None = None
        self._render = False
        self._deadline_s: int | None = None
        self._delete_row = False

    # --- the job ---
    @property
    def memo(self) -> memos.Memo:
        return self.job.memo

    def set(self, **columns: Any) -> None:
        """Changes columns of the job's row."""
        self.job = replace(self.job, **columns)

    def note(self, **changes: Any) -> None:
        """Changes the reconciler's notes."""
        self.job = replace(self.job, memo=replace(self.job.memo, **changes))

    def turn(self, state: JobState, reason: Reason = reasons.NONE) -> None:
        """Changes state and reason; a change of state is an event."""
        if state != self.job.state:
            text = f"{self.job.state.value} -> {state.value}"
            failed = state is JobState.FAILED
            self.say("state", f"{text}: {reason.text}" if reason.text else text, warning=failed)
        self.set(state=state, reason=reason)

    def explain(self, reason: Reason) -> None:
        """Changes the reason only."""
        self.set(reason=reason)

    def say(self, reason: str, message: str, *, subject: str = "", warning: bool = False) -> None:
        """An event of our own."""
        number = self.memo.said + 1
        self.note(said=number)
        self._events.append(EventNote(f"homeport-{number}", subject, reason, message, warning))

    # --- replicas ---
    def put(self, row: ReplicaRow) -> None:
        self.replicas[row.key] = row

    def forget(self, key: ReplicaKey) -> None:
        """Removes the row of a replica that never ran."""
        if key in self.replicas:
            del self.replicas[key]
            self._forgotten.append(key)

    def current(self) -> list[ReplicaRow]:
        """Rows of the current attempt."""
        return [row for row in self.replicas.values() if row.key.attempt == self.job.attempt]

    # --- the cluster ---
    def step(self, *steps: Step) -> None:
        """Adds calls, each once."""
        self._steps += [step for step in steps if step not in self._steps]

    def delete(self, *things: Thing) -> None:
        """Deletes what is not on its way out already."""
        for thing in things:
            if not thing.is_terminating:
                self.step(Delete(thing.kind, thing.name, thing.uid))

    def render(self, deadline_s: int | None) -> None:
        """Has the manifests of the attempt rendered in the transaction that writes the rows."""
        self._render = True
        self._deadline_s = deadline_s
        self.set(has_plan=True)

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
        changed = [row for key, row in self.replicas.items() if self.seen.replicas.get(key) != row]
        return Plan(
            steps=tuple(self._steps),
            columns=self._columns(),
            replicas=tuple(changed),
            forgotten=tuple(self._forgotten),
            events=tuple(self._events),
            render=self._render,
            deadline_s=self._deadline_s,
            next_due=self._due,
            is_settled=self.is_settled,
            delete_row=self._delete_row,
        )

    def _columns(self) -> dict[str, Any]:
        columns: dict[str, Any] = {}
        for name in _COLUMNS:
            value = getattr(self.job, name)
            if value != getattr(self.before, name):
                columns[name] = value
        if self.job.reason != self.before.reason:
            reason = self.job.reason
            columns |= {
                "reason_code": reason.code,
                "reason_text": reason.text,
                "reason_next_step": reason.next_step,
            }
        if self.job.memo != self.before.memo:
            columns["memo"] = memos.dump(self.job.memo)
        if self.before.has_plan and not self.job.has_plan:
            columns["plan"] = None
        return columns


_COLUMNS = (
    "state",
    "attempt",
    "requeued_count",
    "not_before",
    "admitted_at",
    "started_at",
    "deciders_ended_at",
    "finished_at",
    "root_uid",
    "cleaned_at",
)
