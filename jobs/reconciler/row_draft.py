"""What the drafts of all plans share: the row as it will be, calls, events, when to look again."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from jobs.reconciler import notes
from jobs.reconciler.record import Delete, EventNote, Step, Thing
from jobs.rules import reasons
from jobs.rules.reasons import Reason


class Row(Protocol):
    """A frozen dataclass of what is committed about a job or a service."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def state(self) -> Any: ...
    @property
    def reason(self) -> Reason: ...
    @property
    def memo(self) -> Any: ...
    @property
    def has_plan(self) -> bool: ...


# The cluster removes what a root owned within seconds; a minute later, when its API server has just
# been away. A pod that we delete before its ReplicaSet has gone would be made once more.
CASCADE_S = 10
REPLICA_SETS_S = 90

R = TypeVar("R", bound=Row)
S = TypeVar("S", bound=Enum)


class RowDraft(Generic[R, S]):
    """Collects calls, changed columns and events; `row` is always current.

    Attributes:
        before: the row as committed.
        now: our clock; never compared with times of the cluster.
    """

    COLUMNS: ClassVar[Sequence[str]]  # those that are written as they are

    def __init__(self, row: R, now: datetime) -> None:
        self.before = row
        self.row = row
        self.now = now
        self.is_settled = False
        self._calls: list[Step] = []
        self._events: list[EventNote] = []
        self._due: datetime | None = None
        self._delete_row = False

    # --- the row ---
    def set(self, **columns: Any) -> None:
        """Changes columns of the row."""
        self.row = replace(self.row, **columns)

    def note(self, **changes: Any) -> None:
        """Changes the reconciler's notes."""
        self.set(memo=replace(self.row.memo, **changes))

    def turn(self, state: S, reason: Reason = reasons.NONE) -> None:
        """Changes state and reason; a change of state is an event."""
        if state != self.row.state:
            text = f"{self.row.state.value} -> {state.value}"
            failed = state.value == "failed"
            self.say("state", f"{text}: {reason.text}" if reason.text else text, warning=failed)
        self.set(state=state, reason=reason)

    def explain(self, reason: Reason) -> None:
        """Changes the reason only."""
        self.set(reason=reason)

    def explain_trouble(self, trouble: Reason) -> None:
        """Why the calls of this plan could not be made the last time outdoes all other reasons."""
        if trouble.code and self._calls:
            self.explain(trouble)

    def say(self, reason: str, message: str, *, subject: str = "", warning: bool = False) -> None:
        """An event of our own."""
        number = self.row.memo.said + 1
        self.note(said=number)
        self._events.append(EventNote(f"homeport-{number}", subject, reason, message, warning))

    # --- the cluster ---
    def call(self, *calls: Step) -> None:
        """Adds calls, each once."""
        self._calls += [call for call in calls if call not in self._calls]

    def delete(self, *things: Thing) -> None:
        """Deletes what is not on its way out already."""
        for thing in things:
            if not thing.is_terminating:
                self.call(Delete(thing.kind, thing.name, thing.uid))

    def delete_left(self, left: Sequence[Thing], is_remade: Callable[[Thing], bool]) -> None:
        """Deletes what the cluster should have removed with its owner since we began to leave.

        Args:
            is_remade: whether it is a pod of a ReplicaSet.
        """
        since = self.row.memo.leaving_at
        if self.is_past(since, CASCADE_S):
            is_all_late = self.is_past(since, REPLICA_SETS_S)
            self.delete(*(thing for thing in left if is_all_late or not is_remade(thing)))

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
    def changed_columns(self) -> dict[str, Any]:
        """Columns whose value is to be written, without those that stay as they are."""
        columns = {
            name: getattr(self.row, name)
            for name in self.COLUMNS
            if getattr(self.row, name) != getattr(self.before, name)
        }
        if self.row.reason != self.before.reason:
            reason = self.row.reason
            columns |= {
                "reason_code": reason.code,
                "reason_text": reason.text,
                "reason_next_step": reason.next_step,
            }
        if self.row.memo != self.before.memo:
            columns["memo"] = notes.dump(self.row.memo)
        if self.before.has_plan and not self.row.has_plan:
            columns["plan"] = None
        return columns
