"""Commands about the cluster: top node, queue."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import click

from .exits import OK
from .find import short_id
from .options import Command, Group, output_option
from .output import Output
from .sanitize import one_line
from .session import Session
from .table import Column, age_text, size_text, wrap

Row = dict[str, Any]  # of REST's JSON
_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9}


def _node_colour(text: str) -> str:
    return "green" if text == "ready" else "yellow" if text.startswith("ready") else "red"


NODE_COLUMNS = (
    Column("NODE", shrinks_to=10),
    Column("STATE", shrinks_to=8, colour=_node_colour),
    Column("GPU", is_right=True),
    Column("UNHEALTHY", leaves_at=90, is_right=True),
    Column("CPU", leaves_at=60, is_right=True),
    Column("MEMORY", leaves_at=70, is_right=True),
    Column("PODS", leaves_at=100, is_right=True),
)
HOLDER_COLUMNS = (
    Column("GPU", is_right=True),
    Column("NODE", shrinks_to=10),
    Column("WHAT", shrinks_to=12),
    Column("OWNER", shrinks_to=6),
    Column("SINCE", is_right=True),
    Column("NAMESPACE", leaves_at=100),
    Column("POD", leaves_at=120),
)


def share_text(used: float, total: float) -> str:
    """`1/4 (25%)`."""
    return f"{used:g}/{total:g} ({used / total:.0%})" if total else f"{used:g}/0"


def cores_of(value: object) -> float:
    """CPUs of `4` or `1500m`; 0 for what is neither."""
    text = str(value)
    try:
        return float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    except ValueError:
        return 0.0


def bytes_of(value: object) -> float:
    """Bytes of `1024`, `16Gi`; 0 for what is neither."""
    text = str(value)
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        return float(text[: len(text) - len(unit)]) * _UNITS.get(unit, 1)
    except ValueError:
        return 0.0


def _part(row: Row, name: str) -> dict[str, Any]:
    found = row.get(name)
    return found if isinstance(found, dict) else {}


def _state(node: Row) -> str:
    if not node.get("is_ready"):
        return "not ready"
    said = [] if node.get("is_schedulable", True) else ["cordoned"]
    said += ["simulated GPUs"] if node.get("is_simulated") else []
    return "ready" + (f", {', '.join(said)}" if said else "")


def _node_cells(node: Row) -> list[object]:
    room, asked, gpu = _part(node, "allocatable"), _part(node, "requested"), _part(node, "gpu")
    total = int(gpu.get("total") or 0)
    memory, used = bytes_of(room.get("memory", 0)), bytes_of(asked.get("memory", 0))
    return [
        node.get("name", ""),
        _state(node),
        share_text(int(gpu.get("allocated") or 0), total) if total else "",
        gpu.get("unhealthy") or "",
        share_text(round(cores_of(asked.get("cpu", 0)), 2), cores_of(room.get("cpu", 0))),
        f"{size_text(used)}/{size_text(memory)}",
        f"{asked.get('pods', 0)}/{room.get('pods', 0)}",
    ]


top = Group("top", help="What nodes have and who uses it.")


@top.command("node")
@output_option
@click.pass_obj
def top_node(session: Session) -> int:
    """Show GPUs, CPU and memory of each node, and who holds GPUs."""
    rows = list(session.rest.every("nodes/"))
    session.output.rows(
        rows,
        NODE_COLUMNS,
        _node_cells,
        name=lambda row: one_line(row.get("name", "")),
        empty="No node has been seen yet; is the cluster up?",
    )
    if session.output.form in {"json", "yaml", "name"} or not rows:
        return OK
    _show_total(session.output, rows)
    _show_problems(session.output, rows)
    _show_holders(session, rows)
    return OK


def _show_total(output: Output, rows: list[Row]) -> None:
    total = sum(int(_part(row, "gpu").get("total") or 0) for row in rows)
    held = sum(int(_part(row, "gpu").get("allocated") or 0) for row in rows)
    if total:
        output.terminal.write()
        output.terminal.write(f"GPUs of all nodes: {share_text(held, total)} allocated")


def _show_problems(output: Output, rows: list[Row]) -> None:
    """Conditions that are not as they should be, in the cluster's own words."""
    for row in rows:
        for condition in row.get("conditions") or []:
            if not isinstance(condition, dict):
                continue
            is_good = (condition.get("type") == "Ready") == (condition.get("status") == "True")
            if not is_good:
                what = f"{condition.get('type')}: {condition.get('message') or condition.get('reason')}"
                for line in wrap(one_line(f"{row.get('name')}: {what}"), output.terminal.width):
                    output.terminal.write(line)


def _show_holders(session: Session, rows: list[Row]) -> None:
    now = datetime.now(timezone.utc)
    held = [
        (node, holder)
        for node in rows
        for holder in node.get("holders") or []
        if isinstance(holder, dict) and holder.get("gpu")
    ]
    if not held:
        return
    cells = [
        [
            holder.get("gpu"),
            node.get("name", ""),
            holder.get("name") or holder.get("kind") or "somebody else's",
            holder.get("owner") or "",
            age_text(holder.get("since"), now),
            holder.get("namespace") or "",
            holder.get("pod") or "",
        ]
        for node, holder in held
    ]
    session.terminal.write()
    session.output.table(HOLDER_COLUMNS, cells)


# --- queue ----------------------------------------------------------------------------------------

QUEUE_COLUMNS = (
    Column("#", is_right=True),
    Column("ID"),
    Column("KIND", leaves_at=70),
    Column("NAME", shrinks_to=10),
    Column("OWNER", shrinks_to=6),
    Column("TEAM", leaves_at=110),
    Column("PODS", leaves_at=100, is_right=True),
    Column("GPU", is_right=True),
    Column("CPU", leaves_at=90, is_right=True),
    Column("MEMORY", leaves_at=90, is_right=True),
    Column("WAITS", is_right=True),
    Column("NEXT STEP", is_wide=True),
    Column("WHY", shrinks_to=16, wraps=True),
)


@click.command(cls=Command)
@output_option
@click.pass_obj
def queue(session: Session) -> int:
    """Show what waits, its place, and why."""
    rows = list(session.rest.every("queue/"))
    now = datetime.now(timezone.utc)

    def cells(row: Row) -> list[object]:
        reason = _part(row, "reason")
        return [
            row.get("position", ""),
            short_id(row),
            row.get("kind", ""),
            row.get("name", ""),
            row.get("owner", ""),
            row.get("team") or "",
            row.get("pods", ""),
            row.get("gpu") or "",
            row.get("cpu", ""),
            row.get("memory", ""),
            age_text(row.get("queued_at"), now),
            reason.get("next_step", ""),
            reason.get("text", ""),
        ]

    session.output.rows(
        rows,
        QUEUE_COLUMNS,
        cells,
        name=lambda row: one_line(row.get("id", "")),
        empty="Nothing waits.",
    )
    return OK
