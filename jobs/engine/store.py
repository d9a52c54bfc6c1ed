"""The reconciler's reads and writes of workloads. Blocking: called in the database thread.

Writes are made inside `Lease.commit` only, one transaction per tick, and only what changed.
"""

from collections.abc import Collection, Iterable, Sequence
from uuid import UUID

from jobs.engine import job_rows, service_rows
from jobs.engine.rows import Change, ChangedRow, Intent, Loaded, Queue, TenantQueue
from jobs.kinds.state import WorkloadRow
from portal.cluster.manifests import Object
from tenants.models import Tenant


def all_open() -> dict[UUID, Intent]:
    """Every workload of which something may be in the cluster, and what people want of it."""
    return job_rows.all_open() | service_rows.all_open()


def unsettled(known: Collection[UUID]) -> dict[UUID, Intent]:
    """Workloads that may have work, and what people want of each.

    Args:
        known: ended ones on which the reconciler still works; the others are found by their state.
    """
    return job_rows.unsettled(known) | service_rows.unsettled(known)


def load(ids: Iterable[UUID]) -> Loaded:
    """Rows without what only rendering needs; those that are gone are absent."""
    wanted = set(ids)
    jobs = job_rows.load(wanted)
    others = wanted - jobs.rows.keys() - jobs.broken.keys()
    if not others:
        return jobs
    services = service_rows.load(others)
    return Loaded({**jobs.rows, **services.rows}, {**jobs.broken, **services.broken})


def load_documents(row: WorkloadRow) -> Sequence[Object]:
    """The stored manifests, the root first, with what of them is kept elsewhere.

    Raises:
        ObjectDoesNotExist: the row is gone.
    """
    if row.kind == job_rows.KEY:
        return job_rows.load_documents(UUID(row.id))
    return service_rows.load_documents(UUID(row.id))


def load_prefix(row: WorkloadRow) -> str:
    """Everything of a workload in the object store begins with this; empty: nothing is kept there.

    Raises:
        ObjectDoesNotExist: the row is gone.
    """
    return job_rows.load_prefix(UUID(row.id)) if row.kind == job_rows.KEY else ""


def read_queue() -> Queue:
    """The queue, and what has been admitted."""
    jobs, whose = job_rows.read_queue()
    services, others = service_rows.read_queue()
    tenants = whose | others
    return Queue(
        queued=(*jobs, *services),
        admitted=(*job_rows.read_admitted(), *service_rows.read_admitted()) if tenants else (),
        tenants=tuple(
            TenantQueue(
                str(pk), tenant.namespace, tenant.closed, tenant.state == Tenant.State.ACTIVE
            )
            for pk, tenant in tenants.items()
        ),
    )


def load_queued(ids: Collection[UUID]) -> dict[UUID, WorkloadRow]:
    """Of these the rows that are in the queue, and may stay there; what cannot be read is left out."""
    return job_rows.load_queued(ids) | service_rows.load_queued(ids)


def save_admission(change: Change, documents: Sequence[Object] | None) -> ChangedRow | None:
    """Writes what admission says of a row, with its manifests if it has room. See `save`.

    Returns:
        None: it is not in the queue any more, and nothing was written.
    """
    if change.kind == job_rows.KEY:
        return job_rows.save_admission(change, documents)
    return service_rows.save_admission(change, documents)


def save(changes: Sequence[Change]) -> list[ChangedRow]:
    """Writes one tick. Call inside `Lease.commit`.

    Each that cannot be written stops no other: its part is rolled back, logged, and left for later.

    Raises:
        OperationalError, InterfaceError: the database itself fails; nothing was written.
    """
    jobs = [change for change in changes if change.kind == job_rows.KEY]
    services = [change for change in changes if change.kind != job_rows.KEY]
    return [*job_rows.save(jobs), *service_rows.save(services)]
