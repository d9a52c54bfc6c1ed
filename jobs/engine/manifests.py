"""What of a workload's row only calls need: its manifests, and its part of the object store. Blocking, as the database is."""

from collections.abc import Sequence
from dataclasses import replace
from uuid import UUID

from jobs.archive import archive_prefix
from jobs.kinds.manifests import Grant
from jobs.kinds.plan import Rescue
from jobs.kinds.registry import KINDS
from jobs.kinds.state import WorkloadRow
from jobs.models import Workload
from portal.cluster.manifests import Object


def load(row: WorkloadRow) -> Sequence[Object]:
    """The stored manifests, the root first, with what of the request is not stored in them.

    Raises:
        Workload.DoesNotExist: the row is gone.
    """
    workload = _whole(row.id)
    return [KINDS[row.kind].with_private(workload, document) for document in workload.plan or ()]


def render_rescue(row: WorkloadRow, step: Rescue) -> Object:
    """The pod that saves the log of a lost replica.

    Raises:
        Workload.DoesNotExist: the row is gone.
    """
    render_it = KINDS[row.kind].render_rescue
    assert render_it is not None, "what is not archived has nothing to rescue"
    return render_it(_whole(row.id), row.attempt, step)


def load_prefix(row: WorkloadRow) -> str:
    """Everything of a workload in the object store begins with this; empty: nothing is kept there.

    Raises:
        Workload.DoesNotExist: the row is gone.
    """
    if KINDS[row.kind].render_rescue is None:
        return ""
    return archive_prefix(Workload.objects.only("tenant").get(pk=row.id))


def render(workload_id: UUID, attempt: int, grant: Grant) -> list[Object]:
    """The manifests of an attempt that has been admitted. See `WorkloadKind.render`.

    Raises:
        Workload.DoesNotExist: the row is gone.
        ConfigurationError, ValueError: it cannot be rendered.
    """
    workload = _whole(workload_id)
    return KINDS[workload.kind].render(workload, attempt, grant)


def render_again(workload_id: UUID, attempt: int | None, grant: Grant) -> list[Object]:
    """The same of one that keeps its room, and so its pools: another attempt, or that of its row (None).

    Raises:
        Workload.DoesNotExist: the row is gone.
        ConfigurationError, ValueError: it cannot be rendered.
    """
    workload = _whole(workload_id)
    kept = replace(grant, pools=workload.notes.get("pools", {}))
    return KINDS[workload.kind].render(workload, attempt or workload.attempt, kept)


def _whole(pk: UUID | str) -> Workload:
    return Workload.objects.select_related("tenant").get(pk=pk)
