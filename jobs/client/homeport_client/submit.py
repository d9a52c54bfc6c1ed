"""`homeport submit`: packs code, sends it unless the portal has it, and submits the training."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from . import body
from .exits import OK, REFUSED, ClientError, UnreachableError, usage_error
from .find import short_id
from .lines import LineWriter
from .options import Command, output_option
from .sanitize import one_line, sanitize
from .session import Session
from .table import size_text
from .trainings import replica_names

EXAMPLES = """\b
For example:
  homeport submit . --image tensorflow/tensorflow:2.21.0 --gpu 1 -- python train.py
  homeport submit -f job.yaml --follow
  homeport submit src --workers 2 --ps 1 --cluster-flags true -- python ps.py
"""


def _no_more(ctx: click.Context, _param: click.Parameter, value: Sequence[str]) -> None:
    if value and not ctx.resilient_parsing:
        raise click.UsageError(f"Got unexpected extra argument ({value[0]})", ctx)


@click.command(cls=Command, params=[*body.FIELDS.values()], epilog=EXAMPLES)
@click.argument("path", required=False, type=click.Path())
# Is there to be shown in help, and to complete names of files behind `--`.
@click.argument(
    "command",
    nargs=-1,
    type=click.Path(),
    metavar="[-- COMMAND ...]",
    callback=_no_more,
    expose_value=False,
)
@click.option(
    "-f",
    "--file",
    type=click.Path(),
    metavar="FILE",
    help="fields of the training in YAML or JSON; - is stdin",
)
@click.option(
    "--env", multiple=True, metavar="NAME=VALUE", help="a variable; NAME alone takes yours"
)
@click.option(
    "--env-file", multiple=True, type=click.Path(), metavar="FILE", help="NAME=VALUE lines"
)
@click.option(
    "--cluster-flags",
    metavar="true|NAMES",
    help="append --ps_hosts and so on; or which of them",
)
@click.option("--source-url", metavar="URL", help="code from an address instead of PATH")
@click.option("--sha256", metavar="HEX", help="what that code must be")
@click.option("--source-path", metavar="/data/..", help="code from the data volume")
@click.option("--bundle", metavar="ID", help="code that was sent before")
@click.option(
    "--set",
    multiple=True,
    metavar="FIELD=VALUE",
    help="any field by its name in REST: replicas.worker.cpu=2",
)
@click.option("--dry-run", is_flag=True, help="only show manifests and whether it fits")
@click.option("--list-files", is_flag=True, help="only list what would be sent")
@click.option("-w", "--wait", is_flag=True, help="wait; end with its exit code")
@click.option("--follow", is_flag=True, help="show its log, too")
@output_option
@click.pass_obj
def submit(
    session: Session,
    /,
    *,
    dry_run: bool,
    list_files: bool,
    wait: bool,
    follow: bool,
    **options: Any,
) -> int:
    """Submit a training.

    Packs PATH (a folder, an archive or one file), sends it unless the portal has it, and submits a
    training. What .gitignore and .homeportignore name is not sent.
    """
    wanted = body.make(options, session.command)
    if list_files:
        return _list_files(session, wanted.path)
    if dry_run:
        return _dry_run(session, wanted)
    if wanted.path is not None:
        wanted.body["source"] = {"bundle": _upload(session, wanted)}
    job = _post(session, wanted.body)
    _tell(session, job, stays=wait or follow)
    return _stay(session, job, follows=follow) if wait or follow else OK


def _list_files(session: Session, path: Path | None) -> int:
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


def _upload(session: Session, wanted: body.SubmitRequest) -> str:
    """The id of the code at the portal, where it is sent unless it is there."""
    from .upload import Code

    assert wanted.path is not None
    with Code(session, wanted.path) as code:
        known = code.find()
        if known is not None:
            session.terminal.tell("The portal has this code already.", "dim")
            return known
        # What is wrong with the rest is said before somebody waits for the code to be sent.
        fit, _manifests = _preview(session, wanted.body)
        if fit.get("kind") == "never":
            raise ClientError(f"The training is refused: {one_line(fit.get('text'))}", "", REFUSED)
        return code.send()


def _preview(session: Session, wanted: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """Whether it fits, and the manifests."""
    try:
        seen = session.rest.post("jobs/preview/", wanted)
    except ClientError as error:
        raise _named_by_flags(error) from None
    fit = seen.get("fit") if isinstance(seen, dict) else None
    if not isinstance(fit, dict):
        raise ClientError("The portal did not say whether it fits.")
    return fit, str(seen.get("manifests", ""))


def _dry_run(session: Session, wanted: body.SubmitRequest) -> int:
    """What a submit would do. Nothing is sent: code that the portal lacks is left out."""
    is_without_code = False
    if wanted.path is not None:
        from .upload import Code

        with Code(session, wanted.path) as code:
            known = code.find()
            if known is not None:
                wanted.body["source"] = {"bundle": known}
            else:
                is_without_code = True
                session.terminal.tell(
                    f"{size_text(code.size_bytes)} of code would be sent. A dry run sends nothing, "
                    "so the manifests are without it.",
                    "dim",
                )
    fit, manifests = _preview(session, wanted.body)
    if session.output.is_data:
        answer = {"fit": fit, "body": wanted.body, "manifests": manifests}
        session.output.data({**answer, "code_is_left_out": is_without_code})
    else:
        session.terminal.write(sanitize(manifests).rstrip("\n"))
        colour = {"now": "green", "later": "yellow", "never": "red"}.get(str(fit.get("kind")), "")
        session.terminal.tell(one_line(fit.get("text", "")), colour)
    return REFUSED if fit.get("kind") == "never" else OK


def _post(session: Session, wanted: dict[str, Any]) -> dict[str, Any]:
    try:
        job = session.rest.post("jobs/", wanted)
    except UnreachableError as error:
        if error.may_have_happened:
            error.next_step = (
                "It is not known whether the training was submitted. "
                f"Look before you try again: homeport list --name {str(wanted.get('name'))!r}"
            )
        raise
    except ClientError as error:
        raise _named_by_flags(error) from None
    if not isinstance(job, dict) or not job.get("id"):
        raise ClientError("The portal did not say what became of it.", "Look: homeport list")
    return job


def _named_by_flags(error: ClientError) -> ClientError:
    if not error.refusals or error.code != REFUSED:
        return error
    error.text = f"The training is refused:\n{body.in_flags(error.refusals)}"
    return error


def _tell(session: Session, job: dict[str, Any], *, stays: bool) -> None:
    """Says what was submitted."""
    terminal, output = session.terminal, session.output
    if output.form == "name":
        terminal.write(one_line(job["id"]))
    elif output.is_data and not stays:
        output.data(job)
    else:
        page = f"{session.rest.url}/trainings/{one_line(job['id'])}/"
        terminal.tell(f"Submitted {one_line(job.get('name', ''))} ({short_id(job)}): {page}")
        if not stays:
            terminal.tell(f"Watch it: homeport logs -f {short_id(job)}", "dim")


def _stay(session: Session, job: dict[str, Any], *, follows: bool) -> int:
    """Until the training has ended; its own exit code."""
    from .watching import code_of, tell_end, wait_for_end

    terminal, identity = session.terminal, short_id(job)
    if follows:
        from .follow import Follower, follow

        names = replica_names(job)
        writer = LineWriter(terminal, names, has_prefixes=len(names) != 1)
        follow(session, Follower(session, str(job["id"]), writer))
    try:
        ended = wait_for_end(session.rest, str(job["id"]), terminal)
    except KeyboardInterrupt:
        terminal.tell(
            f"\nNot waiting any more; the training goes on. Look: homeport get {identity}; "
            f"stop it: homeport stop {identity}"
        )
        raise
    tell_end(ended, terminal)
    if session.output.is_data:
        session.output.data(ended)
    return code_of(ended)
