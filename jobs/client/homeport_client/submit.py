"""`homeport submit`: packs code, sends it unless the portal has it, and submits the training."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Callable

import click

from . import body, job_file
from .amounts import size_text
from .answers import Json, named, replica_names, short_id
from .exits import (
    NOT_FOUND,
    OK,
    REFUSED,
    ClientError,
    UnreachableError,
    refused_line_by_line,
    usage_error,
)
from .options import Command, files_on_tab, output_option
from .output import Column
from .sanitize import one_line, sanitize
from .session import CliSession

REFUSED_TEXT = "The training is refused:"
# Arena's words behind submit, whose flags are in `arena`.
ARENA_WORDS = {
    **{word: word.removesuffix("job") for word in ("tf", "pytorch", "mpi", "jax")},
    **{f"{word}job": word for word in ("tf", "pytorch", "mpi", "jax")},
    **dict.fromkeys(("horovod", "horovodjob", "hj"), "mpi"),
    **dict.fromkeys(("deepspeed", "deepspeedjob", "dp"), "pytorch"),
    "mj": "mpi",
}
_LIKE_FOLDERS = frozenset({"dp", "mj"})  # code of that name comes first, as it always did
_OPERATOR = "brings a scheduler of its own, which would be a second queue inside one training. Run it on a cluster with its operator."
# Others of Arena's words, unless a file of that name is meant -> why there is none, and what to do.
UNOFFERED = {
    **dict.fromkeys(
        ("et", "etjob"),
        "Elastic training runs by torch-ddp: homeport submit . --topology torch-ddp --workers 4 --min-workers 2 "
        "-- torchrun train.py",
    ),
    **dict.fromkeys(("ray", "rayjob", "rj"), f"Ray {_OPERATOR}"),
    **dict.fromkeys(("spark", "sparkjob"), f"Spark {_OPERATOR}"),
    **dict.fromkeys(
        ("volcano", "volcanojob", "vj"),
        "Choose what its tasks are to each other: homeport submit . --topology array, tf-ps, torch-ddp, jax or mpi",
    ),
}
EXAMPLES = """\b
For example:
  homeport submit . --image tensorflow/tensorflow:2.21.0 --gpu 1 -- python train.py
  homeport submit -f job.yaml --follow
  homeport submit src --workers 2 --ps 1 --cluster-flags true -- python ps.py
  homeport submit tf --help    (Arena's flags; likewise pytorch, mpi, jax)
"""


class SubmitCommand(Command):
    """With one of Arena's words in front it is the command of that word; a folder of that name is `./tf`."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any
    ) -> click.Context:
        # By itself it is `client`: what comes behind it is no value of it.
        args = ["--dry-run=client" if one == "--dry-run" else one for one in args]
        word = next(iter(args), "")
        is_old = any(one.partition("=")[0] == "--mode" for one in args)  # of Arena, too
        if word in UNOFFERED and not Path(word).exists():
            raise usage_error(f"There is no homeport submit {word}.", UNOFFERED[word])
        is_arena = word in ARENA_WORDS and not (word in _LIKE_FOLDERS and Path(word).exists())
        if not is_arena and not is_old:
            return super().make_context(info_name, args, parent, **extra)
        from . import arena

        found = arena.command(word if is_arena else "mpi")
        rest = args[1:] if is_arena else args
        return found.make_context(f"{info_name} {word}".rstrip(), rest, parent, **extra)


def _no_more(ctx: click.Context, _param: click.Parameter, value: Sequence[str]) -> None:
    if value and not ctx.resilient_parsing:
        raise click.UsageError(f"Got unexpected extra argument ({value[0]})", ctx)


@click.command(
    cls=SubmitCommand,
    params=[*body.FIELDS.values(), *body.SOURCES.values(), *body.OTHERS],
    epilog=EXAMPLES,
)
@click.argument("path", required=False, shell_complete=files_on_tab)
# Is there to be shown in help, and to complete names of files behind `--`.
@click.argument(
    "command",
    nargs=-1,
    shell_complete=files_on_tab,
    metavar="[-- COMMAND ...]",
    callback=_no_more,
    expose_value=False,
)
@click.option(
    "--dry-run",
    type=click.Choice(["client", "server"]),
    metavar="[=server]",
    help="only show manifests and whether it fits; =server: what the cluster says",
)
@click.option("--list-files", is_flag=True, help="only list what would be sent")
@click.option("-w", "--wait", is_flag=True, help="wait; end with its exit code")
@click.option("--follow", is_flag=True, help="show its log, too")
@output_option
@click.pass_obj
def submit(
    session: CliSession,
    /,
    *,
    dry_run: str | None,
    list_files: bool,
    wait: bool,
    follow: bool,
    **options: Any,
) -> int:
    """Submit a training.

    Packs PATH (a folder, an archive or one file), sends it unless the portal has it, and submits a
    training. What .gitignore and .homeportignore name is not sent.
    """
    template = _template(session, options.pop("template"), has_file=bool(options["file"]))
    if list_files:  # which sends nothing, the text of a file neither
        return _list_files(session, body.make(options, session.command, template).path)
    if options["file"]:
        wanted = job_file.make(session, options, session.command, REFUSED_TEXT)
    else:
        wanted = body.make(options, session.command, template)
    return carry_out(session, wanted, dry_run=dry_run, wait=wait, follow=follow)


