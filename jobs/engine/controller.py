"""One look at all workloads that may need something: load, observe, plan, commit, start the steps.

Remembers between looks only what can be learned again: which rows to look at, when (a `WorkQueue`), and
what their last steps found out. Steps run as tasks of their own, side by side; a row is in flight, and
not planned, while they do.
"""

import asyncio
import logging
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Literal
from uuid import UUID

from asgiref.sync import sync_to_async

from jobs.engine import store
from jobs.engine.events import EventLog
from jobs.engine.executor import Executor, StepBatch, StepResult
from jobs.engine.rows import Change, ChangedRow, EventRow, Intent
from jobs.kinds.observe import CallResults, PodReader
from jobs.kinds.plan import CreateAll, Plan
from jobs.kinds.registry import KINDS
from jobs.kinds.state import LoadedRow, ObjectRef, WorkloadRow
from jobs.leader.clock import SteadyClock
from jobs.leader.lease import Lease, LeaseLostError
from jobs.rules import reasons
from jobs.rules.reasons import Reason
from jobs.rules.states import FINAL_STATES, WorkloadState
from portal import metrics
from portal.cluster.cache import ClusterCache
from portal.cluster.objects import KubePod
from portal.cluster.workqueue import WorkQueue
from portal.log_lines import note

log = logging.getLogger(__name__)

_AT_ONCE = 16  # rows whose steps are under way
_PER_LOOK = 200  # so that a start with thousands of rows does not hold up the event loop
_PER_RESYNC = 500  # rows and their pods; of more than these, a resync is of some, in turn
_AGAIN_S = 1.0  # after steps that changed nothing we know of yet
_BACKOFF_S = (1.2, 7.2)  # with jitter; when a cause is mended, all comes right within half a minute


@dataclass(frozen=True)
class Turn:
    """One row in one look at all that may need something, with what follows for it."""

    workload_id: UUID
    row: WorkloadRow
    root: ObjectRef | None
    plan: Plan
    events: tuple[EventRow, ...]
    now: datetime


