"""`homeport logs`: the log so far, from living pods or from the archive; `-f` is in `follow`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

import click

from .amounts import parse_time
from .answers import FINAL, Json, parts, reason_of, replica_names
from .body import duration_s
from .exits import NOT_FOUND, OK, ClientError, UnreachableError, usage_error
from .find import find_job
from .options import Command, job_argument, number_option
from .output import text_width
from .sanitize import one_line, sanitize
from .session import CliSession
from .terminal import Terminal

if TYPE_CHECKING:
    import urllib3

MAX_LINE_BYTES = 16 * 1024**2
_PALETTE = ("cyan", "yellow", "green", "magenta", "blue", "red")
# A time as the kubelet writes it before a line (RFC 3339); an archived line has none.
_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d) ", re.ASCII)
_PREFIX = re.compile(r"([a-z]{1,12}-\d{1,5}) \| ")


def _beginning(text: str, width: int) -> str:
    """As much of a text as fits so many columns of a terminal."""
    taken = 0
    for at, sign in enumerate(text):
        taken += text_width(sign)
        if taken > width:
            return text[:at]
    return text


@dataclass
class LineWriter:
    """Writes lines of one training: behind their replica's name, in colours where there are any."""

    terminal: Terminal
    replicas: Sequence[str]
    has_prefixes: bool
    is_raw: bool = False  # colours of the program are passed on
    has_times: bool = False  # with the cluster's times; as text, lines have them already
    _prefixes: dict[str, str] = field(default_factory=dict, init=False)
    _is_open: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._width = max(map(len, self.replicas), default=0)
        for name in self.replicas:
            self._prefix(name)

    def _prefix(self, replica: str) -> str:
        if self.has_prefixes and replica not in self._prefixes:
            colour = _PALETTE[len(self._prefixes) % len(_PALETTE)]
            shown = sanitize(replica)[:40].ljust(self._width) + " |"
            self._prefixes[replica] = self.terminal.paint(shown, colour) + " "
        return self._prefixes.get(replica, "")

    def _shown(self, text: str) -> str:
        return text if self.is_raw else sanitize(last_state(text))

    def write_unfinished(self, replica: str, text: str) -> None:
        """How far the last line of a replica has come: on a terminal, until something else is written."""
        width = self.terminal.width
        if width is None:
            return
        # One line of the terminal at most: it is written over.
        shown = _beginning(sanitize(text).replace("\t", " "), max(10, width - self._width - 4))
        self.terminal.emit(f"\r{self._prefix(replica)}{shown}\x1b[K")
        self._is_open = True

    def clear(self) -> None:
        """Takes away what is not finished."""
        if self._is_open:
            self.terminal.emit("\r\x1b[K")
            self._is_open = False

    def write(self, replica: str, lines: Sequence[tuple[str, str]]) -> None:
        """Lines of a replica as (time, text), in one piece."""
        self.clear()
        prefix = self._prefix(replica)
        out = []
        for time, text in lines:
            stamp = f"{sanitize(time)} " if self.has_times and time else ""
            out.append(f"{prefix}{stamp}{self._shown(text)}\n")
        self.terminal.emit("".join(out))

    def write_text(self, lines: Sequence[str]) -> None:
        """Lines of the log as text, in which they have their prefixes already."""
        out = []
        for line in lines:
            match = _PREFIX.match(line) if self.has_prefixes else None
            prefix, text = (self._prefix(match[1]), line[match.end() :]) if match else ("", line)
            stamp = _STAMP.match(text) if self.has_times else None
            begun = stamp[0] if stamp else ""  # a program's return does not go back over it
            out.append(f"{prefix}{begun}{self._shown(text[len(begun) :])}\n")
        self.terminal.emit("".join(out))


def last_state(text: str) -> str:
    """What a terminal shows of a line with carriage returns, as those of a progress bar: what was written last."""
    return text.rstrip("\r").rpartition("\r")[2]


def attempt_type(text: str) -> str:
    """The number of an attempt, `latest` or `all`."""
    return text if text in {"latest", "all"} else str(click.IntRange(1, 999_999)(text))


