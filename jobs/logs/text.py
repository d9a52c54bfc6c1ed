"""A job's log as plain text, for downloads and REST: what runs is read from the cluster, what has
been archived from the object store.
"""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime

from asgiref.sync import sync_to_async

from jobs.archive import logs
from jobs.logs.hub import get_hub
from jobs.logs.sources import CONTAINER
from jobs.models import Replica, Workload
from jobs.pod.protocol.notices import notice
from portal.cluster.errors import ClusterError, CredentialsError
from portal.web.streaming import threaded

# A kubelet begins a new file at 10 MiB (containerLogMaxSize), where each line has some 40 bytes more, and
# reads that one alone. What a longer log begins with is in the archive.
LIVE_MAX_BYTES = 1024**2
_OVERLAP_BYTES = 4096  # by so much the pod's lines are joined to the archive's
_STAMP = re.compile(rb"^[^ \n]* ?", re.MULTILINE)
_NO_TIMES = notice("lines of the archive have no times").encode()
_ONLY_RECENT = notice("with times there are only the lines that the node still has").encode()
_MAY_REPEAT = notice("what follows is from the pod, and may repeat lines from above").encode()
_ALL_OF_IT = notice("lines of the archive have no times, so all of it follows").encode()


@dataclass(frozen=True)
class LogRequest:
    """What of a job's log is asked for.

    Attributes:
        replica: role and index; None for all, each line behind its replica's name.
        tail_lines: only so many lines of each; None for everything.
        which: whose log; `all` has a line with attempt and replica before each.
        since: in UTC; only lines from this time on, where times are known: of pods.
        has_times: each line behind its time (RFC 3339), where times are known.
    """

    replica: tuple[str, int] | None = None
    tail_lines: int | None = None
    which: logs.Which = "latest"
    since: datetime | None = None
    has_times: bool = False


@dataclass(frozen=True)
class Part:
    """One replica's log: where it lives now.

    Attributes:
        pod: read it there first; empty: the archive has it.
        found: what is archived, if anything.
        is_long: the pod may have lost its beginning, so it is read behind the archive.
    """

    role: str
    index: int
    attempt: int
    pod: str
    found: logs.Found | None
    is_long: bool = False

    @property
    def name(self) -> str:
        return f"{self.role}-{self.index}"


def parts_of(job: Workload, asked: LogRequest) -> list[Part]:
    """Where each log is to be read. Three queries, however many replicas and attempts.

    Only the latest attempt has pods. They know times, which the archive does not: with `since` they come
    first, and what had ended by then is nowhere.
    """
    which, wanted = asked.which, [asked.replica] if asked.replica else logs.replicas_of(job)
    found = logs.find_logs(job, wanted, which)
    rows = Replica.objects.filter(workload=job).order_by("attempt")
    parts = []
    if which != "latest":
        past = [one for one in found if one.log.attempt < job.attempt]
        parts = [Part(one.role, one.index, one.log.attempt, "", one) for one in past]
        if which not in ("all", job.attempt):
            return parts
        rows = rows.filter(attempt=job.attempt)
        found = found[len(past) :]
    latest = {(row.role, row.index): row for row in rows}
    kept = {one.key: one for one in found}
    return parts + [
        _part(key, latest.get(key), kept.get(key), job.attempt, asked) for key in wanted
    ]


def _part(
    key: tuple[str, int],
    row: Replica | None,
    found: logs.Found | None,
    attempt: int,
    asked: LogRequest,
) -> Part:
    (role, index), since = key, asked.since
    if since and row is not None and row.finished_at and row.finished_at < since:
        return Part(role, index, attempt, "", None)
    if row is None or not row.pod:
        return Part(role, index, attempt, "", found)
    if found is None or since:
        # Nothing is kept yet, or nothing could be (a full volume): the pod may still have it.
        return Part(role, index, attempt, row.pod, found)
    log = found.log
    is_same = log.attempt == row.attempt
    is_whole = is_same and log.is_complete and log.gap_at_end is None
    is_long = is_same and asked.tail_lines is None and log.end_byte > LIVE_MAX_BYTES
    return Part(role, index, attempt, "" if is_whole else row.pod, found, is_long)


