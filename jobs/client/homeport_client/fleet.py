"""Commands about the cluster: top node, top job, queue."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Callable

import click

from .amounts import age_text, left_s, size_text, span_text
from .answers import Json, part, parts, reason_of, short_id
from .exits import NOT_FOUND, OK, ClientError
from .find import find_job
from .options import Command, Group, output_option, training_names
from .output import Column
from .sanitize import one_line
from .session import CliSession
from .terminal import wrap

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_UNITS = {"m": 1e-3, "k": 10**3, "M": 10**6, "G": 10**9, **_BINARY}


def share_text(used: float, total: float) -> str:
    """`1/4 (25%)`."""
    return f"{used:g}/{total:g} ({used / total:.0%})" if total else f"{used:g}/0"


def number_of(quantity: object) -> float:
    """Cores of `4` or `1500m`, bytes of `1024` or `16Gi`; 0 for what is no quantity."""
    text = str(quantity)
    unit = next((unit for unit in _UNITS if text.endswith(unit)), "")
    try:
        return float(text[: len(text) - len(unit)]) * _UNITS.get(unit, 1)
    except ValueError:
        return 0.0


# --- nodes ----------------------------------------------------------------------------------------


def _state(node: Json) -> str:
    if not node.get("is_ready"):
        return "not ready"
    said = [] if node.get("is_schedulable", True) else ["cordoned"]
    said += ["simulated GPUs"] if node.get("is_simulated") else []
    return "ready" + (f", {', '.join(said)}" if said else "")


def _state_colour(text: str) -> str:
    return "green" if text == "ready" else "yellow" if text.startswith("ready") else "red"


def _gpus(*nodes: Json) -> tuple[int, int]:
    """How many of some nodes are allocated, and how many there are."""
    rows = [part(node, "gpu") for node in nodes]
    return (
        sum(int(row.get("allocated") or 0) for row in rows),
        sum(int(row.get("total") or 0) for row in rows),
    )


def _gpu(node: Json) -> str:
    used, total = _gpus(node)
    return share_text(used, total) if total else ""


def _cpu(node: Json) -> str:
    asked, room = part(node, "requested"), part(node, "allocatable")
    return share_text(round(number_of(asked.get("cpu")), 2), number_of(room.get("cpu")))


def _memory(node: Json) -> str:
    amounts = part(node, "requested"), part(node, "allocatable")
    return "/".join(size_text(number_of(one.get("memory"))) for one in amounts)


def _pods(node: Json) -> str:
    return f"{part(node, 'requested').get('pods', 0)}/{part(node, 'allocatable').get('pods', 0)}"


NODE_COLUMNS = (
    Column("NODE", lambda node: node.get("name"), shrinks_to=10),
    Column("STATE", _state, shrinks_to=8, colour=_state_colour),
    Column("GPU", _gpu, is_right=True),
    Column(
        "UNHEALTHY",
        lambda node: part(node, "gpu").get("unhealthy") or "",
        leaves_at=90,
        is_right=True,
    ),
    Column("CPU", _cpu, leaves_at=60, is_right=True),
    Column("MEMORY", _memory, leaves_at=70, is_right=True),
    Column("PODS", _pods, leaves_at=100, is_right=True),
)
HOLDER_COLUMNS = (
    Column("GPU", is_right=True),
    Column("DUTY", is_right=True),
    Column("NODE", shrinks_to=10),
    Column(
        "WHAT",
        lambda row: row.get("name") or row.get("kind") or "other workload",
        shrinks_to=12,
    ),
    Column("OWNER", shrinks_to=6),
    Column("SINCE", lambda row: age_text(row.get("since")), is_right=True),
    Column("NAMESPACE", leaves_at=100),
    Column("POD", leaves_at=120),
)

top = Group("top", help="What nodes have, and what trainings request and use.")


def _percent(value: object) -> str:
    return "" if value is None else f"{value}%"


def _duty(rows: Iterable[Json]) -> str:
    """How busy the GPUs of some replicas are; empty: not measured."""
    busy = [part(row, "now").get("gpu_percent") for row in rows]
    known = [int(one) for one in busy if one is not None]
    return _percent(round(sum(known) / len(known)) if known else None)


@top.command("node")
@output_option
@click.pass_obj
def top_node(session: CliSession) -> int:
    """Show GPUs, CPU and memory of each node, and who holds GPUs."""
    nodes, output, terminal = list(session.rest.every("nodes/")), session.output, session.terminal
    output.rows(
        nodes,
        NODE_COLUMNS,
        "No node has been seen yet; is the cluster up?",
        name=lambda node: one_line(node.get("name", "")),
    )
    if output.form not in {"table", "wide"}:
        return OK
    held, total = _gpus(*nodes)
    if total:
        terminal.write(f"\nGPUs of all nodes: {share_text(held, total)} allocated")
    for node in nodes:
        # Conditions that are not as they should be, in the cluster's own words.
        for row in parts(node, "conditions"):
            if (row.get("type") == "Ready") != (row.get("status") == "True"):
                why = row.get("message") or row.get("reason")
                text = one_line(f"{node.get('name')}: {row.get('type')}: {why}")
                terminal.write("\n".join(wrap(text, terminal.width)))
    # Of what one may see: what others do with theirs is not told.
    used: dict[tuple[object, object], list[Json]] = {}
    try:
        for row in session.rest.every("usage/"):
            used.setdefault((row.get("id"), row.get("node")), []).append(row)
    except ClientError as error:
        if error.code != NOT_FOUND:  # a portal of before
            raise
    holders = [
        {
            **holder,
            "node": node.get("name", ""),
            "duty": _duty(used.get((holder.get("id"), node.get("name")), ())),
        }
        for node in nodes
        for holder in parts(node, "holders")
        if holder.get("gpu")
    ]
    output.section(holders, HOLDER_COLUMNS)
    return OK


# --- what trainings use ---------------------------------------------------------------------------


def _of_all(rows: Iterable[Json], where: str, name: str) -> float | None:
    """The sum over replicas; None: it was measured of none."""
    found = [value for row in rows if (value := part(row, where).get(name)) is not None]
    return sum(map(float, found)) if found else None


def _used(used: float | None, asked: float | None, text: Callable[[float], str]) -> str:
    """`0.9/8 (11%)`."""
    if not asked:
        return ""
    share = "" if used is None else f" ({used / asked:.0%})"
    return f"{'-' if used is None else text(used)}/{text(asked)}{share}"


def _cores(millicores: float) -> str:
    return f"{round(millicores / 1000, 2):g}"


def _mib(mib: float) -> str:
    return size_text(mib * 2**20)


def _shown(rows: list[Json]) -> Json:
    """What replicas request and use together, as cells."""
    gpus = _of_all(rows, "requested", "gpu_count")
    fullest = [part(row, "now").get("gpu_memory_mib") for row in rows]
    notes = sorted({str(row.get("gpu_note")) for row in rows if row.get("gpu_note")})
    return {
        **rows[0],
        "replicas": len(rows),
        "gpu": f"{gpus:g}" if gpus else "",
        "duty": _duty(rows) or ("not measured" if notes else ""),
        "gpu_memory": _mib(max(known)) if (known := [one for one in fullest if one]) else "",
        "cpu": _used(_of_all(rows, "now", "cpu_m"), _of_all(rows, "requested", "cpu_m"), _cores),
        "memory": _used(
            _of_all(rows, "now", "memory_mib"), _of_all(rows, "requested", "memory_mib"), _mib
        ),
        "node": ", ".join(sorted({str(row["node"]) for row in rows if row.get("node")})),
        "low": ", ".join(sorted({what for row in rows for what in part(row, "low")})),
        "note": "; ".join(notes),
    }


USED_COLUMNS = (
    Column("GPU", is_right=True),
    Column("DUTY", is_right=True),
    Column("GPU MEMORY", lambda row: row.get("gpu_memory"), leaves_at=90, is_right=True),
    Column("CPU", is_right=True),
    Column("MEMORY", is_right=True),
    Column("LOW", leaves_at=100),
    Column("GPU NOTE", lambda row: row.get("note"), is_wide=True),
)
JOB_COLUMNS = (
    Column("NAME", shrinks_to=10),
    Column("OWNER", shrinks_to=6),
    Column("REPLICAS", leaves_at=110, is_right=True),
    *USED_COLUMNS,
    Column("NODE", leaves_at=120),
)
REPLICA_COLUMNS = (Column("REPLICA", shrinks_to=8), *USED_COLUMNS)


@top.command("job")
@click.argument("job", metavar="[TRAINING]", required=False, shell_complete=training_names)
@output_option
@click.pass_obj
def top_job(session: CliSession, job: str | None) -> int:
    """Show what running trainings request and use, as measured in their containers; or each replica of one."""
    rest, output = session.rest, session.output
    if job:
        one = find_job(rest, job, session.terminal)
        rows = list(rest.every(f"jobs/{one.get('id')}/usage/", {"hours": 0}))
        columns: Sequence[Column] = REPLICA_COLUMNS
        shown = [_shown([row]) for row in rows]
        empty = (
            "Nothing measured yet; figures appear a minute or two after the program has started."
        )
    else:
        rows = [row for row in rest.every("usage/") if row.get("kind") == "job"]
        by_job: dict[object, list[Json]] = {}
        for row in rows:
            by_job.setdefault(row.get("id"), []).append(row)
        columns, shown = JOB_COLUMNS, [_shown(each) for each in by_job.values()]
        empty = "No training that runs has been measured yet"
    output.rows(rows if output.is_data else shown, columns, empty)
    return OK


# --- queue ----------------------------------------------------------------------------------------


def _starts(row: Json) -> tuple[str, str]:
    """In about how long, and what that follows from; portals of before do not say."""
    told = part(row, "start_estimate")
    wait_s = left_s(told.get("at"))
    when = "unknown" if wait_s is None else f"in {span_text(max(60, round(wait_s / 60) * 60))}"
    return (when, one_line(told.get("basis", ""))) if told else ("", "")


QUEUE_COLUMNS = (
    Column("#", lambda row: row.get("position", ""), is_right=True),
    Column("ID", short_id),
    Column("KIND", leaves_at=70),
    Column("NAME", shrinks_to=10),
    Column("OWNER", shrinks_to=6),
    Column("TEAM", leaves_at=110),
    Column("PRIORITY", lambda row: row.get("priority", ""), leaves_at=110),
    Column("PODS", leaves_at=100, is_right=True),
    Column("GPU", lambda row: row.get("gpu") or "", is_right=True),
    Column("CPU", leaves_at=90, is_right=True),
    Column("MEMORY", leaves_at=90, is_right=True),
    Column("WAITS", lambda row: age_text(row.get("queued_at")), is_right=True),
    Column("STARTS", lambda row: _starts(row)[0], leaves_at=80, is_right=True),
    Column("NEXT STEP", lambda row: reason_of(row)[1], is_wide=True),
    Column("WHY", lambda row: reason_of(row)[0], shrinks_to=16, wraps=True),
)


@click.command(cls=Command)
@click.option("--explain", metavar="ID", help="one of them: when it starts, and by which rules")
@output_option
@click.pass_obj
def queue(session: CliSession, explain: str | None) -> int:
    """Show what waits, its place, when it starts, and why."""
    rows = list(session.rest.every("queue/"))
    if explain is None:
        session.output.rows(rows, QUEUE_COLUMNS, "Nothing queued")
        return OK
    found = [
        row for row in rows if explain == row.get("name") or str(row.get("id")).startswith(explain)
    ]
    if len(found) != 1:
        what = f"{len(found)} of what waits are called" if found else "Nothing that waits is called"
        raise ClientError(
            f"{what} {one_line(explain)!r}.",
            "See what waits, with its ids: homeport queue",
            NOT_FOUND,
        )
    if not session.output.row(found[0]):
        _explain(session, found[0])
    return OK


def _explain(session: CliSession, row: Json) -> None:
    reason, next_step = reason_of(row)
    place = f"Position {row.get('position')} in its namespace"
    if row.get("position_all"):
        place += f", {row['position_all']} in the whole queue"
    when, basis = _starts(row)
    starts = "When it starts cannot be estimated" if when == "unknown" else f"Starts {when}"
    lines = [
        place,
        reason or "Homeport has not checked it yet",
        f"{starts}: {basis}" if when else "",
    ]
    rules = row.get("rules")
    told = [one_line(rule) for rule in rules] if isinstance(rules, list) else []
    lines += [f"{number}. {rule}" for number, rule in enumerate(told, 1)] + [next_step]
    for line in filter(None, lines):
        session.terminal.write("\n".join(wrap(line, session.terminal.width)))
