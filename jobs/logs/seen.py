"""What the database says about a job's replicas and their archives, for whoever shows its logs."""

from dataclasses import dataclass
from uuid import UUID

from channels.db import database_sync_to_async

from jobs.archive import Log, find_log, replicas_of
from jobs.models import Job
from jobs.rules.states import FINAL_REPLICA_STATES, ReplicaState
from tenants.models import User

# Before these a container has no log yet.
_WITHOUT_LOG = frozenset({ReplicaState.PENDING, ReplicaState.STARTING})


@dataclass(frozen=True)
class ReplicaSeen:
    """One replica in its latest attempt.

    Attributes:
        name: as `worker-0`.
        pod: its name; empty while there is none.
        pod_id: tells pods of the same name apart.
        has_archive: something of this attempt is archived.
        is_archived: all of this attempt is.
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

    @property
    def is_final(self) -> bool:
        return self.state in FINAL_REPLICA_STATES

    @property
    def may_have_log(self) -> bool:
        """Its container runs, or ran."""
        return bool(self.pod) and self.state not in _WITHOUT_LOG


@dataclass(frozen=True)
class JobSeen:
    """A job as far as its logs are concerned."""

    id: UUID
    tenant_id: UUID
    namespace: str
    state: str
    reason: str
    is_final: bool
    is_cleaned: bool  # nothing of it is left in the cluster
    replicas: tuple[ReplicaSeen, ...]


async def look(job_id: UUID, user: User) -> JobSeen | None:
    """The job, if this person may see it."""
    found: JobSeen | None = await database_sync_to_async(_look)(job_id, user)
    return found


def _look(job_id: UUID, user: User) -> JobSeen | None:
    job = Job.objects.visible_to(user).select_related("tenant").filter(pk=job_id).first()
    if job is None:
        return None
    return JobSeen(
        id=job.pk,
        tenant_id=job.tenant_id,
        namespace=job.tenant.namespace,
        state=str(job.state),
        reason=job.reason_text,
        is_final=job.is_final,
        is_cleaned=job.cleaned_at is not None,
        replicas=_replicas(job),
    )


def _replicas(job: Job) -> tuple[ReplicaSeen, ...]:
    latest = {(row.role, row.index): row for row in job.replica_rows.order_by("attempt")}
    archives = {
        (row.role, row.index, row.attempt): row
        for row in job.archives.prefetch_related("segments").only(
            "job", "role", "index", "attempt", "is_complete"
        )
    }
    found = []
    for role, index in replicas_of(job):
        row = latest.get((role, index))
        attempt = row.attempt if row else job.attempt
        archive = archives.get((role, index, attempt))
        found.append(
            ReplicaSeen(
                name=f"{role}-{index}",
                role=role,
                index=index,
                attempt=attempt,
                pod=row.pod if row else "",
                pod_id=(row.pod_uid or row.pod) if row else "",
                state=str(row.state if row else ReplicaState.PENDING),
                reason=row.reason_text if row else "",
                has_archive=archive is not None and bool(archive.segments.all()),
                is_archived=archive is not None and archive.is_complete,
            )
        )
    return tuple(found)


async def read_log(job_id: UUID, role: str, index: int, attempt: int) -> Log | None:
    """The archived log of one attempt, if anything of it is archived."""
    found: Log | None = await database_sync_to_async(_read_log)(job_id, role, index, attempt)
    return found


def _read_log(job_id: UUID, role: str, index: int, attempt: int) -> Log | None:
    job = Job.objects.filter(pk=job_id).first()
    return find_log(job, role, index, attempt) if job is not None else None
