"""What is added to stored manifests of what is served behind a gate when they are sent."""

from uuid import UUID

from jobs.kinds.state import WorkloadRow
from jobs.services import manifests, tokens
from portal.cluster.manifests import Object


def complete(row: WorkloadRow, document: Object, root: Object | None) -> Object:
    """With its owner, and in the Secret what the gate of this generation may know."""
    assert root is not None, "nothing of it is made without its root"
    secrets = tokens.gate_secrets(UUID(row.id), row.observed_generation)
    return manifests.completed(document, root=root, secrets=secrets)
