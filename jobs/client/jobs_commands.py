"""Commands about trainings: list, get, logs, stop, delete."""

from __future__ import annotations

import collections
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import urllib3

from .exits import OK, UnreachableError, UsageError
from .find import FINAL, find_job, short_id
from .following import follow_job, replica_names
from .harmless import one_line
from .lines import LineWriter
from .output import state_colour
from .rest import unreachable
from .session import Session
from .table import Column, age_text, lasted_text, pad, render

Row = dict[str, Any]  # of REST's JSON
MAX_LINE_BYTES = 16 * 1024**2
SHOWN_EVENTS = 10

COLUMNS = (
    Column("ID"),
    Column("NAME", shrinks_to=12),
    Column("STATE", colour=state_colour),
    Column("REPLICAS", leaves_at=70),
    Column("GPU", leaves_at=60, is_right=True),
    Column("AGE", is_right=True),
    Column("LASTED", leaves_at=60, is_right=True),
    Column("OWNER", shrinks_to=6),
    Column("WHY", shrinks_to=12, leaves_at=90),
    Column("IMAGE", is_wide=True),
    Column("NODES", is_wide=True),
    Column("NAMESPACE", is_wide=True),
)


def _resources(job: Row) -> dict[str, Any]:
    found = job.get("resources")
    return {role: asked for role, asked in (found or {}).items() if isinstance(asked, dict)}


def replicas_text(job: Row) -> str:
    """`1`, or `2 worker + 1 ps`."""
    asked = _resources(job)
    if set(asked) == {"worker"}:
        return str(asked["worker"].get("count", ""))
    order = sorted(asked, key=lambda role: (role == "ps", role))
    return " + ".join(f"{asked[role].get('count', '')} {role}" for role in order)


def gpu_count(job: Row) -> int:
    """GPUs of all replicas together."""
    return sum(
        int(asked.get("count") or 0) * int(asked.get("gpu") or 0)
        for asked in _resources(job).values()
    )


def reason_of(job: Row) -> tuple[str, str]:
    """Why it waits or how it ended, and what to do about it."""
    reason = job.get("reason")
    if not isinstance(reason, dict):
        return "", ""
    return one_line(reason.get("text", "")), one_line(reason.get("next_step", ""))


def _nodes(job: Row) -> str:
    rows = job.get("replicas")
    names = {row.get("node") for row in (rows if isinstance(rows, list) else [])}
    return ", ".join(sorted(str(name) for name in names if name))


def list_jobs(session: Session) -> int:
    """The command `list`."""
    options = session.options
    query: dict[str, object] = {"state": options.state, "name": options.name}
    if options.all_people:
        query["owner"] = options.owner
    else:
        query["owner"] = options.owner or session.user_name
    if options.all:
        rows = list(session.rest.every("jobs/", query))
        count = len(rows)
    else:
        query.update(page=options.page, page_size=options.limit)
        rows, count = session.rest.page("jobs/", query)
    now = datetime.now(timezone.utc)
    # Whose it is says nothing new where all are one's own.
    has_owner = options.all_people or bool(options.owner)
    columns = [c for c in COLUMNS if has_owner or c.title != "OWNER"]

    def cells(job: Row) -> list[object]:
        row = {
            "ID": short_id(job),
            "NAME": job.get("name", ""),
            "STATE": job.get("state", ""),
            "REPLICAS": replicas_text(job),
            "GPU": gpu_count(job) or "",
            "AGE": age_text(job.get("queued_at"), now),
            "LASTED": lasted_text(job.get("started_at"), job.get("finished_at"), now),
            "OWNER": job.get("owner", ""),
            "WHY": reason_of(job)[0] if job.get("state") != "succeeded" else "",
            "IMAGE": job.get("image", ""),
            "NODES": _nodes(job),
            "NAMESPACE": job.get("namespace", ""),
        }
        return [row[column.title] for column in columns]

    is_filtered = options.state or options.name or options.owner
    session.output.rows(
        rows,
        columns,
        cells,
        name=lambda job: one_line(job.get("id", "")),
        empty="No training is like that."
        if is_filtered
        else "No trainings yet. Submit one: homeport submit . --image IMAGE -- python train.py",
    )
    if count > len(rows) and not session.output.is_data:
        page = "" if options.page * options.limit >= count else f" --page {options.page + 1}"
        session.terminal.tell(
            f"{len(rows)} of {count}."
            + (f" The next: homeport list{page}; all: --all" if page else ""),
            "dim",
        )
    return OK


