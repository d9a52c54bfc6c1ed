"""A job's log as plain text, for downloads and REST: what runs is read from the cluster, what has
been archived from the object store.
"""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from functools import partial

from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async

from jobs.archive import logs
from jobs.logs.hub import get_hub
from jobs.logs.left_out import NODE_LACKS, LeftOut, before, lacks_beginning, may_lack_beginning
from jobs.logs.lines import parse_time
from jobs.logs.newest import newest_of, rfc3339
from jobs.logs.rows import plain_lines
from jobs.logs.sources import CONTAINER
from jobs.models import Replica, Workload
from jobs.pod.protocol.notices import UNFINISHED, is_unfinished, notice, rejoined
from jobs.rules import archives
from portal.cluster.errors import ClusterError, CredentialsError
from portal.web.streaming import threaded

_LINE_BYTES = 64 * 1024  # more of a line is not waited for
_OVERLAP_BYTES = 4096  # by so much the pod's lines are joined to the archive's
_STAMP = re.compile(rb"^[^ \n]* ?", re.MULTILINE)
_NO_TIMES = notice("lines of the archive have no times").encode()
_ONLY_RECENT = notice("with times there are only the lines that the node still has").encode()
_NODE_LACKS = notice(NODE_LACKS).encode()
_MAY_REPEAT = notice("what follows is from the pod, and may repeat lines from above").encode()
_STARTED_AGAIN = notice(logs.STARTED_AGAIN).encode()
_ALL = "download=1 gives all that there are"
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
        says_cut: whether a first line says that `tail_lines` left something out; who named a number knows.
    """

    replica: tuple[str, int] | None = None
    tail_lines: int | None = None
    which: logs.Which = "latest"
    since: datetime | None = None
    has_times: bool = False
    says_cut: bool = False


@dataclass(frozen=True)
class Part:
    """One replica's log: where it lives now.

    Attributes:
        pod: read it there first; empty: the archive has it.
        found: what is archived, if anything.
        is_long: the pod may have lost its beginning, so it is read behind the archive.
        earlier: what is archived of containers before that of which the pod still has the log.
        is_start_unknown: there were such containers, and what is archived of them is not told from what is of this one.
        is_own: `found` is of the pod's own attempt.
    """

    role: str
    index: int
    attempt: int
    pod: str
    found: logs.Found | None
    is_long: bool = False
    earlier: logs.Log | None = None
    is_start_unknown: bool = False
    is_own: bool = False

    @property
    def name(self) -> str:
        return f"{self.role}-{self.index}"


def parts_of(job: Workload, asked: LogRequest) -> Iterator[Part]:
    """Where each log is to be read. Two queries, and one for each log when it is its turn.

    Only the latest attempt has pods. They know times, which the archive does not: with `since` they come
    first, and what had ended by then is nowhere.
    """
    which, wanted = asked.which, [asked.replica] if asked.replica else logs.replicas_of(job)
    found = logs.find_logs(job, wanted, which)
    rows = Replica.objects.filter(workload=job).order_by("attempt")
    if which != "latest":
        past = [one for one in found if one.attempt < job.attempt]
        for one in past:
            yield Part(*one.key, one.attempt, "", one.read())
        if which not in ("all", job.attempt):
            return
        rows = rows.filter(attempt=job.attempt)
        found = found[len(past) :]
    latest = {(row.role, row.index): row for row in rows}
    kept = {one.key: one for one in found}
    for key in wanted:
        own = kept.get(key)
        yield _part(key, latest.get(key), own.read() if own else None, job.attempt, asked)


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
    is_wanted = since is None or row.started_at is None or row.started_at > since
    if found is None or found.log.attempt != row.attempt:
        # Nothing is kept yet, or nothing could be (a full volume): the pod may still have it.
        is_unknown = is_wanted and not archives.knows_start(None, row)
        return Part(role, index, attempt, row.pod, found, is_start_unknown=is_unknown)
    log, last = found.log, archives.run_of(row)
    is_whole = archives.is_whole(log, last)
    # Of the first container in a pod what could not be kept may still be there; of later ones a part at most is.
    has_more = log.gap_at_end is not None or since is not None
    if is_whole and not (has_more and not (last.restarts and is_wanted)):
        return Part(role, index, attempt, "", found)
    is_long = not since and asked.tail_lines is None and may_lack_beginning(log.end_byte)
    earlier = None if is_whole or not is_wanted else log.until(log.run_start_byte)
    if earlier is not None and not earlier.segments:
        earlier = None
    is_unknown = is_wanted and not is_whole and not archives.knows_start(log, row)
    return Part(role, index, attempt, row.pod, found, is_long, earlier, is_unknown, is_own=True)


async def job_text(job: Workload, asked: LogRequest) -> AsyncIterator[bytes]:
    """The log so far, cut at lines. `job`: with its tenant."""
    parts = parts_of(job, asked)
    # The stream may go on for hours: a database connection that has died meanwhile is replaced.
    while (part := await database_sync_to_async(next)(parts, None)) is not None:
        head = logs.head_line(part.attempt, part.name) if asked.which == "all" else b""
        mark = logs.Prefix(f"{part.name} | ".encode() if asked.replica is None else b"")
        if left_out := await _left_out(job.tenant.namespace, part, asked):
            yield head + mark(_newest(left_out, asked.tail_lines or 0))
            head = b""
        async for chunk in _text(job.tenant.namespace, part, asked, mark):
            yield head + chunk
            head = b""


def _newest(left_out: LeftOut, count: int) -> bytes:
    """What stands before the newest lines: how many are missing, where that is known."""
    text = f"these are the newest {count:,} lines; {_ALL}"
    return notice(text if left_out.lines is None else left_out.words(_ALL)).encode()


async def _left_out(namespace: str, part: Part, asked: LogRequest) -> LeftOut | None:
    """Whether there are more lines than the last ones: in the pod, or archived before them."""
    if (tail_lines := asked.tail_lines) is None or not asked.says_cut:
        return None
    count = 0
    if part.pod:
        try:
            async for chunk in _live(namespace, part.pod, tail_lines + 1, asked.since):
                count += chunk.count(b"\n")
        except (ClusterError, CredentialsError):
            count = 0  # all that is archived is shown in its place
    if count > tail_lines:
        return LeftOut()
    whole = part.found.log if part.found is not None else None
    archived = part.earlier if count else whole
    return await sync_to_async(_before_tail)(archived, tail_lines - count) if archived else None


def _before_tail(log: logs.Log, lines: int) -> LeftOut | None:
    """What an archived log has before its last lines."""
    return before(log, log.tail_start(lines) if lines else log.end_byte)


async def _lost(namespace: str, part: Part, asked: LogRequest) -> bytes:
    """A line of ours where the node has lost lines that are asked for.

    Raises:
        ClusterError, CredentialsError: the pod's log cannot be read.
    """
    log = part.found.log if part.found is not None and part.is_own else None
    if log is None or not may_lack_beginning(log.end_byte - log.run_start_byte):
        return b""
    if asked.tail_lines is not None:
        logs_of = partial((await get_hub()).source.logs, namespace, part.pod, CONTAINER)
        if (await newest_of(logs_of, asked.tail_lines, asked.since)).lines >= asked.tail_lines:
            return b""
    async with aclosing(_live(namespace, part.pod, None, None)) as chunks:
        time, _, line = (await anext(chunks, b"")).partition(b"\n")[0].partition(b" ")
    since = asked.since
    if not time or (since and parse_time(time.decode("latin-1")) <= since.timestamp() * 10**9):
        return b""
    is_lost = await sync_to_async(lacks_beginning)(log, plain_lines(line)[0].text)
    return _NODE_LACKS if is_lost else b""


async def _text(
    namespace: str, part: Part, asked: LogRequest, mark: logs.Prefix
) -> AsyncIterator[bytes]:
    """Live if it can be had, else archived; both where the pod may not have all. Marked."""
    since, earlier = asked.since, part.earlier
    is_all = not (since or asked.has_times or asked.tail_lines)
    whole = await _whole(namespace, part, mark) if is_all else None
    if whole is not None:
        async for chunk in whole:
            yield chunk
        return
    if part.pod:
        came, strip = False, _Unstamped()
        if earlier is not None or (part.is_start_unknown and not is_all):
            async for chunk in _before(namespace, part.pod, earlier, asked, mark):
                came = True
                yield chunk
        try:
            lost = b"" if came or not part.is_long else _ONLY_RECENT
            lost = lost or await _lost(namespace, part, asked)
            async for chunk in _live(namespace, part.pod, asked.tail_lines, since):
                if lost:
                    yield mark(lost)
                    lost = b""
                came = True
                yield mark(chunk if asked.has_times else strip(chunk))
            came = came or since is not None
        except (ClusterError, CredentialsError) as error:
            # Not started yet, gone meanwhile, or no cluster: what is archived is all there is.
            if came:
                yield mark(_broken(error))
        if came:
            return
    if part.found is not None:
        if since or asked.has_times:
            yield mark(_ALL_OF_IT if since else _NO_TIMES)
        async for chunk in threaded(_archived(part.found.text(asked.tail_lines), mark)):
            yield chunk


async def _whole(namespace: str, part: Part, mark: logs.Prefix) -> AsyncIterator[bytes] | None:
    """What is archived and then what the pod has; None: one of them has all that there is."""
    if part.is_start_unknown:
        kept = part.found if part.found and part.found.log.attempt == part.attempt else None
        if await _has_earlier(namespace, part.pod, kept):
            return _apart(namespace, part.pod, kept, mark)
    if part.pod and part.found is not None and (part.is_long or part.earlier):
        return _joined(namespace, part.pod, part.found, part.earlier, mark)
    return None


def _archived(
    chunks: Iterator[bytes], mark: logs.Prefix, end: bytearray | None = None
) -> Iterator[bytes]:
    """What is archived, to the end of its last line, marked in the thread that reads it.

    Args:
        end: has its last bytes afterwards, unmarked.
    """
    for chunk in chunks:
        if end is not None:
            end += chunk[-_OVERLAP_BYTES:]
            del end[:-_OVERLAP_BYTES]
        yield mark(chunk)


async def _before(
    namespace: str, pod: str, earlier: logs.Log | None, asked: LogRequest, mark: logs.Prefix
) -> AsyncIterator[bytes]:
    """What of earlier containers belongs before the lines of the pod; nothing while it has none. Marked.

    Args:
        earlier: None: a line stands for it.
    """
    count, start = 0, 0
    try:
        async for chunk in _live(namespace, pod, asked.tail_lines, asked.since):
            count += chunk.count(b"\n")
    except (ClusterError, CredentialsError):
        return  # all that is archived is shown in its place
    if not asked.since and not count:
        return
    if asked.tail_lines:
        missing = asked.tail_lines - count
        if missing <= 0:
            return
    if earlier is None:
        yield mark(_STARTED_AGAIN)
        return
    if asked.tail_lines:
        start = await sync_to_async(earlier.tail_start)(missing)
    if asked.since or asked.has_times:
        yield mark(_ALL_OF_IT if asked.since else _NO_TIMES)
    async for chunk in threaded(_archived(earlier.text(start), mark)):
        yield chunk


async def _has_earlier(namespace: str, pod: str, found: logs.Found | None) -> bool:
    """Whether the pod has lines, and the log does not begin with them.

    A container that finds something of another one on the volume says first that it was started again.
    """
    strip = _Unstamped()
    try:
        async with aclosing(_live(namespace, pod, None, None)) as chunks:
            async for chunk in chunks:
                first, head = strip(chunk), b""
                if found is not None:
                    head = await sync_to_async(found.log.read)(0, len(first[:_OVERLAP_BYTES]))
                return not head or not first.startswith(head)
    except (ClusterError, CredentialsError):
        pass  # all that is archived is shown in its place
    return False


async def _apart(
    namespace: str, pod: str, found: logs.Found | None, mark: logs.Prefix
) -> AsyncIterator[bytes]:
    """What is archived, and all that the pod has: nobody knows what of it is the same. Marked."""
    if found is not None:
        async for chunk in threaded(_archived(found.log.text(), mark)):
            yield chunk
    yield mark(_STARTED_AGAIN)
    strip = _Unstamped()
    try:
        async for chunk in _live(namespace, pod, None, None):
            yield mark(strip(chunk))
    except (ClusterError, CredentialsError) as error:
        yield mark(_broken(error))


async def _joined(
    namespace: str,
    pod: str,
    found: logs.Found,
    earlier: logs.Log | None,
    mark: logs.Prefix,
) -> AsyncIterator[bytes]:
    """What is archived, and what only the pod has so far. Marked."""
    last, own_start = bytearray(), 0
    if earlier is not None:
        async for chunk in threaded(_archived(earlier.text(), mark)):
            yield chunk
        own_start = earlier.run_start_byte
    # Of the container alone of which the pod has the log: its end is found there, if the beginning still is.
    # It may end within a line, which goes on in the pod.
    own = found.log.text(own_start, closes=False)
    async for chunk in threaded(_archived(own, mark, last)):
        yield chunk
    end, strip = bytes(last), _Unstamped()
    is_joined, kept = not end, b""
    is_open = bool(end) and not end.endswith(b"\n")
    try:
        async for chunk in _live(namespace, pod, None, None):
            text = kept + strip(chunk)
            if not is_joined:
                _, overlap, rest = text.partition(end)
                is_joined = bool(overlap)
                text, kept = rest, b"" if is_joined else text[-len(end) :]
            if text:
                is_open = not text.endswith(b"\n")
                yield mark(text)
        if is_open:
            yield mark(b"\n")
            is_open = False
        if is_joined:
            return
        # Its file is a newer one, its lines were paced, or it is another pod's.
        yield mark(_MAY_REPEAT)
        strip = _Unstamped()
        async for chunk in _live(namespace, pod, None, None):
            text = strip(chunk)
            is_open = not text.endswith(b"\n")
            yield mark(text)
    except (ClusterError, CredentialsError) as error:
        if is_open:
            yield mark(b"\n")
        yield mark(_broken(error))


def _broken(error: Exception) -> bytes:
    return notice(f"the rest cannot be read now: {error}").encode()


class _Unstamped:
    """Takes the time from each beginning of a line, of one chunk after the other."""

    def __init__(self) -> None:
        self._at_line_start = True

    def __call__(self, chunk: bytes) -> bytes:
        begun, chunk = (b"", chunk) if self._at_line_start else _line_end(chunk)
        self._at_line_start = (chunk or begun).endswith(b"\n")
        return begun + _STAMP.sub(b"", chunk)


def _line_end(chunk: bytes) -> tuple[bytes, bytes]:
    """The rest of a line, with its break, and what follows."""
    at = chunk.find(b"\n") + 1
    return (chunk[:at], chunk[at:]) if at else (chunk, b"")


async def _live(
    namespace: str, pod: str, tail_lines: int | None, since: datetime | None
) -> AsyncGenerator[bytes]:
    """Lines, each behind its time; one that is longer than `_LINE_BYTES` in pieces."""
    hub = await get_hub()
    logs_of = partial(hub.source.logs, namespace, pod, CONTAINER)
    newest = None
    if tail_lines is not None:
        newest = (await newest_of(logs_of, tail_lines, since)).pieces
    rest, is_open = b"", False
    goes_on = (
        False  # what was given ends within a line, of which the next piece stands behind its time
    )
    async with logs_of(follow=False, tail_lines=newest, since_time=rfc3339(since)) as chunks:
        async for chunk in chunks:
            body, newline, rest = (rest + chunk).rpartition(b"\n")
            if newline:
                lines = rejoined((UNFINISHED + b"\n" if goes_on else b"") + body + newline)
                goes_on = is_unfinished(lines)
                yield lines.removesuffix(UNFINISHED + b"\n")
            if len(rest) > _LINE_BYTES:
                # A mark that has begun is waited for, and a line that is open is no longer stamped.
                kept = rest.find(UNFINISHED[:1], len(rest) - len(UNFINISHED))
                known = rest if kept < 0 else rest[:kept]
                yield known.partition(b" ")[2] if goes_on else known
                goes_on = False
                rest, is_open = rest[len(known) :], True
            elif newline:
                is_open = False
    if goes_on:
        rest, is_open = rest.partition(b" ")[2], True
    if rest or is_open:
        yield rest + b"\n"