async def job_text(job: Workload, asked: LogRequest) -> AsyncIterator[bytes]:
    """The log so far, cut at lines. `job`: with its tenant."""
    for part in await sync_to_async(parts_of)(job, asked):
        head = logs.head_line(part.attempt, part.name) if asked.which == "all" else b""
        prefix = f"{part.name} | ".encode() if asked.replica is None else b""
        async for chunk in _text(job.tenant.namespace, part, asked):
            yield head + (b"".join(logs.prefixed([chunk], prefix)) if prefix else chunk)
            head = b""


async def _text(namespace: str, part: Part, asked: LogRequest) -> AsyncIterator[bytes]:
    """Live if it can be had, else archived; both where the pod may not have all."""
    since = asked.since
    if part.pod and part.found is not None and part.is_long and not asked.has_times:
        async for chunk in _joined(namespace, part.pod, part.found):
            yield chunk
        return
    if part.pod:
        came = False
        try:
            async for chunk in _live(namespace, part.pod, asked.tail_lines, since):
                if part.is_long and not came:
                    yield _ONLY_RECENT
                came = True
                yield chunk if asked.has_times else _STAMP.sub(b"", chunk)
            came = came or since is not None
        except (ClusterError, CredentialsError) as error:
            # Not started yet, gone meanwhile, or no cluster: what is archived is all there is.
            if came:
                yield _broken(error)
        if came:
            return
    if part.found is not None:
        if since or asked.has_times:
            yield _ALL_OF_IT if since else _NO_TIMES
        async for chunk in threaded(_whole_lines(part.found.text(asked.tail_lines))):
            yield chunk


async def _joined(namespace: str, pod: str, found: logs.Found) -> AsyncIterator[bytes]:
    """What is archived, and what only the pod has so far."""
    end = b""
    async for chunk in threaded(_whole_lines(found.text(None))):
        end = (end + chunk)[-_OVERLAP_BYTES:]
        yield chunk
    is_joined, kept = not end, b""
    try:
        async for chunk in _live(namespace, pod, None, None):
            text = kept + _STAMP.sub(b"", chunk)
            if not is_joined:
                _, overlap, rest = text.partition(end)
                is_joined = bool(overlap)
                text, kept = rest, b"" if is_joined else text[-len(end) :]
            if text:
                yield text
        if is_joined:
            return
        yield _MAY_REPEAT  # its file is a newer one, its lines were paced, or it is another pod's
        async for chunk in _live(namespace, pod, None, None):
            yield _STAMP.sub(b"", chunk)
    except (ClusterError, CredentialsError) as error:
        yield _broken(error)


def _broken(error: Exception) -> bytes:
    return notice(f"the rest cannot be read now: {error}").encode()


def _whole_lines(chunks: Iterator[bytes]) -> Iterator[bytes]:
    rest = b""
    for chunk in chunks:
        body, newline, rest = (rest + chunk).rpartition(b"\n")
        if newline:
            yield body + newline
    if rest:
        yield rest + b"\n"


async def _live(
    namespace: str, pod: str, tail_lines: int | None, since: datetime | None
) -> AsyncIterator[bytes]:
    """Whole lines, each behind its time."""
    hub = await get_hub()
    since_time = since.isoformat(timespec="seconds").replace("+00:00", "Z") if since else None
    rest = b""
    async with hub.source.logs(
        namespace, pod, CONTAINER, follow=False, tail_lines=tail_lines, since_time=since_time
    ) as chunks:
        async for chunk in chunks:
            body, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                yield body + newline
    if rest:
        yield rest + b"\n"
