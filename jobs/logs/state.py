"""What the database says about a job's replicas and their archives, for whoever shows its logs.

Many may look at one job: what one of them has read serves the others, too. Whether somebody may see it is
asked for each of them.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from channels.db import database_sync_to_async

from jobs.archive.logs import (
    Log,
    Which,
    archived_bytes,
    find_log,
    has_segments,
    replicas_of,
    which_of,
)
from jobs.kinds.registry import ARCHIVED
from jobs.models import Replica, ReplicaArchive, Workload
from jobs.rules.archives import Run, is_whole, knows_start, run_of
from jobs.rules.states import FINAL_REPLICA_STATES, ReplicaState
from portal.gathered import Gathered
from tenants import policy
from tenants.models import User

# Before these a container has no log yet.
_WITHOUT_LOG = frozenset({ReplicaState.PENDING, ReplicaState.STARTING})
OLDEST_S = 10.0  # what was read before that serves nobody any more
_TOGETHER_S = 0.02  # those who come within it are asked about together


@dataclass(frozen=True)
class ReplicaLogState:
    """One replica in one attempt.

    Attributes:
        name: as `worker-0`.
        pod: its name; empty while there is none.
        pod_id: tells pods of the same name apart.
        has_archive: something of this attempt is archived.
        is_archived: all of this attempt is, up to the end of the container that was seen last.
        is_past: it is of an earlier attempt; what is left of it is in the archive.
        may_be_archived: something of it may yet be, or more.
        run: the container that was seen last.
        run_began_ns: when that began, by the clock of its node, in ns since 1970; 0: not known.
        run_start_byte: what lies before in its archive is of containers that have ended.
        is_start_unknown: something before it may be, and nobody told where it begins.
        archived_bytes: how far its archive goes.
    """

    name: str
    role: str
    index: int
    attempt: int
    pod: str
    pod_id: str
    state: str
    reason: str
    has_archive: bool
    is_archived: bool
    is_past: bool = False
    may_be_archived: bool = False
    run: Run = field(default_factory=Run)
    run_began_ns: int = 0
    run_start_byte: int = 0
    is_start_unknown: bool = False
    archived_bytes: int = 0

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_REPLICA_STATES

    @property
    def may_have_log(self) -> bool:
        """Its container runs, or ran."""
        return bool(self.pod) and self.state not in _WITHOUT_LOG


@dataclass(frozen=True)
class JobLogState:
    """A job as far as its logs are concerned.

    Attributes:
        is_final: nothing runs any more of what was asked for.
        is_cleaned: nothing of the job is left in the cluster.
        replicas: by attempt; each once unless all attempts were asked for.
    """

    id: UUID
    tenant_id: UUID
    namespace: str
    state: str
    reason: str
    attempt: int  # the latest
    is_final: bool
    is_cleaned: bool
    replicas: tuple[ReplicaLogState, ...]


@dataclass(frozen=True)
class _SharedState:
    """What is being read, or was.

    Attributes:
        began_s: when, by the event loop's clock.
    """

    began_s: float
    found: asyncio.Task[JobLogState | None]

    @property
    def is_good(self) -> bool:
        return not self.found.done() or not (self.found.cancelled() or self.found.exception())


_Key = tuple[asyncio.AbstractEventLoop, UUID, str]
_shared: dict[_Key, _SharedState] = {}


async def load(
    job_id: UUID, user: User, attempt: str = "", since_s: float | None = None
) -> JobLogState | None:
    """The job with the attempts that are asked for, if this person may see it.

    Args:
        since_s: what was read at that time of the event loop's clock, or later, is new enough; None: read now.

    Raises:
        portal.web.streaming.AbsentError: it has not had that attempt.
    """
    if not await _may_see(
        _Question(job_id, user.pk, user.token_scope, user), 0 if since_s is None else _TOGETHER_S
    ):
        return None
    loop = asyncio.get_running_loop()
    key, now_s = (loop, job_id, attempt), loop.time()
    last = _shared.get(key)
    if last is None or not last.is_good or last.began_s < (now_s if since_s is None else since_s):
        task = asyncio.create_task(_read(job_id, attempt), name=f"log state of {job_id}")
        last = _shared[key] = _SharedState(now_s, task)
        loop.call_later(OLDEST_S, _forget, key, last)
    # Shielded: the viewer that came first may leave while others wait for the same.
    return await asyncio.shield(last.found)


def _forget(key: _Key, reading: _SharedState) -> None:
    if _shared.get(key) is reading:
        del _shared[key]


async def _read(job_id: UUID, attempt: str) -> JobLogState | None:
    found: JobLogState | None = await database_sync_to_async(_load)(job_id, attempt)
    return found


@dataclass(frozen=True)
class _Question:
    """Whether somebody may see a job.

    The scope is named as well: to Django a person is the same whatever the scope of their token.
    """

    job_id: UUID
    user_id: UUID
    token_scope: str
    user: User = field(compare=False)


def _allowed(asked: Sequence[_Question]) -> dict[_Question, bool]:
    ids = {one.job_id for one in asked}
    rows = Workload.objects.filter(pk__in=ids, kind__in=ARCHIVED).not_deleted()
    shown = {row.pk: row for row in rows.only("tenant").select_related("tenant")}
    return {
        one: one.job_id in shown and policy.may(one.user, "see", shown[one.job_id].tenant)
        for one in asked
    }


_may_see = Gathered(_allowed)


def _load(job_id: UUID, attempt: str) -> JobLogState | None:
    job = Workload.objects.for_lists().select_related("tenant").filter(pk=job_id).first()
    if job is None:
        return None
    which = which_of(job, attempt)
    return JobLogState(
        id=job.pk,
        tenant_id=job.tenant_id,
        namespace=job.tenant.namespace,
        state=str(job.state),
        reason=job.reason_text,
        attempt=job.attempt,
        is_final=job.is_final or (isinstance(which, int) and which < job.attempt),
        is_cleaned=job.cleaned_at is not None,
        replicas=_replicas(job, which),
    )


def _replicas(job: Workload, which: Which) -> tuple[ReplicaLogState, ...]:
    rows = {(row.role, row.index, row.attempt): row for row in job.replica_rows.all()}
    archives, ends, kept = {}, {}, set()
    for archive in job.archives.annotate(
        has_segments=has_segments(), archived_bytes=archived_bytes()
    ).only(
        *("workload", "role", "index", "attempt", "is_complete"),
        *("pod_uid", "restarts", "run_start_byte"),
    ):
        key = (archive.role, archive.index, archive.attempt)
        archives[key] = archive
        ends[key] = archive.archived_bytes or 0
        if archive.has_segments:
            kept.add(key)

    def state_of(key: tuple[str, int, int]) -> ReplicaLogState:
        return _replica(
            key,
            rows.get(key),
            archives.get(key),
            has_archive=key in kept,
            archived_bytes=ends.get(key, 0),
        )

    keys = [(role, index, job.attempt) for role, index in replicas_of(job)]
    if which == "latest":
        newest = {(role, index): attempt for role, index, attempt in sorted(rows)}
        keys = [(role, index, newest.get((role, index), job.attempt)) for role, index, _ in keys]
        return tuple(map(state_of, keys))
    attempts = range(1, job.attempt + 1) if which == "all" else (which,)
    found = []
    for attempt in attempts:
        for role, index, _ in keys:
            key = (role, index, attempt)
            state = state_of(key)
            found.append(_past(job, state, rows.get(key)) if attempt < job.attempt else state)
    return tuple(found)


def _replica(
    key: tuple[str, int, int],
    row: Replica | None,
    archive: ReplicaArchive | None,
    *,
    has_archive: bool,
    archived_bytes: int,
) -> ReplicaLogState:
    role, index, attempt = key
    run, began_at = run_of(row), row.started_at if row else None
    return ReplicaLogState(
        name=f"{role}-{index}",
        role=role,
        index=index,
        attempt=attempt,
        pod=row.pod if row else "",
        pod_id=(row.pod_uid or row.pod) if row else "",
        state=str(row.state if row else ReplicaState.PENDING),
        reason=row.reason_text if row else "",
        has_archive=has_archive,
        is_archived=archive is not None and is_whole(archive, run),
        run=run,
        run_began_ns=int(began_at.timestamp()) * 10**9 if began_at else 0,
        run_start_byte=archive.run_start_byte if archive else 0,
        is_start_unknown=row is not None and not knows_start(archive, row),
        archived_bytes=archived_bytes,
    )


def _past(job: Workload, state: ReplicaLogState, row: Replica | None) -> ReplicaLogState:
    """A replica of an earlier attempt: its pod is gone, or going."""
    has_run = state.has_archive or (row is not None and row.started_at is not None)
    may_be_archived = has_run and not state.is_archived and job.cleaned_at is None
    return replace(state, is_past=True, may_be_archived=may_be_archived)


async def read_log(job_id: UUID, role: str, index: int, attempt: int) -> Log | None:
    """The archived log of one attempt, if anything of it is archived."""
    found: Log | None = await database_sync_to_async(_read_log)(job_id, role, index, attempt)
    return found


def _read_log(job_id: UUID, role: str, index: int, attempt: int) -> Log | None:
    job = Workload.objects.for_lists().filter(pk=job_id).first()
    return find_log(job, role, index, attempt) if job is not None else None