SHARED = [
    one
    for one in submit.params
    if one.name in {"dry_run", "wait", "follow", "set", "secret", "output"}
]


def carry_out(
    session: CliSession,
    wanted: body.SubmitRequest,
    *,
    dry_run: str | None,
    wait: bool,
    follow: bool,
    then: Callable[[CliSession, Json], None] | None = None,
) -> int:
    """Sends what is wanted; `then` is done with the training before somebody waits for its end."""
    is_without_code = False
    if wanted.path is not None:
        bundle = _bundle(session, wanted, sends=not dry_run)
        is_without_code = bundle is None
        if bundle is not None:
            wanted.body["source"] = {"bundle": bundle}
    if dry_run == "server":
        return _ask_cluster(session, wanted)
    if dry_run:
        return _dry_run(session, wanted, is_without_code=is_without_code)
    job = post(session, wanted)
    print_hints(session, job)
    tell_submitted(session, job, stays=wait or follow)
    if then is not None:
        then(session, job)
    return _stay(session, job, follows=follow) if wait or follow else OK


def _template(session: CliSession, name: str | None, *, has_file: bool) -> Json | None:
    """What the template of this name asks for; one's own comes before those of teams."""
    if not name:
        return None
    if has_file:
        raise usage_error("--file and --template are both whole requests.", "Give one of them.")
    rows, _count = session.rest.page("templates/", {"name": name})
    found = [row["spec"] for row in rows if row.get("name") == name]
    if not found or not isinstance(found[0], dict):
        raise ClientError(f"There is no template {name!r}.", "See the page Templates.", NOT_FOUND)
    return found[0]


def _list_files(session: CliSession, path: Path | None) -> int:
    if path is None or not path.is_dir():
        raise usage_error("--list-files needs a folder of code.")
    from .pack import select
    from .upload import tell_selection

    chosen = select(path)
    if session.output.is_data:
        rows = [{"path": row.path, "size_bytes": row.size_bytes} for row in chosen.entries]
        session.output.data(rows)
    else:
        for row in chosen.entries:
            session.terminal.write(sanitize(row.path))
    tell_selection(session, chosen)
    return OK


def _preview(session: CliSession, wanted: body.SubmitRequest) -> tuple[Json, Json]:
    """Whether it fits, and all that the portal says of it."""
    with refused_line_by_line(REFUSED_TEXT, wanted.flag_of):
        seen = session.rest.post("jobs/preview/", wanted.body)
    fit = seen.get("fit") if isinstance(seen, dict) else None
    if not isinstance(fit, dict):
        raise ClientError("The portal did not say whether it fits.")
    return fit, seen


def _bundle(session: CliSession, wanted: body.SubmitRequest, *, sends: bool) -> str | None:
    """The id of the code at the portal; None: it is not there and would have to be sent."""
    from .upload import Code

    assert wanted.path is not None
    with closing(Code(session, wanted.path)) as code:
        known = code.find()
        if known is None and not sends:
            session.terminal.tell(
                f"{size_text(code.size_bytes)} of code would be sent. A dry run sends nothing, "
                "so the manifests are without it.",
                "dim",
            )
        elif known is None:
            # What is wrong with the rest is said before somebody waits for the code to be sent.
            fit, _seen = _preview(session, wanted)
            if fit.get("kind") == "never":
                text = f"{REFUSED_TEXT} {one_line(fit.get('text'))}"
                raise ClientError(text, "", REFUSED)
            return code.send()
        elif sends:
            session.terminal.tell("The portal has this code already.", "dim")
        return known


