"""Carries out the calls of services' plans; see jobs/engine/executor.py."""

from collections.abc import Sequence
from uuid import UUID

from jobs.engine.executor import Applier, Task
from jobs.services import manifests, tokens
from jobs.services.reconciler import rows
from portal.cluster.manifests import Object


class ServiceApplier(Applier):
    """With a Deployment for a root, and the gate's secrets in the Secret."""

    root_kind = "Deployment"

    def documents(self, row_id: UUID) -> Sequence[Object]:
        return rows.load_plan(row_id)

    def completed(self, task: Task, document: Object, root: Object | None) -> Object:
        assert root is not None, "nothing of a service is made without its root"
        secrets = tokens.gate_secrets(task.job_id, task.job.observed_generation)
        return manifests.completed(document, root=root, secrets=secrets)
