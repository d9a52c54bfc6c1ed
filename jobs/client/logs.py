"""`homeport logs`: the log so far, from living pods or from the archive; `-f` is in `following`."""

from __future__ import annotations

from collections.abc import Iterator

import urllib3

from .exits import OK, UnreachableError, UsageError
from .find import FINAL, find_job
from .following import follow_job, replica_names
from .harmless import one_line
from .lines import LineWriter
from .listing import Row, reason_of
from .refusals import unreachable
from .rest import chunks_of
from .session import Session

MAX_LINE_BYTES = 16 * 1024**2


def logs(session: Session) -> int:
    """The command `logs`."""
    options = session.options
    job = find_job(session.rest, options.job, session.terminal)
    names = replica_names(job)
    if options.replica and options.replica not in names:
        raise UsageError(
            f"This training has no replica {options.replica!r}.", f"It has {', '.join(names[:20])}."
        )
    if options.resume or (options.follow and job.get("state") not in FINAL):
        follow_job(session, job, resume=options.resume)
    else:
        _print_log(session, job, names)
    return OK


def _print_log(session: Session, job: Row, names: list[str]) -> None:
    options = session.options
    # Of one replica the name in front of each line says nothing.
    replica = options.replica or (names[0] if len(names) == 1 else None)
    writer = LineWriter(session.terminal, names, has_prefixes=not replica, is_raw=options.raw)
    if options.tail == 0:
        return
    query: dict[str, object] = {"replica": replica}
    query.update({"download": 1} if options.tail is None else {"tail": options.tail})
    answer = session.rest.open("GET", f"jobs/{job['id']}/logs/", query=query)
    count = 0
    for lines in _lines_of(answer, session.rest.url):
        writer.write_text(lines)
        count += len(lines)
    if not count:
        state = one_line(job.get("state", ""))
        why, step = reason_of(job)
        text = f"Nothing has been written yet; the training is {state}. {why} {step}"
        session.terminal.tell(text.rstrip(), "dim")


def _lines_of(answer: urllib3.BaseHTTPResponse, url: str) -> Iterator[list[str]]:
    """The lines of an answer as it comes; one without end is cut."""
    rest = b""
    try:
        for chunk in chunks_of(answer):
            *whole, rest = (rest + chunk).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                whole, rest = [*whole, rest], b""
            if whole:
                yield [line.decode("utf-8", "replace") for line in whole]
    except urllib3.exceptions.HTTPError as error:
        lost = unreachable(url, error, is_safe=True)
        if isinstance(lost, UnreachableError):
            lost.text = f"The log broke off: {lost.text}"
            lost.next_step = "Ask for it again."
        raise lost from error
    finally:
        answer.release_conn()
    if rest:
        yield [rest.decode("utf-8", "replace")]
