"""A training that a file describes: its text goes to the portal, which has the one reader of such files.

A portal from before 0.2.0 has none for texts; for that one `body` reads the file as it always did.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import body
from .body import SubmitRequest
from .exits import ClientError, refused_line_by_line
from .sanitize import one_line
from .session import CliSession

_FEATURE = "document"


def make(
    session: CliSession, options: Mapping[str, Any], command: list[str], refused_text: str
) -> SubmitRequest:
    """The body of what `-f FILE` describes, with what flags say besides.

    Raises:
        ClientError: the file cannot be read, or the portal refuses what it says.
    """
    name = options["file"]
    text, changes = body.read_text(name), body.changes(options, command)
    of_flags = {".".join(path) for path, _value in changes}
    typed = body.name_of_typed(options, command)

    def name_of(field: str) -> str:
        """A field as the file has it, or as the flag that says it."""
        is_flag = any(field == path or field.startswith(f"{path}.") for path in of_flags)
        return typed(field) if is_flag else field

    asked = {
        "text": text,
        "changes": [{"field": list(path), "value": value} for path, value in changes],
        "has_code": bool(options["path"]),
    }
    try:
        with refused_line_by_line(refused_text, name_of):
            answer = session.rest.post("jobs/document/", asked)
    except ClientError as error:
        if error.status == 404 and _FEATURE not in session.rest.features:
            return body.with_changes(body.of_file(name, text), changes, options["path"])
        raise
    found = answer.get("body") if isinstance(answer, dict) else None
    if not isinstance(found, dict):
        from .refusals import not_homeport  # with HTTP, which `submit --help` does without

        raise not_homeport(session.rest.url)
    for note in answer.get("notes") or ():
        session.terminal.tell(one_line(note), "dim")
    folder = answer.get("dir")
    path = body.folder_beside(name, folder) if isinstance(folder, str) else None
    wanted = SubmitRequest(found, Path(options["path"]) if options["path"] else path, name_of)
    if wanted.path is not None and found.get("name") in (None, ""):
        found["name"] = body.name_of(wanted.path)
    return wanted
