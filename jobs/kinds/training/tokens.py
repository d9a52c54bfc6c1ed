"""The token by which the pods of one job speak to `/internal/`: derived, so nothing is stored."""

from uuid import UUID

from django.utils.crypto import constant_time_compare, salted_hmac


def job_token(job_id: UUID) -> str:
    """The token of a job's pods; good for this job only, for as long as the job's row exists."""
    return salted_hmac("homeport.job-token", str(job_id), algorithm="sha256").hexdigest()


def is_job_token(job_id: UUID, token: str) -> bool:
    return constant_time_compare(job_token(job_id), token)
