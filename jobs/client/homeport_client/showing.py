"""`homeport get`: one training with its reason, its replicas and what happened to it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime, timezone

from .exits import OK
from .find import find_job
from .listing import Row, reason_of, replicas_of, resources_of
from .output import state_colour
from .sanitize import one_line
from .session import Session
from .table import Column, age_text, lasted_text

SHOWN_EVENTS = 10
TITLE_WIDTH = 12

REPLICA_COLUMNS = (
    Column("REPLICA"),
    Column("STATE", colour=state_colour),
    Column("CODE", is_right=True),
    Column("RESTARTS", leaves_at=90, is_right=True),
    Column("LASTED", leaves_at=60, is_right=True),
    Column("NODE", shrinks_to=8, leaves_at=70),
    Column("GPUS", leaves_at=90),
    Column("POD", is_wide=True),
    Column("REASON", shrinks_to=12, wraps=True),
)
EVENT_COLUMNS = (
    Column("AGE", is_right=True),
    Column("FROM", leaves_at=130),
    Column("ABOUT", shrinks_to=8, leaves_at=110),
    Column("WHAT", shrinks_to=10),
    Column("MESSAGE", shrinks_to=20, wraps=True),
)


def get_job(session: Session) -> int:
    """The command `get`."""
    rest, terminal = session.rest, session.terminal
    job = find_job(rest, session.options.job, terminal)
    if session.output.form == "name":
        terminal.write(one_line(job["id"]))
    elif session.output.is_data:
        if session.options.events:
            job = {**job, "events": list(rest.every(f"jobs/{job['id']}/events/"))}
        session.output.data(job)
    else:
        _show_facts(session, job)
        _show_replicas(session, job)
        _show_events(session, job)
    return OK


def _show_facts(session: Session, job: Row) -> None:
    terminal, now = session.terminal, datetime.now(timezone.utc)
    reason, next_step = reason_of(job)
    command = job.get("command")
    words = [str(word) for word in command] if isinstance(command, list) else []
    asked = [
        f"{amounts.get('count')} {role} x {amounts.get('cpu')} CPU, {amounts.get('memory')}"
        + (f", {amounts.get('gpu')} GPU" if amounts.get("gpu") else "")
        for role, amounts in resources_of(job).items()
    ]
    facts = [
        ("Name", job.get("name", "")),
        ("State", job.get("state", "")),
        ("Why", reason),
        ("Next step", next_step),
        ("Id", job.get("id", "")),
        ("Owner", f"{job.get('owner', '')} in {job.get('namespace', '')}"),
        ("Image", job.get("image", "")),
        ("Command", " ".join(shlex.quote(word) for word in words)),
        ("Asks for", "; ".join(asked)),
        ("Queued", f"{age_text(job.get('queued_at'), now)} ago"),
        ("Lasted", lasted_text(job.get("started_at"), job.get("finished_at"), now)),
        ("Attempt", job.get("attempt", "") if job.get("attempt") != 1 else ""),
        ("Page", f"{session.rest.url}/trainings/{job.get('id', '')}/"),
    ]
    for title, value in facts:
        colour = state_colour(str(value)) if title == "State" else ""
        terminal.write_fact(title, value, TITLE_WIDTH, colour)


def _show_replicas(session: Session, job: Row) -> None:
    rows, now = replicas_of(job), datetime.now(timezone.utc)
    has_attempts = any(row.get("attempt") != 1 for row in rows)
    cells = [
        [
            f"{row.get('role')}-{row.get('index')}"
            + (f" #{row.get('attempt')}" if has_attempts else ""),
            row.get("state", ""),
            "" if row.get("exit_code") is None else row.get("exit_code"),
            row.get("restarts") or "",
            lasted_text(row.get("started_at"), row.get("finished_at"), now),
            row.get("node", ""),
            row.get("gpus", ""),
            row.get("pod", ""),
            row.get("reason", ""),
        ]
        for row in rows
    ]
    _show_table(session, REPLICA_COLUMNS, cells)


def _show_table(
    session: Session, columns: Sequence[Column], cells: Sequence[Sequence[object]]
) -> None:
    if cells:
        session.terminal.write()
        session.output.table(columns, cells)


def _show_events(session: Session, job: Row) -> None:
    rows = list(session.rest.every(f"jobs/{job['id']}/events/"))
    shown = rows if session.options.events else rows[-SHOWN_EVENTS:]
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
