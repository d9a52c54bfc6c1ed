"""Logs and artifacts as HTTP answers, for pages and REST alike."""

import re
from collections.abc import AsyncIterator, Iterator

from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import gettext as _

from jobs.archive import artifacts, logs
from jobs.logs.text import LogRequest, job_text
from jobs.models import Artifact, Workload
from portal.storage.store import ObjectMissingError
from portal.web.streaming import AbsentError, file_chunks, streamed


def replica_of(job: Workload, name: str) -> tuple[str, int] | None:
    """`worker-0` as (role, index); None when the job has no such replica."""
    role, _dash, number = name.rpartition("-")
    count = job.replicas.get(role, {}).get("count", 0)
    if not (number.isascii() and number.isdigit()) or int(number[:6]) >= count:
        return None
    return role, int(number)


def log_answer(request: HttpRequest, job: Workload, asked: LogRequest) -> StreamingHttpResponse:
    """The log as text; without a number of last lines it is offered as a file.

    Args:
        request: decides how it is streamed.
        job: whose log.
        asked: what of it.
    """
    replica, which, tail = asked.replica, asked.which, asked.tail_lines
    name = "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in job.name)
    if which != "latest":
        name += "-attempts" if which == "all" else f"-attempt{which}"
    whose = f"{replica[0]}-{replica[1]}" if replica else "all"
    if isinstance(request, ASGIRequest):
        chunks: Iterator[bytes] | AsyncIterator[bytes] = job_text(job, asked)
    else:  # without an event loop (the test client) only the archive can be read
        chunks = logs.job_log(job, replica=replica, tail_lines=tail, which=which)
    return streamed(
        request,
        chunks,
        file_name=f"{name}-{whose}.log" if tail is None else None,
        content_type="text/plain; charset=utf-8",
    )


def artifact_answer(request: HttpRequest, artifact: Artifact) -> StreamingHttpResponse:
    """One file, always as a download of unknown type: no browser will run it.

    A download that broke off goes on with `Range: bytes=START-`, and `If-Range` with the `ETag` of
    its beginning: a file that changed meanwhile comes whole.

    Raises:
        AbsentError: the object store has lost it.
    """
    tag = f'"{artifact.pk}-{artifact.mtime_ns}-{artifact.size_bytes}"'
    start = _start_of(request, artifact.size_bytes, tag)
    try:
        chunks = artifacts.open_artifact(artifact, start or 0)
    except ObjectMissingError as error:
        text = _(
            "This file is no longer in the object store; perhaps a backup without it was restored. "
            "Look on the log volume, or ask an admin."
        )
        raise AbsentError(text, _("File no longer available")) from error
    answer = streamed(
        request,
        file_chunks(chunks),
        file_name=artifact.path.rsplit("/", 1)[-1],
        content_type="application/octet-stream",
    )
    answer["Content-Length"] = str(artifact.size_bytes - (start or 0))
    answer["Accept-Ranges"] = "bytes"
    answer["ETag"] = tag
    if start is not None:
        answer.status_code = 206
        size = artifact.size_bytes
        answer["Content-Range"] = f"bytes {start}-{size - 1}/{size}"
    return answer


def _start_of(request: HttpRequest, size_bytes: int, tag: str) -> int | None:
    """Where an answer in part begins; None for all of it, as for ranges that are not open-ended."""
    if request.headers.get("If-Range", tag) != tag:
        return None
    match = re.fullmatch(r"bytes=(\d{1,18})-", request.headers.get("Range", ""), re.ASCII)
    # A range that begins behind the end may be answered by all of it (RFC 9110, 14.2).
    return int(match[1]) if match and int(match[1]) < size_bytes else None
