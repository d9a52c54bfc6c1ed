"""The manifests that a request would become, without submitting it."""

from typing import Any
from uuid import UUID

from jobs.kinds.manifests import pod_settings
from jobs.kinds.spec import columns_of
from jobs.kinds.training.kind import TRAINING
from jobs.kinds.training.manifests import render_training
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Workload
from tenants.models import Tenant

# Stands where a real training has its own id: a preview must not look like one that exists.
NO_ID = UUID(int=0)


def preview_documents(spec: TrainingSpec, tenant: Tenant) -> list[dict[str, Any]]:
    """The documents in the order in which they would be created."""
    row = Workload(pk=NO_ID, kind=TRAINING.key, tenant=tenant, **columns_of(spec))
    return render_training(row, attempt=1, pods=pod_settings())
