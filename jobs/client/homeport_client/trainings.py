"""Commands about trainings: list, get, stop, delete."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime, timezone
from typing import Any

import click

from .exits import OK
from .find import FINAL, find_job, short_id
from .options import STATES, Command, job_argument, jobs_argument, on_tab, output_option, yes_option
from .output import state_colour
from .sanitize import one_line
from .session import Session
from .table import Column, age_text, lasted_text

Row = dict[str, Any]  # of REST's JSON
MAX_REPLICAS = 10_000


def resources_of(job: Row) -> dict[str, Row]:
    """Role -> what each of its replicas asks for, parameter servers last."""
    found = job.get("resources")
    rows = found.items() if isinstance(found, dict) else ()
    asked = {str(role): amounts for role, amounts in rows if isinstance(amounts, dict)}
    return {role: asked[role] for role in sorted(asked, key=lambda name: (name == "ps", name))}


def replicas_of(job: Row) -> list[Row]:
    """The replicas as REST tells of them."""
    rows = job.get("replicas")
    return [row for row in (rows if isinstance(rows, list) else []) if isinstance(row, dict)]


def replicas_text(job: Row) -> str:
    """`1`, or `2 worker + 1 ps`."""
    asked = resources_of(job)
    if set(asked) == {"worker"}:
        return str(asked["worker"].get("count", ""))
    return " + ".join(f"{amounts.get('count', '')} {role}" for role, amounts in asked.items())


def replica_names(job: Row) -> list[str]:
    """`worker-0` and so on, parameter servers last."""
    return [
        f"{role}-{index}"
        for role, amounts in resources_of(job).items()
        for index in range(min(int(amounts.get("count") or 1), MAX_REPLICAS))
    ]


def gpu_count(job: Row) -> int:
    """GPUs of all replicas together."""
    return sum(
        int(amounts.get("count") or 0) * int(amounts.get("gpu") or 0)
        for amounts in resources_of(job).values()
    )


def reason_of(row: Row) -> tuple[str, str]:
    """Why something waits or how it ended, and what to do about it."""
    reason = row.get("reason")
    if not isinstance(reason, dict):
        return "", ""
    return one_line(reason.get("text", "")), one_line(reason.get("next_step", ""))


# --- list -----------------------------------------------------------------------------------------

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


@click.command(cls=Command)
@click.option("-A", "--all-people", is_flag=True, help="of all that you may see")
@click.option("--owner", metavar="USER", help="of one person")
@click.option(
    "--state",
    shell_complete=on_tab(lambda: STATES),
    help="queued, starting, running, succeeded, failed, stopped, ...",
)
@click.option("--name", help="part of the name")
@click.option(
    "-n", "--limit", type=click.IntRange(1, 200), default=20, metavar="N", help="so many (20)"
)
@click.option(
    "--page",
    type=click.IntRange(1, 10**9),
    default=1,
    metavar="N",
    help="which part of the list (1)",
)
@click.option("--all", "is_whole", is_flag=True, help="the whole list")
@output_option
@click.pass_obj
def list_jobs(  # noqa: PLR0913
    session: Session,
    *,
    all_people: bool,
    owner: str | None,
    state: str | None,
    name: str | None,
    limit: int,
    page: int,
    is_whole: bool,
) -> int:
    """List trainings, newest first."""
    asked = owner or (None if all_people else session.user_name)
    query: dict[str, object] = {"state": state, "name": name, "owner": asked}
    if is_whole:
        rows = list(session.rest.every("jobs/", query))
        count = len(rows)
    else:
        query.update(page=page, page_size=limit)
        rows, count = session.rest.page("jobs/", query)
    # Whose it is says nothing new where all are one's own.
    has_owner = all_people or bool(owner)
    columns = [column for column in COLUMNS if has_owner or column.title != "OWNER"]
    now = datetime.now(timezone.utc)

    def cells(job: Row) -> list[object]:
        row = _cells(job, now)
        return [row[column.title] for column in columns]

    is_filtered = state or name or owner
    session.output.rows(
        rows,
        columns,
        cells,
        name=lambda job: one_line(job.get("id", "")),
        empty="No training is like that."
        if is_filtered
        else "No trainings yet. Submit one: homeport submit . --image IMAGE -- python train.py",
    )
    if rows and page * limit < count and not is_whole:
        session.terminal.tell(
            f"{len(rows)} of {count}; go on: --page {page + 1}, or all: --all", "dim"
        )
    return OK


def _cells(job: Row, now: datetime) -> dict[str, object]:
    nodes = {str(row["node"]) for row in replicas_of(job) if row.get("node")}
    return {
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
        "NODES": ", ".join(sorted(nodes)),
        "NAMESPACE": job.get("namespace", ""),
    }


# --- get ------------------------------------------------------------------------------------------

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


@click.command(cls=Command)
@job_argument
@click.option("-e", "--events", "all_events", is_flag=True, help="all events")
@output_option
@click.pass_obj
def get_job(session: Session, job: str, *, all_events: bool) -> int:
    """Show one training: state, reason, replicas, events."""
    rest, terminal = session.rest, session.terminal
    found = find_job(rest, job, terminal)
    if session.output.form == "name":
        terminal.write(one_line(found["id"]))
    elif session.output.is_data:
        if all_events:
            found = {**found, "events": list(rest.every(f"jobs/{found['id']}/events/"))}
        session.output.data(found)
    else:
        _show_facts(session, found)
        _show_replicas(session, found)
        _show_events(session, found, all_events=all_events)
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


def _show_events(session: Session, job: Row, *, all_events: bool) -> None:
    rows = list(session.rest.every(f"jobs/{job['id']}/events/"))
    shown = rows if all_events else rows[-SHOWN_EVENTS:]
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


# --- stop and delete ------------------------------------------------------------------------------


def _shown(job: Row) -> str:
    return f"{one_line(job.get('name', ''))} ({short_id(job)})"


def _found(session: Session, words: Sequence[str], one_of: str) -> list[Row]:
    """The trainings that were named, each once, all found before anything is done to one."""
    rows = [find_job(session.rest, word, session.terminal, one_of=one_of) for word in words]
    return list({str(row["id"]): row for row in rows}.values())


@click.command(cls=Command)
@jobs_argument(required=True)
@click.option("--reason", default="", help="why; its owner sees it")
@output_option
@click.pass_obj
def stop_jobs(session: Session, jobs: Sequence[str], reason: str) -> int:
    """Stop trainings, with time to save."""
    answers = []
    for job in _found(session, jobs, "running"):
        if job.get("state") in FINAL:
            answers.append(job)
            session.terminal.tell(f"{_shown(job)} has ended already: {one_line(job['state'])}.")
            continue
        answers.append(session.rest.post(f"jobs/{job['id']}/stop/", {"reason": reason}))
        session.terminal.tell(f"Stopping {_shown(job)}; it has time to save what it has.")
    if session.output.is_data:
        session.output.data(answers[0] if len(answers) == 1 else answers)
    elif session.output.form == "name":
        for job in answers:
            session.terminal.write(one_line(job.get("id", "")))
    return OK


@click.command(cls=Command)
@jobs_argument(required=True)
@yes_option
@click.pass_obj
def delete_jobs(session: Session, jobs: Sequence[str], *, yes: bool) -> int:
    """Delete trainings with logs and artifacts."""
    for job in _found(session, jobs, "only"):
        state = one_line(job.get("state", ""))
        question = f"Delete {_shown(job)}, which is {state}, with its logs and artifacts?"
        if not yes and not session.terminal.confirm(question):
            session.terminal.tell("Not deleted.")
            continue
        session.rest.delete(f"jobs/{job['id']}/")
        session.terminal.tell(f"Deleted {_shown(job)}.")
    return OK
