"""`homeport logs`: the log so far, from living pods or from the archive; `-f` is in `follow`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from .exits import NOT_FOUND, OK, ClientError, UnreachableError, usage_error
from .find import FINAL, find_job
from .lines import LineWriter
from .options import Command, job_argument
from .options import attempt as attempt_type
from .sanitize import one_line
from .session import Session
from .trainings import Row, reason_of, replica_names

if TYPE_CHECKING:
    import urllib3

MAX_LINE_BYTES = 16 * 1024**2


@click.command(cls=Command)
@job_argument
@click.option("-f", "--follow", "follows", is_flag=True, help="until the training has ended")
@click.option("-r", "--replica", metavar="NAME", help="only this one, such as worker-0")
@click.option(
    "--tail", type=click.IntRange(0, 10_000), metavar="N", help="only the last lines of each"
)
@click.option(
    "--attempt",
    type=attempt_type,
    metavar="N",
    help="the log of this attempt, 1 is the first; latest; all, one after the other",
)
@click.option(
    "-p",
    "--previous",
    "is_previous",
    is_flag=True,
    help="the log of the attempt before the latest",
)
@click.option("--timestamps", "has_times", is_flag=True, help="with times, while it is live (-f)")
@click.option("--raw", "is_raw", is_flag=True, help="pass on colours that the program wrote")
@click.option(
    "--resume", is_flag=True, help="go on where Ctrl-C or a lost connection ended logs -f"
)
@click.pass_obj
def logs(  # noqa: PLR0913
    session: Session,
    *,
    job: str,
    follows: bool,
    replica: str | None,
    tail: int | None,
    attempt: str | None,
    is_previous: bool,
    has_times: bool,
    is_raw: bool,
    resume: bool,
) -> int:
    """Print the log of all replicas or of one, also when the training is long over.

    -f stays until it has ended, and goes on after a lost connection without gap or repeat.
    """
    if attempt is not None and is_previous:
        raise usage_error("--attempt and --previous name different attempts.", "Give one of them.")
    training = find_job(session.rest, job, session.terminal)
    names = replica_names(training)
    if replica and replica not in names:
        raise usage_error(
            f"This training has no replica {replica!r}.", f"It has {', '.join(names[:20])}."
        )
    shown = _attempt(training, attempt, is_previous=is_previous)
    goes_on = training.get("state") not in FINAL and not _is_earlier(training, shown)
    is_live = resume or (follows and goes_on)
    # Of one replica the name in front of each line says nothing.
    has_prefixes = len(names) != 1 and not replica
    writer = LineWriter(
        session.terminal,
        names,
        has_prefixes=has_prefixes,
        is_raw=is_raw,
        has_times=has_times and is_live,
    )
    if is_live:
        from .follow import Follower, follow

        follower = Follower(session, str(training["id"]), writer, replica or "", shown, tail)
        follow(session, follower, resume=resume)
    elif tail != 0:
        replica = replica or (names[0] if len(names) == 1 else None)
        _print_log(session, training, writer, {"replica": replica, "attempt": shown or None}, tail)
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


def _print_log(
    session: Session, job: Row, writer: LineWriter, asked: dict[str, str | None], tail: int | None
) -> None:
    query = {**asked, **({"download": 1} if tail is None else {"tail": tail})}
    attempt = asked["attempt"] or ""
    answer = session.rest.open("GET", f"jobs/{job['id']}/logs/", query=query)
    count = 0
    for lines in _lines_of(session, answer):
        writer.write_text(lines)
        count += len(lines)
    if not count and _is_earlier(job, attempt):
        session.terminal.tell(f"Nothing of attempt {attempt} is kept.", "dim")
    elif not count:
        state = one_line(job.get("state", ""))
        why, step = reason_of(job)
        text = f"Nothing has been written yet; the training's state is {state}. {why} {step}"
        session.terminal.tell(text.rstrip(), "dim")


def _lines_of(session: Session, answer: urllib3.BaseHTTPResponse) -> Iterator[list[str]]:
    """The lines of an answer as it comes; one without end is cut."""
    rest = b""
    try:
        for chunk in session.rest.chunks(answer):
            *whole, rest = (rest + chunk).split(b"\n")
            if len(rest) > MAX_LINE_BYTES:
                whole, rest = [*whole, rest], b""
            if whole:
                yield [line.decode("utf-8", "replace") for line in whole]
    except UnreachableError as error:
        error.text = f"The log broke off: {error.text}"
        error.next_step = "Ask for it again."
        raise
    if rest:
        yield [rest.decode("utf-8", "replace")]