# --- one ------------------------------------------------------------------------------------------

REPLICA_COLUMNS = (
    Column("REPLICA"),
    Column("STATE", colour=state_colour),
    Column("CODE", is_right=True),
    Column("RESTARTS", leaves_at=70, is_right=True),
    Column("LASTED", leaves_at=60, is_right=True),
    Column("NODE", shrinks_to=8, leaves_at=80),
    Column("GPUS", leaves_at=90),
    Column("REASON", shrinks_to=12),
    Column("POD", is_wide=True),
)
EVENT_COLUMNS = (
    Column("AGE", is_right=True),
    Column("FROM", leaves_at=100),
    Column("ABOUT", shrinks_to=8, leaves_at=80),
    Column("WHAT", shrinks_to=12),
    Column("MESSAGE", shrinks_to=20),
)


def get_job(session: Session) -> int:
    """The command `get`."""
    rest = session.rest
    job = find_job(rest, session.options.job, session.terminal)
    if session.output.is_data:
        if session.options.events:
            job = {**job, "events": list(rest.every(f"jobs/{job['id']}/events/"))}
        session.output.data(job)
        return OK
    if session.output.form == "name":
        session.terminal.write(one_line(job["id"]))
        return OK
    _show_facts(session, job)
    _show_replicas(session, job)
    _show_events(session, job)
    return OK


def _show_facts(session: Session, job: Row) -> None:
    terminal, now = session.terminal, datetime.now(timezone.utc)
    state = one_line(job.get("state", ""))
    reason, next_step = reason_of(job)
    command = job.get("command")
    words = [str(word) for word in command] if isinstance(command, list) else []
    asked = [
        f"{amount.get('count')} {role} x {amount.get('cpu')} CPU, {amount.get('memory')}"
        + (f", {amount.get('gpu')} GPU" if amount.get("gpu") else "")
        for role, amount in _resources(job).items()
    ]
    facts = [
        ("Name", one_line(job.get("name", ""))),
        ("State", terminal.paint(state, state_colour(state))),
        ("Why", reason),
        ("Next step", next_step),
        ("Id", one_line(job.get("id", ""))),
        ("Owner", f"{one_line(job.get('owner', ''))} in {one_line(job.get('namespace', ''))}"),
        ("Image", one_line(job.get("image", ""))),
        ("Command", one_line(_shell_words(words))),
        ("Asks for", one_line("; ".join(asked))),
        ("Queued", f"{age_text(job.get('queued_at'), now)} ago"),
        ("Lasted", lasted_text(job.get("started_at"), job.get("finished_at"), now)),
        ("Attempt", one_line(job.get("attempt", "")) if job.get("attempt") != 1 else ""),
        ("Page", f"{session.rest.url}/trainings/{one_line(job.get('id', ''))}/"),
    ]
    for title, value in facts:
        if value:
            for number, line in enumerate(_wrapped(value, terminal.width)):
                head = terminal.paint(pad(f"{title}:", 11), "bold") if not number else " " * 11
                terminal.write(f"{head} {line}")


def _shell_words(words: list[str]) -> str:
    import shlex

    return " ".join(shlex.quote(word) for word in words)


def _wrapped(text: str, width: int | None) -> list[str]:
    if width is None or "\x1b" in text:
        return [text]
    import textwrap

    return textwrap.wrap(text, max(20, width - 12), break_on_hyphens=False) or [""]


def _show_replicas(session: Session, job: Row) -> None:
    rows = [row for row in job.get("replicas") or [] if isinstance(row, dict)]
    if not rows:
        return
    now = datetime.now(timezone.utc)
    is_many = any(row.get("attempt") != 1 for row in rows)
    cells = [
        [
            f"{row.get('role')}-{row.get('index')}"
            + (f" #{row.get('attempt')}" if is_many else ""),
            row.get("state", ""),
            "" if row.get("exit_code") is None else row.get("exit_code"),
            row.get("restarts") or "",
            lasted_text(row.get("started_at"), row.get("finished_at"), now),
            row.get("node", ""),
            row.get("gpus", ""),
            row.get("reason", ""),
            row.get("pod", ""),
        ]
        for row in rows
    ]
    _show_table(session, REPLICA_COLUMNS, cells)


def _show_table(session: Session, columns: tuple[Column, ...], cells: list[list[object]]) -> None:
    session.terminal.write("")
    for line in render(
        columns,
        cells,
        width=session.terminal.width,
        is_wide=session.output.form == "wide",
        paint=session.terminal.paint,
    ):
        session.terminal.write(line)