def _dry_run(session: CliSession, wanted: body.SubmitRequest, *, is_without_code: bool) -> int:
    """What a submit would do. Nothing is sent: code that the portal lacks is left out."""
    fit, seen = _preview(session, wanted)
    manifests, hints = str(seen.get("manifests", "")), seen.get("hints") or []
    if session.output.is_data:
        answer = {"fit": fit, "hints": hints, "body": wanted.body, "manifests": manifests}
        session.output.data({**answer, "code_is_left_out": is_without_code})
    else:
        session.terminal.write(sanitize(manifests).rstrip("\n"))
        print_hints(session, seen)
        colour = {"now": "green", "later": "yellow", "never": "red"}.get(str(fit.get("kind")), "")
        session.terminal.tell(one_line(fit.get("text", "")), colour)
    return REFUSED if fit.get("kind") == "never" else OK


_COLOURS = {"accepted": "green", "queued": "yellow", "refused": "red"}
_TRIED = (
    Column("KIND"),
    Column("NAME", shrinks_to=12),
    Column("STATE", colour=lambda text: _COLOURS.get(text, "")),
    Column("TEXT", shrinks_to=20, wraps=True),
)
_VERDICTS = {
    "accepted": "The cluster accepts it. {fit}",
    "queued": "The cluster accepts it, but its quota is used up: it will be queued.",
    "refused": "The cluster refuses it.",
}


def _ask_cluster(session: CliSession, wanted: body.SubmitRequest) -> int:
    """What the cluster itself would say; nothing is made."""
    with refused_line_by_line(REFUSED_TEXT, wanted.flag_of):
        session.rest.get("me/")
        if "dry-run" not in session.rest.features:
            # It would submit the training.
            text = "This portal cannot ask the cluster: it is older than this command line."
            raise ClientError(text, "--dry-run alone shows the manifests and whether it fits.")
        told = session.rest.call("POST", "jobs/", body=wanted.body, query={"dry_run": "All"})
    state = told.get("state") if isinstance(told, dict) else None
    if state not in _VERDICTS:
        raise ClientError("The portal did not say what the cluster says.")
    if not session.output.row(told):
        print_hints(session, told)
        session.output.table(told["objects"], _TRIED)
        text = _VERDICTS[state].format(fit=one_line(told["fit"]["text"]))
        session.terminal.tell(text, _COLOURS[state])
    return REFUSED if state == "refused" else OK


def post(session: CliSession, wanted: body.SubmitRequest) -> Json:
    """The training that was submitted. Raises ClientError: it is refused, or nobody knows."""
    try:
        with refused_line_by_line(REFUSED_TEXT, wanted.flag_of):
            job = session.rest.post_once("jobs/", wanted.body)
    except UnreachableError as error:
        if error.may_have_happened:
            error.next_step = (
                "It is not known whether the training was submitted. "
                f"Look before you try again: homeport list --name {str(wanted.body.get('name'))!r}"
            )
        raise
    if not isinstance(job, dict) or not job.get("id"):
        raise ClientError("The portal did not say what happened to it.", "Look: homeport list")
    return job


def print_hints(session: CliSession, answer: Json) -> None:
    """What of the command is probably meant otherwise; portals from before 0.2.0 do not say it."""
    for hint in answer.get("hints") or ():
        session.terminal.tell(one_line(hint), "yellow")


def tell_submitted(session: CliSession, job: Json, *, stays: bool) -> None:
    """Says what was submitted."""
    if session.output.form == "name" or (not stays and session.output.is_data):
        session.output.row(job)
        return
    page = f"{session.rest.url}/trainings/{one_line(job['id'])}/"
    session.terminal.tell(f"Submitted {named(job)}: {page}")
    if not stays:
        session.terminal.tell(f"Watch it: homeport logs -f {short_id(job)}", "dim")


def _stay(session: CliSession, job: Json, *, follows: bool) -> int:
    """Until the training has ended; its own exit code."""
    from .watching import code_of, tell_end, wait_for_end

    terminal, identity = session.terminal, short_id(job)
    if follows:
        from .follow import Follower
        from .logs import LineWriter

        names = replica_names(job)
        writer = LineWriter(terminal, names, has_prefixes=len(names) != 1)
        Follower(session, str(job["id"]), writer).follow()
    try:
        ended = wait_for_end(session.rest, str(job["id"]), terminal)
    except KeyboardInterrupt:
        terminal.tell(
            f"\nNo longer waiting; the training continues. Show it: homeport get {identity}; stop "
            f"it: homeport stop {identity}"
        )
        raise
    tell_end(ended, terminal)
    if session.output.is_data:
        session.output.data(ended)
    return code_of(ended)
