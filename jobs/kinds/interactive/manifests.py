"""The manifests of what is served behind a gate, and what is added to them when they are sent."""

from uuid import UUID

from jobs.kinds.state import WorkloadRow
from jobs.manifests import pod_settings
from jobs.models import Service
from jobs.services import manifests, tokens
from portal.cluster.manifests import Object


def render(workload_id: UUID, attempt: int | None, deadline_s: int | None) -> list[Object]:
    """Of the latest start, which has one attempt and no deadline. See `WorkloadKind.render`."""
    service = Service.objects.select_related("tenant").get(pk=workload_id)
    return manifests.render_service(
        manifests.wanted_of(service), pods=pod_settings(), has_tls=tokens.has_gate_tls()
    )


def complete(row: WorkloadRow, document: Object, root: Object | None) -> Object:
    """With its owner, and in the Secret what the gate of this generation may know."""
    assert root is not None, "nothing of it is made without its root"
    secrets = tokens.gate_secrets(UUID(row.id), row.observed_generation)
    return manifests.completed(document, root=root, secrets=secrets)
