"""What the reconciler's looks (jobs/engine/controller.py) know of notebooks and TensorBoards."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from uuid import UUID

from jobs.engine.controller import RowsPass
from jobs.engine.observe import Knowledge
from jobs.engine.store import Change, Intent, Saved
from jobs.kinds.registry import plan
from jobs.kinds.state import ObjectRef, Plan, WorkloadRow
from jobs.leader.clock import SteadyClock
from jobs.leader.lease import Lease
from jobs.services.models import ENDED_STATES, ServiceState
from jobs.services.reconciler import rows
from jobs.services.reconciler.apply import ServiceApplier
from jobs.services.reconciler.observe import observe
from portal.cluster.view import ClusterView


class ServicesTrade:
    """See `controller.Trade`."""

    noun = "service"

    def all_open(self) -> Mapping[UUID, Intent]:
        return rows.all_open()

    def unsettled(self, known: Collection[UUID]) -> Mapping[UUID, Intent]:
        return rows.unsettled(known)

    def load(self, ids: Iterable[UUID]) -> tuple[Mapping[UUID, WorkloadRow], Mapping[UUID, str]]:
        return rows.load(ids)

    def head(self, loaded: WorkloadRow) -> WorkloadRow:
        return loaded

    def look(
        self, view: ClusterView, loaded: WorkloadRow, known: Knowledge, now: datetime
    ) -> tuple[ObjectRef | None, Plan]:
        seen = observe(view, loaded, known)
        return seen.root, plan(loaded, seen, now)

    def save(self, changes: Sequence[Change]) -> list[Saved]:
        return rows.save(changes)

    def base_name(self, head: WorkloadRow) -> str:
        return head.kube_name

    def is_waiting(self, state: str) -> bool:
        return state == ServiceState.QUEUED

    def is_over(self, state: str) -> bool:
        return state in ENDED_STATES

    def forget(self, pk: UUID) -> None:
        """Nothing is kept of services."""


class ServicesPass(RowsPass):
    """The looks at notebooks and TensorBoards."""

    def __init__(
        self,
        view: ClusterView,
        applier: ServiceApplier,
        lease: Lease,
        clock: SteadyClock,
        wake: Callable[[], None],
    ) -> None:
        super().__init__(ServicesTrade(), view, applier, lease, clock, wake)