class Controller:
    """See the module. Everything but database and cluster calls happens on the event loop."""

    def __init__(
        self,
        cache: ClusterCache,
        executor: Executor,
        lease: Lease,
        clock: SteadyClock,
        wake: Callable[[], None],
    ) -> None:
        self._cache = cache
        self._executor = executor
        self._lease = lease
        self._clock = clock
        self._wake = wake
        self._batches = asyncio.Semaphore(_AT_ONCE)
        self._events = EventLog()
        self._pods = PodReader()
        self._queue = WorkQueue[UUID](self._now_s, *_BACKOFF_S)
        self._ending: set[UUID] = set()  # ended, but not settled yet
        self._safe_up_to = UUID(int=0)  # whose turn it was last
        self._tasks: dict[UUID, asyncio.Task[None]] = {}  # of rows in flight, whose steps run
        self._results: dict[UUID, StepResult] = {}
        self._absent: dict[UUID, str] = {}
        self._deleted_pods: dict[UUID, list[KubePod]] = defaultdict(list)
        self._intents: dict[UUID, Intent] = {}
        self._states: dict[UUID, tuple[WorkloadState, str]] = {}  # of what has not ended
        self._troubles: dict[UUID, Reason] = {}  # why steps cannot be done, until they are
        self._fatal: LeaseLostError | None = None

    def _now_s(self) -> float:
        return self._clock.now().timestamp()

    # --- what to look at ---
    def knows(self, pk: UUID) -> bool:
        """Whether it is a workload that was open when it was last asked for."""
        return pk in self._intents

    def enqueue(self, ids: Iterable[UUID]) -> None:
        """These workloads may need something."""
        self._queue.add(*ids)

    def note_deleted_pod(self, owner: UUID, pod: KubePod) -> None:
        """A pod went; its last status is all that will ever be known of its end."""
        self._deleted_pods[owner].append(pod)
        self._queue.add(owner)

    async def resync(self, *, at: Literal["heard", "safety", "start"]) -> None:
        """Finds in the database the workloads that may have work.

        Args:
            at: "heard": somebody changed something: new rows, changed minds, and ended trainings whose
                archive may have been completed; "safety": all with work to do, of many that just
                run some in turn; "start": all that are not cleaned up.
        """
        if at == "start":
            found = await sync_to_async(store.all_open)()
        else:
            found = await sync_to_async(store.unsettled)(self._ending)
        for pk, intent in found.items():
            if self._intents.get(pk) != intent:
                # A changed mind does not wait for a back-off to end.
                self._queue.retry_now([pk])
            self._intents[pk] = intent
        if at == "safety":
            self._queue.add(*self._next_of(found))
            if self._cache.synced:
                self._events.forget_gone(self._cache)
        self._queue.add(*(found if at == "start" else self._ending & found.keys()))

    def _next_of(self, found: Mapping[UUID, Intent]) -> list[UUID]:
        """All of a few rows; of many the next ones, so that the cost has a bound.

        Whatever happens to a row is heard of at once; this is for what nobody thought of.
        """
        ordered = sorted(found)
        place = bisect_right(ordered, self._safe_up_to)
        chosen, cost = [], 0
        for pk in ordered[place:] + ordered[:place]:
            chosen.append(pk)
            cost += 1 + self._cache.pods.count_of_owner(str(pk))
            if cost >= _PER_RESYNC:
                break
        self._safe_up_to = chosen[-1] if chosen else self._safe_up_to
        return chosen

    def retry_now(self) -> None:
        """The cluster is back: what backs off because of it goes on at once."""
        self._queue.retry_now()

    def next_due_s(self) -> float | None:
        """In how many seconds to call again though nothing happens; None: not before."""
        return self._queue.next_s()

    def report(self) -> dict[str, int]:
        """How many rows wait for a look, have steps under way, or back off after a failure."""
        return {
            "pending": len(self._queue.pending()),
            "under_way": len(self._tasks),
            "resting": len(self._queue.backing_off()),
        }

    def counts(self) -> Counter[tuple[WorkloadState, str]]:
        """How many workloads that have not ended are in each state, by topology, or else by kind."""
        return Counter(self._states.values())

    # --- one look ---
    async def run_once(self) -> list[ChangedRow]:
        """Looks at the pending rows; returns those that changed.

        Raises:
            LeaseLostError: nothing more may be written.
            DatabaseError: nothing was written; what was pending still is.
        """
        if self._fatal is not None:
            raise self._fatal
        chosen = self._queue.get(_PER_LOOK)
        if not chosen:
            return []
        is_written = False
        try:
            loaded = await sync_to_async(store.load)(chosen)
            turns = self._take_turns(loaded.rows, self._clock.now())
            broken = [self._broken(pk, text) for pk, text in loaded.broken.items()]
            written = await self._commit(turns, broken)
            is_written = True
            for pk in set(chosen) - loaded.rows.keys() - loaded.broken.keys():
                self._forget(pk)
            for turn in turns:
                self._follow(turn, written)
        finally:
            if not is_written:
                self._queue.add(*chosen)
            for pk in chosen:
                if pk not in self._tasks:
                    self._queue.done(pk)
        return list(written.values())

    def _take_turns(self, found: Mapping[UUID, LoadedRow], now: datetime) -> list[Turn]:
        turns = []
        # Rows were read since the tick began, and the watches went on meanwhile: what they have of a
        # pod that went in that time is in no other place.
        just_deleted = defaultdict(list)
        for pod in self._cache.deleted_pods:
            just_deleted[pod.metadata.owner].append(pod)
        for pk, loaded in found.items():
            row = loaded.row
            if not self._cache.synced and row.state is not WorkloadState.QUEUED:
                # Before the first list, absence means nothing.
                continue
            root: ObjectRef | None = None
            try:
                root, decided = self._plan(pk, loaded, now, just_deleted[row.id])
                news = self._events.news(self._cache, row)
                events = (*news, *self._failed_step(pk, now))
            except Exception as error:  # the named fence: one poisoned row stops no other
                log.exception("%s %s cannot be planned", row.kind, pk, extra={"job": row.id})
                decided = self._poisoned(row, error)
                events = (self._trouble(pk, now, str(error)),)
            turns.append(Turn(pk, row, root, decided, events, now))
        return turns

    def _plan(
        self, pk: UUID, loaded: LoadedRow, now: datetime, just_deleted: Sequence[KubePod]
    ) -> tuple[ObjectRef | None, Plan]:
        """The root as the cache has it, and the plan."""
        row = loaded.row
        kind = KINDS[row.kind]
        pods = self._pods.read(self._cache, row, kind.read_pod)
        gone = (*self._deleted_pods.get(pk, ()), *just_deleted)
        deleted_pods = [kind.read_pod(row, pod) for pod in gone]
        seen = kind.observe(self._cache, loaded, self._call_results(pk), pods, deleted_pods)
        return seen.root, kind.lifecycle(row, seen, now).plan()

    def _broken(self, pk: UUID, text: str) -> Change:
        """An event on a row that cannot be read; it is tried again later."""
        self._queue.add_rate_limited(pk)
        now = self._clock.now()
        return Change(pk, Plan(), now, (self._trouble(pk, now, text),))

    def _call_results(self, pk: UUID) -> CallResults:
        result = self._results.get(pk, StepResult(pk))
        return CallResults(
            absent_root=result.absent_root or self._absent.get(pk, ""),
            made_root=result.root_uid,
            is_swept=result.is_swept,
            is_erased=result.is_erased,
            blocked=result.blocked,
            trouble=self._troubles.get(pk, reasons.NONE),
        )

    def _poisoned(self, row: WorkloadRow, error: Exception) -> Plan:
        self._queue.add_rate_limited(UUID(row.id))
        if row.state in FINAL_STATES:
            return Plan()
        reason = reasons.make("internal", detail=f"{type(error).__name__}: {error}")
        if reason == row.reason:
            return Plan()
        return Plan(columns={"reason": reason})

    def _failed_step(self, pk: UUID, now: datetime) -> list[EventRow]:
        """An event about steps that failed; an outage is everybody's and shown by itself."""
        result = self._results.get(pk)
        if result is None or not result.error or result.is_outage:
            return []
        return [self._trouble(pk, now, result.error)]

    def _trouble(self, pk: UUID, now: datetime, text: str) -> EventRow:
        count = max(1, self._queue.failures(pk))
        message = reasons.clip(text)
        return EventRow("homeport-trouble", now, "homeport", "", "trouble", message, True, count)

    async def _commit(self, turns: list[Turn], broken: list[Change]) -> dict[UUID, ChangedRow]:
        changes = broken + [
            Change(turn.workload_id, turn.plan, turn.now, turn.events)
            for turn in turns
            if turn.plan.writes or turn.events
        ]
        if not changes:
            return {}
        written = await self._lease.commit(partial(store.save, changes))
        return {changed.workload_id: changed for changed in written}

    # --- what follows ---
    def _follow(self, turn: Turn, written: dict[UUID, ChangedRow]) -> None:
        pk, decided = turn.workload_id, turn.plan
        if (decided.writes or turn.events) and pk not in written:
            # Not written (logged there): nothing may follow from it.
            self._queue.add_rate_limited(pk)
            return
        result = self._results.pop(pk, None)
        self._deleted_pods.pop(pk, None)
        if result is not None and result.absent_root:
            self._absent[pk] = result.absent_root
        self._events.wrote(pk, turn.events)
        if decided.delete_row:
            self._forget(pk)
            return
        state = decided.columns.get("state", turn.row.state)
        self._count(turn, state)
        if state in FINAL_STATES and not decided.is_settled:
            self._ending.add(pk)
        else:
            self._ending.discard(pk)
        if decided.next_due is not None:
            self._queue.add_at(pk, decided.next_due.timestamp())
        if not decided.steps:
            self._troubles.pop(pk, None)
            if not self._queue.is_backing_off(pk):
                self._queue.forget(pk)
        if decided.steps:
            self._start(turn)
        elif decided.writes:
            # What has just been committed may allow the next step at once.
            self._queue.add(pk)
        elif decided.is_settled and turn.row.cleaned_at is not None:
            # It is kept for as long as people like; nothing more happens to it, unless it is started again.
            self._intents.pop(pk, None)
            self._absent.pop(pk, None)

    def _count(self, turn: Turn, state: WorkloadState) -> None:
        if state not in FINAL_STATES:
            self._states[turn.workload_id] = (state, turn.row.topology or turn.row.kind)
            return
        self._states.pop(turn.workload_id, None)
        if turn.row.state not in FINAL_STATES:
            reason = turn.plan.columns.get("reason", turn.row.reason)
            metrics.JOBS_FINISHED.labels(state, reason.code or "none").inc()

    def _start(self, turn: Turn) -> None:
        recorded = turn.plan.columns.get("root_uid", turn.row.root_uid)
        root = turn.root
        batch = StepBatch(
            turn.workload_id,
            replace(turn.row, root_uid=recorded),
            turn.plan.steps,
            has_root=root is not None and root.uid == recorded,
        )
        if any(isinstance(step, CreateAll) for step in batch.steps):
            self._absent.pop(turn.workload_id, None)
        self._tasks[turn.workload_id] = asyncio.create_task(
            self._run(batch), name=f"steps of {turn.row.kind} {turn.workload_id}"
        )

    async def _run(self, batch: StepBatch) -> None:
        note(job=batch.row.id, tenant=batch.row.namespace)
        try:
            async with self._batches:
                result = await self._executor.run(batch)
            self._take_result(batch.row, result)
        except LeaseLostError as error:  # the next look ends the loop
            self._fatal = error
        finally:
            self._tasks.pop(batch.workload_id, None)
            self._queue.done(batch.workload_id)
            self._wake()

    def _take_result(self, row: WorkloadRow, result: StepResult) -> None:
        pk = result.workload_id
        self._results[pk] = result
        if result.trouble.code:
            self._troubles[pk] = result.trouble
        elif not result.error:
            self._troubles.pop(pk, None)
        is_news = (
            result.root_uid
            or result.absent_root
            or result.is_swept
            or result.is_erased
            or result.blocked.code
        )
        if result.error:
            self._queue.add_rate_limited(pk, least_s=result.retry_after_s)
            if not result.is_outage:
                log.warning("%s %s: %s", row.kind, pk, result.error)
            return
        self._queue.forget(pk)
        if is_news:
            self._queue.add(pk)
        else:
            self._queue.add_after(pk, _AGAIN_S)

    def _forget(self, pk: UUID) -> None:
        self._queue.remove(pk)
        tables = (
            self._results,
            self._absent,
            self._deleted_pods,
            self._intents,
            self._states,
            self._troubles,
        )
        for table in tables:
            table.pop(pk, None)
        self._ending.discard(pk)
        self._events.forget(pk)
        self._pods.forget(str(pk))

    # --- the end ---
    async def close(self) -> None:
        """Waits for steps under way; cancels them when it is itself cancelled."""
        tasks = list(self._tasks.values())
        try:
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for task in tasks:
                task.cancel()
