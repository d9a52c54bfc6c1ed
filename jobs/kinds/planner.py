"""What a plan is collected in while a workload is looked at: columns, notes, events, steps, and the next look. Pure."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from jobs.kinds.notes import Notes
from jobs.kinds.plan import Delete, EventNote, Plan, Step
from jobs.kinds.state import AttemptRow, ObjectRef, Observed, WorkloadRow
from jobs.rules import conditions, reasons
from jobs.rules.reasons import Reason
from jobs.rules.states import WorkloadState

# What planning may change of a row; a plan tells those that it did.
_COLUMNS = (
    "state",
    "reason",
    "observed_generation",
    "attempt",
    "requeued_count",
    "not_before",
    "admitted_at",
    "ends_by",
    "preempted_at",
    "preempted_for",
    "preempted_why",
    "stops_from",
    "started_at",
    "deciders_ended_at",
    "finished_at",
    "steps",
    "node_port",
    "event_files",
    "has_plan",
    "root_uid",
    "cleaned_at",
    "notes",
)


def words_of(reason: Reason) -> tuple[str, str, str]:
    """A reason as notes keep it."""
    return (reason.code, reason.text, reason.next_step)


class Planner:
    """Collects steps, changed rows and events of one workload; `row`, `replicas` are always current.

    Attributes:
        before: the row as committed.
        attempts: by number: the current one as it is stored, and those that this look writes.
        observed: what the cluster shows of it.
        now: our clock; never compared with times of the cluster.
        is_settled: nothing more is to be done but wait for a timer or a person.
        renders: the transaction that writes the row renders the manifests of its attempt into it.
        deletes_row: the row goes.
    """

    def __init__(self, row: WorkloadRow, observed: Observed, now: datetime) -> None:
        self.before = row
        self.row = row
        self.replicas = dict(observed.replicas)
        stored = observed.attempt
        self.attempts: dict[int, AttemptRow] = {} if stored is None else {stored.number: stored}
        self.observed = observed
        self.now = now
        self.is_settled = False
        self.renders = False
        self._steps: list[Step] = []
        self._events: list[EventNote] = []
        self._due: datetime | None = None
        self.deletes_row = False

    @property
    def deadline_left_s(self) -> int | None:
        """How long its next attempt may run; None: as long as it likes."""
        return None

    @property
    def notes(self) -> Notes:
        return self.row.notes

    def set(self, **columns: Any) -> None:
        """Changes columns of the row."""
        self.row = replace(self.row, **columns)

    def note(self, **changes: Any) -> None:
        """Changes the reconciler's notes."""
        self.set(notes=replace(self.row.notes, **changes))

    def begin(self, note: str) -> None:
        """What a note of the time is about begins now, unless it has begun."""
        if getattr(self.notes, note) is None:
            self.note(**{note: self.now})

    def turn(self, state: WorkloadState, reason: Reason = reasons.NONE) -> None:
        """Changes state and reason; a change of state is an event."""
        if state != self.row.state:
            text = conditions.change_text(self.row.state, state, reason.text)
            self.say(conditions.CHANGED, text, warning=state is WorkloadState.FAILED)
        self.set(state=state, reason=reason)

    def explain(self, reason: Reason) -> None:
        """Changes the reason only."""
        self.set(reason=reason)

    def say(self, reason: str, message: str, *, subject: str = "", warning: bool = False) -> None:
        """An event of our own."""
        number = self.notes.event_count + 1
        self.note(event_count=number)
        self._events.append(EventNote(f"homeport-{number}", subject, reason, message, warning))

    def say_again(self, why: Reason) -> None:
        """Why it is `starting` once more, to be told until it runs."""
        self.say(why.code, why.text, warning=True)
        self.note(restart_reason=words_of(why))

    def call(self, *steps: Step) -> None:
        """Adds steps, each once."""
        self._steps += [step for step in steps if step not in self._steps]

    def delete(self, *things: ObjectRef) -> None:
        """Deletes what is not on its way out already."""
        for thing in things:
            if not thing.is_terminating:
                self.call(Delete(thing.kind, thing.name, thing.uid))

    def due(self, at: datetime) -> None:
        """Look again at this time at the latest."""
        if self._due is None or at < self._due:
            self._due = at

    def wait(self, since: datetime | None, seconds: float) -> bool:
        """True when so many seconds have passed since then; else a look is due at that moment."""
        if since is None:
            return False
        at = since + timedelta(seconds=seconds)
        if self.now < at:
            self.due(at)
        return self.now >= at

    def wait_from(self, note: str, seconds: float) -> bool:
        """The same for what a note is about, which begins now unless it has begun."""
        self.begin(note)
        return self.wait(getattr(self.notes, note), seconds)

    def made(self) -> Plan:
        """What was collected, with nothing in it that does not change anything."""
        before, known = self.before, self.observed.replicas
        columns = {name: getattr(self.row, name) for name in _COLUMNS}
        return Plan(
            steps=tuple(self._steps),
            columns={k: value for k, value in columns.items() if value != getattr(before, k)},
            replicas=tuple(row for key, row in self.replicas.items() if known.get(key) != row),
            forgotten=tuple(key for key in known if key not in self.replicas),
            attempts=tuple(one for one in self.attempts.values() if one != self.observed.attempt),
            events=tuple(self._events),
            render=self.renders,
            deadline_s=self.deadline_left_s if self.renders else None,
            next_due=self._due,
            is_settled=self.is_settled,
            delete_row=self.deletes_row,
        )
