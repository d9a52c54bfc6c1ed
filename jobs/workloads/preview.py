"""The manifests that a request would become, without submitting it."""

from typing import Any
from uuid import UUID

from jobs.kinds.base import WorkloadKind
from jobs.kinds.manifests import Grant
from jobs.kinds.spec import WorkloadSpec, columns_of
from jobs.models import Workload
from jobs.workloads.fit import likely_pools
from tenants.models import Tenant

# Stands where a real workload has its own id: a preview must not look like one that exists.
NO_ID = UUID(int=0)


def preview_documents(
    kind: WorkloadKind, spec: WorkloadSpec, tenant: Tenant
) -> list[dict[str, Any]]:
    """The documents in the order in which they would be created."""
    row = Workload(pk=NO_ID, kind=kind.key, tenant=tenant, **columns_of(spec))
    return kind.render(row, 1, Grant(pools=likely_pools(kind, spec, tenant)))
