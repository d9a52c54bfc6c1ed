"""What is archived of a job: logs and artifacts, in the object store and in rows."""

from jobs.models import Job


def job_prefix(job: Job) -> str:
    """Everything in the object store that belongs to this job begins with this."""
    return f"{job.tenant_id}/jobs/{job.pk}/"
