"""The manifests that a submission would become, without submitting it."""

from typing import Any
from uuid import UUID

from jobs.manifests import Training, pod_settings, render_training
from jobs.submission import Submission
from tenants.models import Tenant

# Stands where a real training has its own id: a preview must not look like one that exists.
NO_ID = UUID(int=0)


def preview_training(submission: Submission, tenant: Tenant) -> Training:
    """The submission as the renderer wants it, under an id that nothing has."""
    return Training(
        job_id=NO_ID,
        name=submission.name,
        namespace=tenant.namespace,
        topology=submission.topology,
        image=submission.image,
        command=submission.command,
        source=submission.source,
        replicas={role: asked.as_json() for role, asked in submission.replicas.items()},
        env=submission.env,
        cluster_flags=submission.cluster_flags,
        retries=submission.retries,
        deadline_s=submission.deadline_s,
        ttl_s=submission.ttl_s,
        shm_bytes=submission.shm_bytes,
    )


def preview_documents(submission: Submission, tenant: Tenant) -> list[dict[str, Any]]:
    """The documents in the order in which they would be created."""
    return render_training(preview_training(submission, tenant), attempt=1, pods=pod_settings())
