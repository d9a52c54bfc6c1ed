"""A service's plan while it is being made: what has been decided so far, and the row as it will be."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from jobs.reconciler.record import Plan
from jobs.reconciler.row_draft import RowDraft
from jobs.services.models import ServiceState
from jobs.services.reconciler import steps
from jobs.services.reconciler.memo import Memo
from jobs.services.reconciler.record import Observed, ServiceRow


class Draft(RowDraft[ServiceRow, ServiceState]):
    """Collects calls, changed columns and events; `row` is always current."""

    COLUMNS = (
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

    def __init__(self, row: ServiceRow, seen: Observed, now: datetime) -> None:
        super().__init__(row, now)
        self.seen = seen

    @property
    def memo(self) -> Memo:
        return self.row.memo

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

    def finish(self) -> Plan:
        """The plan, with nothing in it that does not change anything."""
        return Plan(
            steps=tuple(self._calls),
            columns=self.changed_columns(),
            events=tuple(self._events),
            next_due=self._due,
            is_settled=self.is_settled,
            delete_row=self._delete_row,
        )

    def changed_columns(self) -> dict[str, Any]:
        """With the steps of the start-up."""
        columns = super().changed_columns()
        if self.row.steps != self.before.steps:
            columns["steps"] = steps.dump(self.row.steps)
        return columns
