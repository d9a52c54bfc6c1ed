"""The kind of trainings."""

from uuid import UUID

from jobs import manifests
from jobs.kinds.base import WorkloadKind
from jobs.kinds.state import Rescue, WorkloadRow
from jobs.kinds.training.lifecycle import TrainingLifecycle
from jobs.kinds.training.observe import observe, read_pod
from jobs.models import Job
from jobs.tokens import job_token
from portal.cluster.manifests import Object


def _render(workload_id: UUID, attempt: int | None, deadline_s: int | None) -> list[Object]:
    job = Job.objects.select_related("tenant").get(pk=workload_id)
    return manifests.render_training(
        manifests.training_of(job),
        attempt=attempt or job.attempt,
        pods=manifests.pod_settings(),
        deadline_s=deadline_s,
    )


def _complete(row: WorkloadRow, document: Object, root: Object | None) -> Object:
    return manifests.completed(document, root=root, token=job_token(UUID(row.id)))


def _render_rescue(row: WorkloadRow, step: Rescue) -> Object:
    """Blocking: it reads the request, as all rendering does.

    Raises:
        Job.DoesNotExist: the row is gone.
    """
    training = manifests.training_of(Job.objects.select_related("tenant").get(pk=row.id))
    key = step.key
    lost = manifests.Lost(key.role, key.index, key.attempt, step.pod_uid, step.number)
    return manifests.render_rescue(
        training, lost, attempt=row.attempt, pods=manifests.pod_settings()
    )


TRAINING = WorkloadKind(
    "job", TrainingLifecycle, read_pod, observe, _render, _complete, _render_rescue
)
