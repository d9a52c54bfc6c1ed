"""`homeport list`: trainings as a table, page by page."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from .exits import OK
from .find import short_id
from .output import state_colour
from .sanitize import one_line
from .session import Session
from .table import Column, age_text, lasted_text

Row = dict[str, Any]  # of REST's JSON

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


def list_jobs(session: Session) -> int:
    """The command `list`."""
    options = session.options
    owner = options.owner or (None if options.all_people else session.user_name)
    query: dict[str, object] = {"state": options.state, "name": options.name, "owner": owner}
    if options.all:
        rows = list(session.rest.every("jobs/", query))
        count = len(rows)
    else:
        query.update(page=options.page, page_size=options.limit)
        rows, count = session.rest.page("jobs/", query)
    # Whose it is says nothing new where all are one's own.
    has_owner = options.all_people or bool(options.owner)
    columns = [column for column in COLUMNS if has_owner or column.title != "OWNER"]
    now = datetime.now(timezone.utc)

    def cells(job: Row) -> list[object]:
        row = _cells(job, now)
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
    if rows and options.page * options.limit < count and not options.all:
        session.terminal.tell(
            f"{len(rows)} of {count}; go on: --page {options.page + 1}, or all: --all", "dim"
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
