"""Commands about trainings: list, get, stop, suspend, resume, export, delete, prune."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from .amounts import age_text, lasted_text, size_text
from .answers import (
    FINAL,
    STATES,
    Json,
    indexes_of,
    named,
    parts,
    reason_of,
    resources_of,
    short_id,
    state_colour,
)
from .exits import OK
from .find import FULL_ID, find_job
from .options import (
    Command,
    job_argument,
    jobs_argument,
    number_option,
    on_tab,
    output_option,
    yes_option,
)
from .output import Column
from .sanitize import one_line, sanitize
from .session import CliSession


def _replicas(job: Json) -> str:
    """`1`, or `2 worker + 1 ps`."""
    counts = {role: len(indexes_of(job, role)) for role in resources_of(job)}
    if set(counts) == {"worker"}:
        return str(counts["worker"])
    return " + ".join(f"{count} {role}" for role, count in counts.items())


def _gpu_count(job: Json) -> int | str:
    """GPUs of all replicas together."""
    asked = resources_of(job).items()
    return sum(len(indexes_of(job, role)) * int(row.get("gpu") or 0) for role, row in asked) or ""


def _allocated(job: Json) -> int | str:
    """GPUs of the replicas that hold them now."""
    each = {role: int(row.get("gpu") or 0) for role, row in resources_of(job).items()}
    held = [row for row in parts(job, "replicas") if row.get("state") in {"starting", "running"}]
    return sum(each[row["role"]] for row in held if row.get("node")) if _gpu_count(job) else ""


def _nodes(job: Json) -> str:
    return ", ".join(
        sorted({str(row["node"]) for row in parts(job, "replicas") if row.get("node")})
    )


def _lasted(row: Json) -> str:
    if row.get("state") in {"queued", "suspended"}:
        return ""  # it began once, and does not run now
    without_s = row.get("suspended_s")
    return lasted_text(row.get("started_at"), row.get("finished_at"), without_s=without_s)


COLUMNS = (
    Column("ID", short_id),
    Column("NAME", shrinks_to=12),
    Column("STATE", colour=state_colour),
    Column("REPLICAS", _replicas, leaves_at=70),
    Column("GPU", _gpu_count, leaves_at=60, is_right=True),
    Column("AGE", lambda job: age_text(job.get("queued_at")), is_right=True),
    Column("LASTED", _lasted, leaves_at=60, is_right=True),
    Column("OWNER", shrinks_to=6),
    Column(
        "WHY",
        lambda job: reason_of(job)[0] if job.get("state") != "succeeded" else "",
        shrinks_to=12,
        leaves_at=90,
    ),
    Column("TOPOLOGY", is_wide=True),
    Column("ALLOCATED", _allocated, is_wide=True, is_right=True),
    Column("IMAGE", is_wide=True),
    Column("NODES", _nodes, is_wide=True),
    Column("NAMESPACE", is_wide=True),
)


# What others call trainings -> the topologies that they are here.
TYPES = {
    "tf": "tf-ps,tf-multiworker,tf-ingraph",
    "pytorch": "torch-ddp",
    "jax": "jax",
    "mpi": "mpi",
    "horovod": "mpi",
}


def topologies(text: str) -> str:
    """Those that a word means: `tf` and `tfjob` are all of TensorFlow."""
    return TYPES.get(text.lower().removesuffix("job"), text)


@click.command(cls=Command)
@click.option("-A", "--all-people", is_flag=True, help="of all that you may see")
@click.option("--owner", metavar="USER", help="of one person")
@click.option(
    "-T",
    "--type",
    "topology",
    type=topologies,
    metavar="TYPE",
    shell_complete=on_tab(lambda: TYPES),
    help="tf, pytorch, mpi, jax, or a topology such as single",
)
@click.option(
    "--state",
    shell_complete=on_tab(lambda: STATES),
    help="queued, starting, running, restarting, succeeded, failed, stopped, ...",
)
@click.option("--name", help="part of the name")
@number_option("-n", "--limit", low=1, high=200, default=20, text="how many to show (20)")
@number_option("--page", low=1, high=10**9, default=1, text="which part of the list (1)")
@click.option("--all", "is_whole", is_flag=True, help="the whole list")
@output_option
@click.pass_obj
def list_jobs(
    session: CliSession,
    /,
    *,
    all_people: bool,
    limit: int,
    page: int,
    is_whole: bool,
    **query: str | None,
) -> int:
    """List trainings, newest first."""
    # Whose it is says nothing new where all are one's own.
    has_owner = all_people or bool(query["owner"])
    owner = query["owner"] or (None if all_people else session.user_name)
    asked = {**query, "owner": owner}
    if is_whole:
        rows = list(session.rest.every("jobs/", asked))
        count = len(rows)
    else:
        rows, count = session.rest.page("jobs/", {**asked, "page": page, "page_size": limit})
    session.output.rows(
        rows,
        [column for column in COLUMNS if has_owner or column.title != "OWNER"],
        "No matching trainings"
        if any(query.values())
        else "No trainings yet. Submit one: homeport submit . --image IMAGE -- python train.py",
    )
    if rows and page * limit < count and not is_whole:
        session.terminal.tell(
            f"{len(rows)} of {count}; next: --page {page + 1}, or all: --all", "dim"
        )
    return OK


# --- get ------------------------------------------------------------------------------------------

SHOWN_EVENTS = 10
TITLE_WIDTH = 13


def _replica(row: Json) -> str:
    return f"{row.get('role')}-{row.get('index')}"


def _message(event: Json) -> str:
    times = f" (x{event.get('count')})" if event.get("count") not in (None, 1) else ""
    return f"{event.get('message', '')}{times}"


REPLICA_COLUMNS = (
    Column("REPLICA", _replica),
    Column("STATE", colour=state_colour),
    Column("CODE", lambda row: row.get("exit_code"), is_right=True),
    Column("RESTARTS", lambda row: row.get("restarts") or "", leaves_at=90, is_right=True),
    Column("LASTED", _lasted, leaves_at=60, is_right=True),
    Column("NODE", shrinks_to=8, leaves_at=70),
    Column("GPUS", leaves_at=90),
    Column("POD", is_wide=True),
    Column("REASON", shrinks_to=12, wraps=True),
)
ATTEMPTS_COLUMN = Column("REPLICA", lambda row: f"{_replica(row)} #{row.get('attempt')}")
ATTEMPT_COLUMNS = (
    Column("ATTEMPT", lambda row: row.get("number"), is_right=True),
    Column("CAUSE"),
    Column("AGE", lambda row: age_text(row.get("admitted_at")), leaves_at=90, is_right=True),
    Column(
        "LASTED",
        lambda row: lasted_text(row.get("started_at"), row.get("ended_at")),
        leaves_at=60,
        is_right=True,
    ),
    Column("CODE", lambda row: row.get("exit_code"), is_right=True),
    Column("REASON", shrinks_to=12, wraps=True),
)
EVENT_COLUMNS = (
    Column("AGE", lambda event: age_text(event.get("at")), is_right=True),
    Column("FROM", lambda event: event.get("source"), leaves_at=130),
    Column("ABOUT", lambda event: event.get("subject"), shrinks_to=8, leaves_at=110),
    Column(
        "WHAT",
        lambda event: f"{'! ' if event.get('is_warning') else ''}{event.get('reason', '')}",
        shrinks_to=10,
    ),
    Column("MESSAGE", _message, shrinks_to=20, wraps=True),
)


@click.command(cls=Command)
@job_argument
@click.option("-e", "--events", "all_events", is_flag=True, help="all events")
@output_option
@click.pass_obj
def get_job(session: CliSession, job: str, *, all_events: bool) -> int:
    """Show one training: state, reason, attempts, replicas, events."""
    found = find_job(session.rest, job, session.terminal)
    if not FULL_ID.fullmatch(job):  # it was found by a list, which does not tell its attempts
        found = session.rest.get(f"jobs/{found['id']}/")
    events = f"jobs/{found['id']}/events/"
    if session.output.is_data and all_events:
        found = {**found, "events": list(session.rest.every(events))}
    if session.output.row(found):
        return OK
    _show_facts(session, found)
    attempts = parts(found, "attempts")  # portals of before have none
    if len(attempts) > 1:
        session.output.section(attempts, ATTEMPT_COLUMNS)
    replicas = parts(found, "replicas")
    has_attempts = any(row.get("attempt") != 1 for row in replicas)
    first = ATTEMPTS_COLUMN if has_attempts else REPLICA_COLUMNS[0]
    session.output.section(replicas, [first, *REPLICA_COLUMNS[1:]])
    rows = list(session.rest.every(events))
    shown = rows if all_events else rows[-SHOWN_EVENTS:]
    session.output.section(shown, EVENT_COLUMNS)
    if len(shown) < len(rows):
        session.terminal.tell(f"The last {len(shown)} of {len(rows)} events; all: --events", "dim")
    return OK


def _gpu_text(count: object) -> str:
    if not count:
        return ""
    return ", 1 GPU" if count == 1 else f", {count} GPUs"


def _show_facts(session: CliSession, job: Json) -> None:
    reason, next_step = reason_of(job)
    command = job.get("command")
    words = command if isinstance(command, list) else []
    asked = [
        f"{amounts.get('count')} {role} x {amounts.get('cpu')} CPU, {amounts.get('memory')}"
        + _gpu_text(amounts.get("gpu"))
        for role, amounts in resources_of(job).items()
    ]
    facts = {
        "Name": job.get("name", ""),
        "State": job.get("state", ""),
        "Reason": reason,
        "Next step": next_step,
        "ID": job.get("id", ""),
        "Owner": f"{job.get('owner', '')} in {job.get('namespace', '')}",
        "Topology": job.get("topology", ""),
        "Image": job.get("image", ""),
        "Command": " ".join(shlex.quote(str(word)) for word in words),
        "Commit": job.get("source_commit") or "",
        "Resources": "; ".join(asked),
        "Queued": f"{age_text(job.get('queued_at'))} ago",
        "Lasted": _lasted(job),
        "Attempt": job.get("attempt", "") if job.get("attempt") != 1 else "",
        "Page": f"{session.rest.url}/trainings/{job.get('id', '')}/",
    }
    shown_by = [
        f"{one_line(row.get('name', ''))}, {one_line(row.get('state', ''))}; "
        f"open it: homeport tensorboard open {short_id(row)}"
        for row in session.rest.every("tensorboards/", {"owner": job.get("owner")})
        if job.get("id") in {shown.get("job") for shown in parts(row, "log_dirs")}
    ]
    facts["TensorBoard"] = "; ".join(shown_by)
    colours = {"State": state_colour(str(facts["State"]))}
    session.terminal.write_facts(facts, TITLE_WIDTH, colours)


# --- stop and delete ------------------------------------------------------------------------------


def _found(session: CliSession, words: Sequence[str], one_of: str) -> list[Json]:
    """The trainings that were named, each once, all found before anything is done to one."""
    rows = [find_job(session.rest, word, session.terminal, one_of=one_of) for word in words]
    return list({str(row["id"]): row for row in rows}.values())


@click.command(cls=Command)
@jobs_argument(required=True)
@click.option("--reason", default="", help="why; its owner sees it")
@output_option
@click.pass_obj
def stop_jobs(session: CliSession, jobs: Sequence[str], reason: str) -> int:
    """Stop trainings, with time to save."""
    answers = []
    for job in _found(session, jobs, "running"):
        if job.get("state") in FINAL:
            answers.append(job)
            session.terminal.tell(f"{named(job)} has ended already: {one_line(job['state'])}.")
        else:
            answers.append(session.rest.post(f"jobs/{job['id']}/stop/", {"reason": reason}))
            session.terminal.tell(f"Stopping {named(job)}; it has time to save what it has.")
    _show_answers(session, answers)
    return OK


def _show_answers(session: CliSession, answers: Sequence[Json]) -> None:
    if session.output.is_data and len(answers) != 1:
        session.output.data(answers)
    else:
        for job in answers:
            session.output.row(job)


def _changing(verb: str, told: str, text: str) -> click.Command:
    """A command that asks for a change of trainings, whose state decides whether it may be."""

    @click.command(verb, cls=Command, help=text)
    @jobs_argument(required=True)
    @output_option
    @click.pass_obj
    def change(session: CliSession, jobs: Sequence[str]) -> int:
        answers = []
        for job in _found(session, jobs, "running"):
            answers.append(session.rest.post(f"jobs/{job['id']}/{verb}/"))
            session.terminal.tell(f"{told} {named(job)}.")
        _show_answers(session, answers)
        return OK

    return change


suspend_jobs = _changing("suspend", "Suspending", "Suspend trainings; they hold nothing meanwhile.")
resume_jobs = _changing("resume", "Queued again:", "Queue suspended trainings again.")


@click.command("continue", cls=Command)
@job_argument
@click.option("--name", help="its name (that of the other)")
@click.option("--set", multiple=True, metavar="FIELD=VALUE", help="what is to be different")
@output_option
@click.pass_obj
def continue_job(
    session: CliSession, /, job: str, *, name: str | None, **options: Sequence[str]
) -> int:
    """Go on from a training that has ended: the same request, in the same log folder.

    Another command stands behind --.
    """
    from .body import SubmitRequest, set_fields, typed_as
    from .submit import post, print_hints, tell_submitted

    found = find_job(session.rest, job, session.terminal)
    given = {"name": name, "command": session.command}
    said = {field: value for field, value in given.items() if value}
    flag_of = typed_as(options["set"])
    wanted = SubmitRequest({"continue_from": found["id"], **said}, flag_of=flag_of)
    set_fields(wanted.body, options["set"])
    made = post(session, wanted)
    print_hints(session, made)
    tell_submitted(session, made, stays=False)
    return OK


@click.command(cls=Command)
@job_argument
@click.option(
    "--as",
    "form",
    type=click.Choice(["kubernetes", "tfjob", "pytorchjob"]),
    default="kubernetes",
    help="Jobs and Services (kubernetes), or a job of Kubeflow's operator",
)
@click.pass_obj
def export_job(session: CliSession, job: str, form: str) -> int:
    """Print manifests that run it without Homeport: homeport export NAME | kubectl apply -f -"""
    found = find_job(session.rest, job, session.terminal)
    answer = session.rest.open("GET", f"jobs/{found['id']}/export/", query={"as": form})
    text = b"".join(session.rest.chunks(answer)).decode("utf-8", "replace")
    session.terminal.write(sanitize(text).rstrip("\n"))
    return OK


@click.command(cls=Command)
@jobs_argument(required=True)
@yes_option
@click.pass_obj
def delete_jobs(session: CliSession, jobs: Sequence[str], *, yes: bool) -> int:
    """Delete trainings with logs and artifacts."""
    for job in _found(session, jobs, "only"):
        state = one_line(job.get("state", ""))
        question = f"Delete {named(job)}, which is {state}, with its logs and artifacts?"
        if session.terminal.may_delete(question, yes=yes):
            session.rest.delete(f"jobs/{job['id']}/")
            session.terminal.tell(f"Deleted {named(job)}.")
    return OK


# --- prune ----------------------------------------------------------------------------------------


def _total(answer: Json) -> int:
    """Bytes of logs and files."""
    return int(answer.get("logs_bytes") or 0) + int(answer.get("artifacts_bytes") or 0)


def _trainings(answer: Json) -> str:
    """`12 trainings, 3.1 MiB`."""
    count = int(answer.get("count") or 0)
    return f"{count} training{'' if count == 1 else 's'}, {size_text(_total(answer))}"


HELD_COLUMNS = (
    Column("STATE", colour=state_colour),
    Column("TRAININGS", lambda row: row.get("count"), is_right=True),
    Column("LOGS", lambda row: size_text(row.get("logs_bytes")), is_right=True),
    Column("FILES", lambda row: size_text(row.get("artifacts_bytes")), is_right=True),
)


@click.command(cls=Command)
@click.option("--since", required=True, metavar="AGE", help="those that ended longer ago: 30d, 12h")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(sorted(FINAL)),
    help="only those that ended so; may be repeated",
)
@click.option("--dry-run", is_flag=True, help="only show what would be deleted")
@yes_option
@output_option
@click.pass_obj
def prune_jobs(
    session: CliSession, since: str, states: Sequence[str], *, dry_run: bool, yes: bool
) -> int:
    """Delete your finished trainings by age, with logs and artifacts."""
    body: Json = {"older_than": since, **({"states": list(states)} if states else {})}
    output, terminal = session.output, session.terminal
    found = session.rest.post("jobs/prune/", {**body, "dry_run": True})
    if not output.is_data:
        output.rows(
            parts(found, "states"),
            HELD_COLUMNS,
            f"No finished trainings older than {since}",
            name=lambda row: one_line(row.get("state", "")),
        )
    if found.get("note") and found.get("count"):
        terminal.tell(one_line(found["note"]), "dim")
    if dry_run or not found.get("count"):
        if output.is_data:
            output.data(found)
        return OK
    if not terminal.may_delete(f"Delete {_trainings(found)}?", yes=yes):
        return OK
    if found.get("before"):
        body["before"] = found["before"]  # what was shown, and nothing that comes of age meanwhile
    answers = []
    while True:
        answer = session.rest.post("jobs/prune/", {**body, "dry_run": False})
        answers.append(answer)
        left = int(answer.get("remaining") or 0)
        more = f"; {left} remain" if left else ""
        terminal.tell(f"Deleted {_trainings(answer)}{more}.")
        if not left or not answer.get("count"):
            break
    if output.is_data:
        output.data(answers)
    return OK
