"""Commands about notebooks and TensorBoards: create, list, open, start, stop, delete."""

from __future__ import annotations

import webbrowser
from datetime import datetime, timezone
from typing import Any

from .exits import OK, REFUSED, ClientError
from .find import find_job, find_service, short_id
from .listing import reason_of
from .output import state_colour
from .refusals import RefusedError
from .sanitize import one_line
from .session import Session
from .table import Column, age_text
from .watching import Changes

TITLES = {"notebooks": "notebook", "tensorboards": "TensorBoard"}
COLUMNS = (
    Column("ID"),
    Column("NAME", shrinks_to=12),
    Column("STATE", colour=state_colour),
    Column("AGE", is_right=True),
    Column("OWNER", shrinks_to=6),
    Column("WHY", shrinks_to=12, leaves_at=70),
    Column("IMAGE", is_wide=True),
)
# What will not run by itself any more.
_ENDED = frozenset({"stopped", "failed", "stopping"})


def _address(session: Session, row: dict[str, Any] | None = None, verb: str = "") -> str:
    kind: str = session.options.kind
    path = f"{kind}/"
    if row is not None:
        path += f"{row['id']}/"
    return f"{path}{verb}/" if verb else path


def _shown(session: Session, row: dict[str, Any]) -> str:
    return f"{TITLES[session.options.kind]} {one_line(row.get('name', ''))} ({short_id(row)})"


def create(session: Session) -> int:
    """The command `notebook create` or `tensorboard create`."""
    options, terminal = session.options, session.terminal
    body: dict[str, Any] = {"name": options.name}
    if options.kind == "notebooks":
        for field in ("image", "size", "cpu", "memory", "gpu"):
            if (value := getattr(options, field)) is not None:
                body[field] = value
    elif options.jobs:
        body["jobs"] = [str(find_job(session.rest, word, terminal)["id"]) for word in options.jobs]
    try:
        row = session.rest.post(_address(session), body)
    except RefusedError as error:
        if error.refusals and error.code == REFUSED:
            lines = [f"  {r.field}: {r.text}" if r.field else f"  {r.text}" for r in error.refusals]
            raise ClientError(
                "It is refused:\n" + "\n".join(lines), error.next_step, error.code
            ) from error
        raise
    if options.wait or options.open:
        row = _wait_until_running(session, row)
    if session.output.is_data:
        session.output.data(row)
    elif session.output.form == "name":
        terminal.write(one_line(row.get("id", "")))
    elif not options.open:
        terminal.tell(f"{_shown(session, row)} is {one_line(row.get('state', ''))}.")
        verb = TITLES[options.kind].lower()
        terminal.tell(f"Open it: homeport {verb} open {short_id(row)}", "dim")
    if options.open:
        _open(session, row)
    return OK


def list_services(session: Session) -> int:
    """The command `list`."""
    rows = list(session.rest.every(_address(session)))
    now = datetime.now(timezone.utc)
    title = TITLES[session.options.kind]
    session.output.rows(
        rows,
        COLUMNS,
        lambda row: [
            short_id(row),
            row.get("name", ""),
            row.get("state", ""),
            age_text(row.get("created_at") or row.get("queued_at"), now),
            row.get("owner", ""),
            reason_of(row)[0],
            row.get("image", ""),
        ],
        name=lambda row: one_line(row.get("id", "")),
        empty=f"No {title}s yet. Make one: homeport {title.lower()} create --name NAME",
    )
    return OK


def _found(session: Session) -> dict[str, Any]:
    return find_service(session.rest, session.options.kind, session.options.service)


def start(session: Session) -> int:
    """The command `start`."""
    row = session.rest.post(_address(session, _found(session), "start")) or {}
    return _said(session, row, "Starting")


def stop(session: Session) -> int:
    """The command `stop`."""
    row = session.rest.post(_address(session, _found(session), "stop")) or {}
    return _said(session, row, "Stopping")


def _said(session: Session, row: dict[str, Any], verb: str) -> int:
    if session.output.is_data:
        session.output.data(row)
    elif session.output.form == "name":
        session.terminal.write(one_line(row.get("id", "")))
    else:
        session.terminal.tell(f"{verb} {_shown(session, row)}; what is on /data stays.")
    return OK


def delete(session: Session) -> int:
    """The command `delete`."""
    row = _found(session)
    question = f"Delete {_shown(session, row)}? What is on /data stays."
    if not session.options.yes and not session.terminal.confirm(question):
        session.terminal.tell("Not deleted.")
        return OK
    session.rest.delete(_address(session, row))
    session.terminal.tell(f"Deleted {_shown(session, row)}.")
    return OK


def open_service(session: Session) -> int:
    """The command `open`: a link that is good once and for a minute."""
    row = _found(session)
    if row.get("state") not in _ENDED and row.get("state") != "running":
        row = _wait_until_running(session, row)
    _open(session, row)
    return OK


def _wait_until_running(session: Session, row: dict[str, Any]) -> dict[str, Any]:
    """The service once it runs; tells why it does not yet.

    Raises:
        ClientError: it ended instead.
    """
    told = ""
    with Changes(session.rest) as changes:
        while True:
            row = session.rest.get(_address(session, row))
            state = one_line(row.get("state", ""))
            why, next_step = reason_of(row)
            if state == "running":
                return row
            if state in _ENDED:
                raise ClientError(
                    f"{_shown(session, row)} is {state}. {why}".rstrip(), next_step, REFUSED
                )
            now = f"{state}: {why}" if why else state
            if now != told:
                session.terminal.tell(now, "dim")
                told = now
            changes.wait(str(row["id"]))


def _open(session: Session, row: dict[str, Any]) -> None:
    link = session.rest.post(_address(session, row, "open"))
    url = link.get("url") if isinstance(link, dict) else None
    if not isinstance(url, str) or not url.startswith(("http://", "https://")):
        raise ClientError("The portal gave no address to open.")
    if session.output.is_data:
        session.output.data(link)
        return
    shown = one_line(url).replace(" ", "%20")
    # A browser is opened only where somebody sits in front of it.
    if not session.options.print and session.terminal.is_live(session.terminal.out):
        if webbrowser.open(shown):
            session.terminal.tell(f"Opened {_shown(session, row)} in your browser.")
            return
        session.terminal.tell(
            "No browser could be opened here. The address is good once, for a minute:"
        )
    session.terminal.write(shown)
