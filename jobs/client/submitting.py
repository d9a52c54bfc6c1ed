"""`homeport submit`: packs code, sends it unless the portal has it, and submits the training."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, BinaryIO

from . import body
from .exits import ERROR, OK, REFUSED, ClientError, UnreachableError, UsageError
from .find import short_id
from .following import follow_job
from .harmless import harmless, one_line
from .pack import Selection, pack, select, sha256_of
from .progress import Progress
from .rest import RefusedError, Rest
from .session import Session
from .table import size_text
from .upload import MultipartFile
from .watching import code_of, wait_for_end

BIG_BYTES = 100 * 1024**2  # of code; more is mostly data by mistake
SPOOL_BYTES = 16 * 1024**2


class Code:
    """Local code, ready to be sent: an archive with its SHA-256, as an open file."""

    def __init__(self, file: BinaryIO, name: str, sha256: str, size_bytes: int) -> None:
        self.file = file
        self.name = name
        self.sha256 = sha256
        self.size_bytes = size_bytes


def submit(session: Session) -> int:
    """The command."""
    wanted = body.make(session.options)
    if wanted.path is not None and session.options.list_files:
        return _list_files(session, wanted.path)
    if session.options.list_files:
        raise UsageError("--list-files needs a local folder of code.")
    if session.options.dry_run:
        return _preview(session, wanted)
    if wanted.path is not None:
        wanted.body["source"] = {"bundle": _send(session, wanted.path)}
    job = _post(session, wanted.body)
    return _after(session, job)


def _after(session: Session, job: dict[str, Any]) -> int:
    options, terminal = session.options, session.terminal
    name, identity = one_line(job.get("name", "")), short_id(job)
    if session.output.is_data and not (options.wait or options.follow):
        session.output.data(job)
        return OK
    if session.output.form == "name":
        terminal.write(one_line(job.get("id", "")))
    else:
        terminal.tell(f"Submitted {name} ({identity}): {session.rest.url}/trainings/{job['id']}/")
    if options.follow:
        follow_job(session, job)
    elif not options.wait:
        if session.output.form != "name":
            terminal.tell(f"Watch it: homeport logs -f {identity}", "dim")
        return OK
    try:
        ended = wait_for_end(session.rest, str(job["id"]), terminal)
    except KeyboardInterrupt:
        terminal.tell(
            f"\nNot waiting any more; the training goes on. Look: homeport get {identity}; "
            f"stop it: homeport stop {identity}"
        )
        raise
    if session.output.is_data:
        session.output.data(ended)
    return code_of(ended)


# --- code -----------------------------------------------------------------------------------------


def _list_files(session: Session, path: Path) -> int:
    chosen = select(_folder(path))
    if session.output.is_data:
        rows = [{"path": row.path, "size_bytes": row.size_bytes} for row in chosen.entries]
        session.output.data(rows)
    else:
        for row in chosen.entries:
            session.terminal.write(harmless(row.path))
    _tell_selection(session, chosen)
    return OK


def _folder(path: Path) -> Path:
    if not path.is_dir():
        raise UsageError(f"{path} is no folder.")
    return path


def _tell_selection(session: Session, chosen: Selection) -> None:
    for warning in chosen.warnings[:10]:
        session.terminal.warn(warning)
    if len(chosen.warnings) > 10:
        session.terminal.warn(f"{len(chosen.warnings) - 10} more are not sent")
    ignored = f", {chosen.ignored_count} ignored" if chosen.ignored_count else ""
    session.terminal.tell(
        f"{len(chosen.entries):,} files, {size_text(chosen.size_bytes)}{ignored}", "dim"
    )
    if chosen.size_bytes > BIG_BYTES:
        largest = max(chosen.entries, key=lambda row: row.size_bytes)
        session.terminal.warn(
            f"that is much for code; the largest is {largest.path} "
            f"({size_text(largest.size_bytes)}). Name data in .homeportignore."
        )


def make_code(session: Session, path: Path) -> Code:
    """A folder as an archive; an archive or a single file as it is.

    Raises:
        ClientError: it cannot be read or cannot be sent.
    """
    if path.is_dir():
        chosen = select(path)
        _tell_selection(session, chosen)
        file: BinaryIO = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # type: ignore[assignment]  # noqa: SIM115  lives as long as the code
        with Progress(session.terminal, "packing", chosen.size_bytes) as progress:
            sha256, size_bytes = pack(chosen, file, progress.move)
        file.seek(0)
        name = f"{body.name_of(path)}.tar.gz"
        return Code(file, name, sha256, size_bytes)
    try:
        file = path.open("rb")
        sha256, size_bytes = sha256_of(file)
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.") from error
    return Code(file, path.name, sha256, size_bytes)


def _find_bundle(rest: Rest, sha256: str) -> str | None:
    """The id under which the portal has these bytes already."""
    rows, _count = rest.page("bundles/", {"sha256": sha256, "page_size": 1})
    if rows and rows[0].get("sha256") == sha256 and rows[0].get("id"):
        return str(rows[0]["id"])
    return None


def _send(session: Session, path: Path) -> str:
    """The id of the code at the portal, where it is sent unless it is there."""
    code = make_code(session, path)
    with code.file:
        known = _find_bundle(session.rest, code.sha256)
        if known is not None:
            session.terminal.tell("The portal has this code already.", "dim")
            return known
        with Progress(session.terminal, "sending", code.size_bytes) as progress:
            form = MultipartFile(code.file, code.size_bytes, code.name, progress.move)
            answer = session.rest.open("POST", "bundles/", content=form, headers=form.headers)
            sent = session.rest.read_json(answer)
    if not isinstance(sent, dict) or sent.get("sha256") != code.sha256:
        raise ClientError("The code arrived changed.", "Submit again.", ERROR)
    session.terminal.tell(f"Sent {size_text(code.size_bytes)}.", "dim")
    return str(sent["id"])


# --- the training ---------------------------------------------------------------------------------


def _post(session: Session, wanted: dict[str, Any]) -> dict[str, Any]:
    try:
        job = session.rest.post("jobs/", wanted)
    except UnreachableError as error:
        if error.may_have_happened:
            name = str(wanted.get("name", ""))
            error.next_step = (
                "It is not known whether the training was submitted. "
                f"Look before you try again: homeport list --name {name!r}"
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


def _preview(session: Session, wanted: body.Wanted) -> int:
    """What a submit would do. Nothing is sent: code that the portal lacks is left out."""
    is_without_code = False
    if wanted.path is not None:
        code = make_code(session, wanted.path)
        code.file.close()
        known = _find_bundle(session.rest, code.sha256)
        is_without_code = known is None
        if known is not None:
            wanted.body["source"] = {"bundle": known}
        else:
            session.terminal.tell(
                f"{size_text(code.size_bytes)} of code would be sent; a dry run sends nothing, so "
                "the manifests below are without it.",
                "dim",
            )
    try:
        seen = session.rest.post("jobs/preview/", wanted.body)
    except RefusedError as error:
        raise _named_by_flags(error) from error
    fit = seen.get("fit") if isinstance(seen, dict) else None
    if not isinstance(fit, dict):
        raise ClientError("The portal did not say whether it fits.")
    if session.output.is_data:
        session.output.data({**seen, "code_is_left_out": is_without_code, "body": wanted.body})
    else:
        session.terminal.write(harmless(seen.get("manifests", "")).rstrip("\n"))
        colour = {"now": "green", "later": "yellow", "never": "red"}.get(str(fit.get("kind")), "")
        session.terminal.tell(one_line(fit.get("text", "")), colour)
    return REFUSED if fit.get("kind") == "never" else OK
