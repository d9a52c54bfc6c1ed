"""What the reconciler's looks (controller.py) know of jobs."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from jobs.engine import store
from jobs.engine.controller import RowsPass
from jobs.engine.events import base_name
from jobs.engine.executor import Applier
from jobs.engine.observe import Knowledge, ReadPods, Rows, observe
from jobs.engine.store import Change, Intent, Saved
from jobs.kinds.registry import plan
from jobs.kinds.state import ObjectRef, Plan, WorkloadRow
from jobs.leader.clock import SteadyClock
from jobs.leader.lease import Lease
from jobs.rules.states import FINAL_STATES, JobState
from portal.cluster.view import ClusterView


class JobsTrade:
    """See `controller.Trade`."""

    noun = "job"

    def __init__(self) -> None:
        self._pods_read = ReadPods()

    def all_open(self) -> Mapping[UUID, Intent]:
        return store.all_open()

    def unsettled(self, known: Collection[UUID]) -> Mapping[UUID, Intent]:
        return store.unsettled(known)

    def load(self, ids: Iterable[UUID]) -> tuple[Mapping[UUID, Rows], Mapping[UUID, str]]:
        loaded = store.load(ids)
        return loaded.rows, loaded.broken

    def head(self, loaded: Rows) -> WorkloadRow:
        return loaded.job

    def look(
        self, view: ClusterView, loaded: Rows, known: Knowledge, now: datetime
    ) -> tuple[ObjectRef | None, Plan]:
        seen = observe(view, loaded, known, self._pods_read)
        return seen.root, plan(loaded.job, seen, now)

    def save(self, changes: Sequence[Change]) -> list[Saved]:
        return store.save(changes)

    def base_name(self, head: WorkloadRow) -> str:
        return base_name(head)

    def is_waiting(self, state: str) -> bool:
        return state == JobState.QUEUED

    def is_over(self, state: str) -> bool:
        return state in FINAL_STATES

    def forget(self, pk: UUID) -> None:
        self._pods_read.forget(str(pk))


class JobsPass(RowsPass):
    """The looks at jobs."""

    def __init__(
        self,
        view: ClusterView,
        applier: Applier,
        lease: Lease,
        clock: SteadyClock,
        wake: Callable[[], None],
    ) -> None:
        super().__init__(JobsTrade(), view, applier, lease, clock, wake)
