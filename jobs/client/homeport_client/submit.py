"""`homeport submit`: packs code, sends it unless the portal has it, and submits the training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from . import body
from .code import Code, tell_selection
from .exits import OK, REFUSED, ClientError, UnreachableError, UsageError
from .find import short_id
from .follow import follow_job
from .pack import select
from .refusals import RefusedError
from .sanitize import one_line, sanitize
from .session import Session
from .table import size_text
from .watching import code_of, tell_end, wait_for_end


def submit(session: Session) -> int:
    """The command."""
    wanted = body.make(session.options)
    if session.options.list_files:
        return _list_files(session, wanted.path)
    if session.options.dry_run:
        return _dry_run(session, wanted)
    if wanted.path is not None:
        wanted.body["source"] = {"bundle": _upload(session, wanted)}
    return _after(session, _post(session, wanted.body))


def _list_files(session: Session, path: Path | None) -> int:
    if path is None or not path.is_dir():
        raise UsageError("--list-files needs a folder of code.")
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
    except RefusedError as error:
        raise _named_by_flags(error) from error
    fit = seen.get("fit") if isinstance(seen, dict) else None
    if not isinstance(fit, dict):
        raise ClientError("The portal did not say whether it fits.")
    return fit, str(seen.get("manifests", ""))


def _dry_run(session: Session, wanted: body.SubmitRequest) -> int:
    """What a submit would do. Nothing is sent: code that the portal lacks is left out."""
    is_without_code = False
    if wanted.path is not None:
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
    except RefusedError as error:
        raise _named_by_flags(error) from error
    if not isinstance(job, dict) or not job.get("id"):
        raise ClientError("The portal did not say what became of it.", "Look: homeport list")
    return job


def _named_by_flags(error: RefusedError) -> ClientError:
    if not error.refusals or error.code != REFUSED:
        return error
    return ClientError(
        f"The training is refused:\n{body.in_flags(error.refusals)}", error.next_step, error.code
    )


def _after(session: Session, job: dict[str, Any]) -> int:
    """Says what was submitted, and stays with it when that was asked for."""
    options, terminal, output = session.options, session.terminal, session.output
    identity, stays = short_id(job), options.wait or options.follow
    if output.form == "name":
        terminal.write(one_line(job["id"]))
    elif output.is_data and not stays:
        output.data(job)
    else:
        page = f"{session.rest.url}/trainings/{one_line(job['id'])}/"
        terminal.tell(f"Submitted {one_line(job.get('name', ''))} ({identity}): {page}")
        if not stays:
            terminal.tell(f"Watch it: homeport logs -f {identity}", "dim")
    if not stays:
        return OK
    if options.follow:
        follow_job(session, job)
    try:
        ended = wait_for_end(session.rest, str(job["id"]), terminal)
    except KeyboardInterrupt:
        terminal.tell(
            f"\nNot waiting any more; the training goes on. Look: homeport get {identity}; "
            f"stop it: homeport stop {identity}"
        )
        raise
    tell_end(ended, terminal)
    if output.is_data:
        output.data(ended)
    return code_of(ended)
