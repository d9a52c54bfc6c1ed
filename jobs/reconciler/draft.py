"""A job's plan while it is being made: what has been decided so far, and the job as it will then be."""

from datetime import datetime

from jobs.reconciler.memo import Memo
from jobs.reconciler.record import JobRow, Observed, Plan, ReplicaKey, ReplicaRow
from jobs.reconciler.row_draft import RowDraft
from jobs.rules.states import JobState


class Draft(RowDraft[JobRow, JobState]):
    """Collects calls, changed columns, rows and events; `job` and `replicas` are always current."""

    COLUMNS = (
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

    def __init__(self, job: JobRow, seen: Observed, now: datetime) -> None:
        super().__init__(job, now)
        self.seen = seen
        self.replicas: dict[ReplicaKey, ReplicaRow] = dict(seen.replicas)
        self._forgotten: list[ReplicaKey] = []
        self._render = False
        self._deadline_s: int | None = None

    @property
    def job(self) -> JobRow:
        return self.row

    @property
    def memo(self) -> Memo:
        return self.row.memo

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
    def render(self, deadline_s: int | None) -> None:
        """Has the manifests of the attempt rendered in the transaction that writes the rows."""
        self._render = True
        self._deadline_s = deadline_s
        self.set(has_plan=True)

    # --- the result ---
    def finish(self) -> Plan:
        """The plan, with nothing in it that does not change anything."""
        changed = [row for key, row in self.replicas.items() if self.seen.replicas.get(key) != row]
        return Plan(
            steps=tuple(self._calls),
            columns=self.changed_columns(),
            replicas=tuple(changed),
            forgotten=tuple(self._forgotten),
            events=tuple(self._events),
            render=self._render,
            deadline_s=self._deadline_s,
            next_due=self._due,
            is_settled=self.is_settled,
            delete_row=self._delete_row,
        )