@click.command(cls=Command)
@job_argument
@click.option("-f", "--follow", "follows", is_flag=True, help="until the training has ended")
@click.option(
    "-r",
    "-i",
    "--replica",
    "--instance",
    metavar="NAME",
    help="only this one, such as worker-0; 0 is worker-0",
)
@number_option("-t", "--tail", low=0, high=10_000, text="only the last lines of each")
@click.option(
    "--since", type=duration_s, metavar="TIME", help="only what is newer than 90s, 5m, 2h"
)
@click.option("--since-time", metavar="TIME", help="only what is newer than 2026-11-24T09:00:00Z")
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
@click.option(
    "--timestamps", "has_times", is_flag=True, help="with times, while the pods are there"
)
@click.option("-c", "--container", hidden=True, help="as others name it; there is one log each")
@click.option("--raw", "is_raw", is_flag=True, help="pass on colours that the program wrote")
@click.option(
    "--resume", is_flag=True, help="continue where Ctrl-C or a lost connection ended logs -f"
)
@click.pass_obj
def logs(  # noqa: PLR0913
    session: CliSession,
    *,
    job: str,
    follows: bool,
    replica: str | None,
    tail: int | None,
    since: int | None,
    since_time: str | None,
    attempt: str | None,
    is_previous: bool,
    has_times: bool,
    container: str | None,
    is_raw: bool,
    resume: bool,
) -> int:
    """Print the log of all replicas or of one, also when the training is long over.

    -f stays until it has ended, and goes on after a lost connection without gap or repeat. Times are known
    while the pods are there: later --since shows all of what had not ended by then.
    """
    if attempt is not None and is_previous:
        raise usage_error("--attempt and --previous name different attempts.", "Give one of them.")
    if container is not None:
        session.terminal.tell("Each replica has one log, that of your program: -c is not needed.")
    begin = _begin(since, since_time)
    training = find_job(session.rest, job, session.terminal)
    names = replica_names(training)
    replica = _replica(training, replica, names) if replica else None
    had = int(training.get("attempt") or 1)
    shown = _attempt(had, attempt, is_previous=is_previous)
    is_earlier = shown.isdigit() and int(shown) < had  # its pods are gone: nothing to follow
    is_live = resume or (follows and not is_earlier and training.get("state") not in FINAL)
    writer = LineWriter(
        session.terminal,
        names,
        has_prefixes=len(names) != 1 and not replica,  # of one replica its name says nothing
        is_raw=is_raw,
        has_times=has_times,
    )
    if is_live:
        from .follow import Follower

        follower = Follower(session, str(training["id"]), writer, replica or "", shown, tail, begin)
        follower.follow(resume=resume)
    elif tail != 0:
        asked = {
            "replica": replica or (names[0] if len(names) == 1 else None),
            "attempt": shown or None,
            "since": since if since is not None or begin is None else begin.isoformat(),
            **({"timestamps": 1} if has_times else {}),
            **({"download": 1} if tail is None else {"tail": tail}),
        }
        answer = session.rest.open("GET", f"jobs/{training['id']}/logs/", query=asked)
        is_empty = True
        for lines in _lines_of(session, answer):
            writer.write_text(lines)
            is_empty = False
        if is_empty:
            why = _why_empty(training, shown if is_earlier else "")
            session.terminal.tell("Nothing was written since then." if begin else why, "dim")
    return OK


def _begin(since_s: int | None, since_time: str | None) -> datetime | None:
    """The time from which on lines are wanted; None: all.

    Raises:
        ClientError: both are given, or no time.
    """
    if since_s is not None and since_time is not None:
        raise usage_error("--since and --since-time name different times.", "Give one of them.")
    begin = parse_time(since_time)
    if since_s is not None:
        with suppress(OverflowError):  # it is before all years
            begin = datetime.now(timezone.utc) - timedelta(seconds=since_s)
    if begin is None and (since_s, since_time) != (None, None):
        said = since_time if since_s is None else f"{since_s} s ago"
        raise usage_error(f"{said!r} is no time.", "Write 2026-11-24T09:00:00Z.")
    return begin


def _replica(training: Json, word: str, names: Sequence[str]) -> str:
    """The replica that a word means: `worker-0`, the index of a worker, or its pod as others name it.

    Raises:
        ClientError: there is none.
    """
    pods = {
        str(row.get("pod")): f"{row.get('role')}-{row.get('index')}"
        for row in parts(training, "replicas")
    }
    ends = [name for name in names if word.endswith(f"-{name}")]
    for found in (word, pods.get(word, ""), f"worker-{word}", *ends):
        if found in names:
            return found
    known = ", ".join(names[:20])
    raise usage_error(f"This training has no replica {word!r}.", f"It has {known}.")


def _attempt(had: int, asked: str | None, *, is_previous: bool) -> str:
    """Which attempt's log to ask for; empty: what the portal shows by itself.

    Raises:
        ClientError: the training has not had it.
    """
    attempt = str(had - 1) if is_previous else asked or ""
    if attempt.isdigit() and not 1 <= int(attempt) <= had:
        times = "1 attempt" if had == 1 else f"{had} attempts"
        what = "There is no earlier attempt" if is_previous else f"There is no attempt {attempt}"
        raise ClientError(
            f"{what}: this training has had {times}.", "Leave the option out.", NOT_FOUND
        )
    return "" if attempt == "latest" else attempt


def _why_empty(job: Json, earlier_attempt: str) -> str:
    if earlier_attempt:
        return f"Nothing of attempt {earlier_attempt} is kept."
    state, (why, step) = one_line(job.get("state", "")), reason_of(job)
    return f"Nothing has been written yet; the training's state is {state}. {why} {step}".rstrip()


def _lines_of(session: CliSession, answer: urllib3.BaseHTTPResponse) -> Iterator[list[str]]:
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
        error.text = f"The log was interrupted: {error.text}"
        error.next_step = "Ask for it again."
        raise
    if rest:
        yield [rest.decode("utf-8", "replace")]
