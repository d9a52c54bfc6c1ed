"""What is archived of a workload: logs and artifacts, in the object store and in rows."""

from jobs.models import Workload


def archive_prefix(workload: Workload) -> str:
    """Everything in the object store that belongs to this workload begins with this."""
    return f"{workload.tenant_id}/jobs/{workload.pk}/"
