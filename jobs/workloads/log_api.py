"""What of a training's log REST is asked for: parameters of the address, read and refused in words."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django.utils.dateparse import parse_datetime
from django.utils.timezone import now
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter

from jobs.archive.logs import Which, which_of
from jobs.logs import downloads
from jobs.logs.text import LogRequest
from jobs.models import Workload
from portal.errors import FieldError, Refused
from portal.web.fields import as_whole
from portal.web.streaming import AbsentError

MAX_TAIL = 10_000
DEFAULT_TAIL = 1_000
LOG_PARAMETERS = [
    OpenApiParameter("replica", description="for example worker-0; absent: all"),
    OpenApiParameter("attempt", description="1 for the first, latest (default), or all"),
    OpenApiParameter(
        "tail",
        OpenApiTypes.INT,
        description="the last lines of each replica: 1,000 if it is not given, at most 10,000",
    ),
    OpenApiParameter(
        "since", description="seconds ago, or a time as 2026-11-24T09:00:00Z; of pods only"
    ),
    OpenApiParameter("download", OpenApiTypes.INT, description="1: all, as a file"),
    OpenApiParameter(
        "timestamps", OpenApiTypes.INT, description="1: lines with times; of pods only"
    ),
]


def log_request(job: Workload, query: Mapping[str, str]) -> LogRequest:
    """What these parameters ask for.

    Raises:
        Refused: a parameter says nothing that can be, or names what this job has not had.
    """
    tail = as_whole(query.get("tail", str(DEFAULT_TAIL)))
    replica = _parse_replica(job, query.get("replica"))
    which = _parse_attempt(job, query.get("attempt"))
    if tail is None or not 1 <= tail <= MAX_TAIL:
        raise Refused([FieldError("tail", "out_of_range", f"This must be 1 to {MAX_TAIL}.")])
    return LogRequest(
        replica,
        None if query.get("download") == "1" else tail,
        which,
        _parse_since(query.get("since", "")),
        query.get("timestamps") == "1",
        says_cut="tail" not in query,
    )


def _parse_replica(job: Workload, name: str | None) -> tuple[str, int] | None:
    """`worker-0` as (role, index), None for all.

    Raises:
        Refused: the job has no such replica.
    """
    if not name:
        return None
    replica = downloads.replica_of(job, name)
    if replica is None:
        text = f"This job has no replica {name[:40]!r}."
        raise Refused([FieldError("replica", "not_found", text)], status=404)
    return replica


def _parse_attempt(job: Workload, text: str | None) -> Which:
    """Whose log is asked for.

    Raises:
        Refused: the job has not had that attempt.
    """
    try:
        return which_of(job, text or "")
    except AbsentError as error:
        raise Refused([FieldError("attempt", "not_found", str(error))], status=404) from error


def _parse_since(text: str) -> datetime | None:
    """Seconds ago, or a time with its zone.

    Raises:
        Refused: neither, or further away than times go.
    """
    if not text:
        return None
    seconds = as_whole(text)
    try:
        found = parse_datetime(text) if seconds is None else now() - timedelta(seconds=seconds)
        if found is not None and found.tzinfo is not None:
            return found.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    told = "Give seconds, or a time with its zone: 2026-11-24T09:00:00Z."
    raise Refused([FieldError("since", "invalid", told)])
