"""The kind of trainings."""

from uuid import UUID

from jobs import manifests
from jobs.kinds.base import WorkloadKind
from jobs.kinds.state import WorkloadRow
from jobs.kinds.training.lifecycle import TrainingLifecycle
from jobs.kinds.training.observe import observe, read_pod
from jobs.tokens import job_token
from portal.cluster.manifests import Object


def _complete(row: WorkloadRow, document: Object, root: Object | None) -> Object:
    return manifests.completed(document, root=root, token=job_token(UUID(row.id)))


TRAINING = WorkloadKind("job", TrainingLifecycle, read_pod, observe, _complete)
