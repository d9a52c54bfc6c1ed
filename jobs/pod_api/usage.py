"""What pods tell of what they really use, under /internal/v1/: a minute of a replica is told once.

A training tells it by its job's token, a notebook by one that is good for nothing else, for its program can
read it.
"""

import time
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from django.urls import path

from jobs.kinds.interactive.tokens import is_usage_token
from jobs.models import Workload
from jobs.pod_api.base import pod_view, read_body
from jobs.pod_api.gate import service_of
from jobs.pod_api.runner import check_replica, of_job, refuse_archived
from jobs.usage import measured, memory_kills
from jobs.usage.minutes import Told, find_problem
from portal.errors import Refused

MAX_BYTES = 256 * 1024


def _kept(
    request: HttpRequest, workload: Workload, role: str, index: int, attempt: int
) -> dict[str, Any]:
    told, now_s = read_body(request, Told, MAX_BYTES), time.time()
    if told.oom_kills:
        # Whatever becomes of the minutes: a pod that is refused does not tell them again.
        memory_kills.record(workload, role, index, attempt, told)
    most = measured.most_of(workload, role, index, told.method)
    problems = [find_problem(minute, now_s, most, told.totals) for minute in told.minutes]
    problem = next(filter(None, problems), "")
    told.minutes = [minute for minute, bad in zip(told.minutes, problems, strict=True) if not bad]
    if not measured.keep(workload, role, index, attempt, told, problem):
        if problem:
            raise Refused(problem, "invalid", 400)
        raise Refused("these minutes are known already", "known", 409)
    return {"next_s": measured.next_s()}


@of_job
def of_replica(
    request: HttpRequest, job: Workload, role: str, index: int, attempt: int
) -> dict[str, Any]:
    """Minutes of one replica of a training."""
    check_replica(job, role, index, attempt)
    refuse_archived(job)
    return _kept(request, job, role, index, attempt)


def _find_service(service_id: UUID, token: str) -> Workload:
    return service_of(service_id, is_good=is_usage_token(service_id, token))


@pod_view(_find_service, "service_id")
def of_service(request: HttpRequest, service: Workload, start: int) -> dict[str, Any]:
    """Minutes of a start of a notebook."""
    if service.generation != start:
        raise Refused("this start has ended", "stopped", 410)
    return _kept(request, service, service.kind, 0, start)


internal_urls = [
    path("jobs/<uuid:job_id>/replicas/<slug:role>/<int:index>/<int:attempt>/usage/", of_replica),
    path("services/<uuid:service_id>/usage/<int:start>/", of_service),
]