def _show_events(session: Session, job: Row) -> None:
    rows = list(session.rest.every(f"jobs/{job['id']}/events/"))
    shown = rows if session.options.events else rows[-SHOWN_EVENTS:]
    if not shown:
        return
    now = datetime.now(timezone.utc)
    cells = [
        [
            age_text(row.get("at"), now),
            row.get("source", ""),
            row.get("subject", ""),
            ("! " if row.get("is_warning") else "") + str(row.get("reason", "")),
            str(row.get("message", ""))
            + (f" (x{row.get('count')})" if row.get("count") not in (None, 1) else ""),
        ]
        for row in shown
    ]
    _show_table(session, EVENT_COLUMNS, cells)
    if len(shown) < len(rows):
        session.terminal.tell(f"The last {len(shown)} of {len(rows)} events; all: --events", "dim")


# --- logs -----------------------------------------------------------------------------------------


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
    """The log so far: from living pods, else from the archive."""
    options = session.options
    writer = LineWriter(
        session.terminal,
        names,
        has_prefixes=len(names) != 1 and not options.replica,
        is_raw=options.raw,
    )
    # Of one replica the name in front of each line says nothing.
    replica = options.replica or (names[0] if len(names) == 1 else None)
    if options.tail == 0:
        return
    query: dict[str, object] = {"replica": replica}
    query.update({"download": 1} if options.tail is None else {"tail": options.tail})
    answer = session.rest.open("GET", f"jobs/{job['id']}/logs/", query=query)
    count = 0
    for line in _lines_of(answer, session.rest.url):
        writer.write_text(line)
        count += 1
    session.terminal.out.flush()
    if not count:
        state = one_line(job.get("state", ""))
        session.terminal.tell(f"Nothing has been written yet; the training is {state}.", "dim")
        why, step = reason_of(job)
        if why:
            session.terminal.tell(f"{why} {step}".strip(), "dim")


def _lines_of(answer: urllib3.BaseHTTPResponse, url: str) -> Iterator[str]:
    """The lines of an answer as it comes; one without end is cut."""
    rest = b""
    try:
        for chunk in answer.stream(256 * 1024):
            *whole, rest = (rest + chunk).split(b"\n")
            for line in whole:
                yield line.decode("utf-8", "replace")
            if len(rest) > MAX_LINE_BYTES:
                yield rest.decode("utf-8", "replace")
                rest = b""
    except urllib3.exceptions.HTTPError as error:
        lost = unreachable(url, error, is_safe=True)
        if isinstance(lost, UnreachableError):
            lost.text = f"The log broke off: {lost.text}"
            lost.next_step = "Ask for it again."
        raise lost from error
    finally:
        answer.release_conn()
    if rest:
        yield rest.decode("utf-8", "replace")


# --- stop, delete ---------------------------------------------------------------------------------


def stop_jobs(session: Session) -> int:
    """The command `stop`."""
    found = [
        find_job(session.rest, word, session.terminal, one_of="running")
        for word in session.options.jobs
    ]
    stopped = []
    for job in found:
        name = f"{one_line(job.get('name', ''))} ({short_id(job)})"
        if job.get("state") in FINAL:
            session.terminal.tell(
                f"{name} has {job['state']} already.".replace("has stopped", "is stopped")
            )
            stopped.append(job)
            continue
        stopped.append(
            session.rest.post(f"jobs/{job['id']}/stop/", {"reason": session.options.reason})
        )
        if not session.output.is_data:
            session.terminal.tell(f"Stopping {name}; it gets its grace to save what it has.")
    if session.output.is_data:
        session.output.data(stopped[0] if len(stopped) == 1 else stopped)
    return OK


def delete_jobs(session: Session) -> int:
    """The command `delete`."""
    found = [
        find_job(session.rest, word, session.terminal, one_of="only")
        for word in session.options.jobs
    ]
    # Twice the same is asked and deleted once.
    by_id = collections.OrderedDict((str(job["id"]), job) for job in found)
    for identity, job in by_id.items():
        name = (
            f"{one_line(job.get('name', ''))} ({short_id(job)}, {one_line(job.get('state', ''))})"
        )
        question = f"Delete {name} with its logs and artifacts?"
        if not session.options.yes and not session.terminal.confirm(question):
            session.terminal.tell("Not deleted.")
            continue
        session.rest.delete(f"jobs/{identity}/")
        session.terminal.tell(f"Deleted {name}.")
    return OK
