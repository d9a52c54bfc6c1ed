"""The token by which the pods of one job speak to `/internal/`: derived, so nothing is stored."""

from uuid import UUID

from portal import signing

_SALT = "homeport.job-token"


def job_token(job_id: UUID) -> str:
    """The token of a job's pods; good for this job only, for as long as the job's row exists."""
    return signing.derived(_SALT, str(job_id))


def is_job_token(job_id: UUID, token: str) -> bool:
    return signing.is_derived(_SALT, str(job_id), token)
