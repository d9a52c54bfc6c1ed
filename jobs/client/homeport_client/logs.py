"""`homeport logs`: the log so far, from living pods or from the archive; `-f` is in `follow`."""

from __future__ import annotations

from collections.abc import Iterator

import urllib3

from .exits import NOT_FOUND, OK, ClientError, UnreachableError, UsageError
from .find import FINAL, find_job
from .follow import follow_job, replica_names
from .lines import LineWriter
from .listing import Row, reason_of
from .refusals import unreachable
from .rest import chunks_of
from .sanitize import one_line
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
    attempt = _attempt(job, options.attempt, is_previous=options.previous)
    goes_on = job.get("state") not in FINAL and not _is_earlier(job, attempt)
    if options.resume or (options.follow and goes_on):
        follow_job(session, job, resume=options.resume, attempt=attempt)
    else:
        _print_log(session, job, names, attempt)
    return OK


def _attempt(job: Row, asked: str | None, *, is_previous: bool) -> str:
    """Which attempt's log to ask for; empty: what the portal shows by itself.

    Raises:
        ClientError: the training has not had it.
    """
    had = int(job.get("attempt") or 1)
    attempt = str(had - 1) if is_previous else asked or ""
    if attempt.isdigit() and not 1 <= int(attempt) <= had:
        times = "1 attempt" if had == 1 else f"{had} attempts"
        what = "There is no earlier attempt" if is_previous else f"There is no attempt {attempt}"
        raise ClientError(
            f"{what}: this training has had {times}.", "Leave the option out.", NOT_FOUND
        )
    return "" if attempt == "latest" else attempt


def _is_earlier(job: Row, attempt: str) -> bool:
    """Its pods are gone: there is nothing to follow."""
    return attempt.isdigit() and int(attempt) < int(job.get("attempt") or 1)


def _print_log(session: Session, job: Row, names: list[str], attempt: str) -> None:
    options = session.options
    # Of one replica the name in front of each line says nothing.
    replica = options.replica or (names[0] if len(names) == 1 else None)
    writer = LineWriter(session.terminal, names, has_prefixes=not replica, is_raw=options.raw)
    if options.tail == 0:
        return
    query: dict[str, object] = {"replica": replica, "attempt": attempt or None}
    query.update({"download": 1} if options.tail is None else {"tail": options.tail})
    answer = session.rest.open("GET", f"jobs/{job['id']}/logs/", query=query)
    count = 0
    for lines in _lines_of(answer, session.rest.url):
        writer.write_text(lines)
        count += len(lines)
    if not count and _is_earlier(job, attempt):
        session.terminal.tell(f"Nothing of attempt {attempt} is kept.", "dim")
    elif not count:
        state = one_line(job.get("state", ""))
        why, step = reason_of(job)
        text = f"Nothing has been written yet; the training's state is {state}. {why} {step}"
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
