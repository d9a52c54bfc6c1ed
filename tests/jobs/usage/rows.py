"""Rows of usage for tests."""

from datetime import datetime
from typing import Any
from uuid import uuid4

from jobs.usage.models import UsageInterval
from tenants.models import Tenant


def make_interval(
    tenant: Tenant, began_at: datetime, ended_at: datetime | None = None, **changes: Any
) -> None:
    """A pod of the tenant's owner, with one GPU and one core."""
    fields = {
        "team": tenant.team,
        "kind": "job",
        "object_id": uuid4(),
        "object_name": "a",
        "pod_uid": str(uuid4()),
        "node": "n",
        "gpu_count": 1,
        "cpu_millicores": 1000,
        "memory_bytes": 1,
        **changes,
    }
    UsageInterval.objects.create(
        tenant=tenant, owner=tenant.owner, started_at=began_at, ended_at=ended_at, **fields
    )
