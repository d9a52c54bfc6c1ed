"""A training that a file describes, with what its sender says besides: read and checked for REST.

The command line sends the file's text, so that it is read by the rules of the page, and each error has its line.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from jobs.kinds.form import Check
from jobs.kinds.training.document import (
    MAX_FILE_BYTES,
    read_document,
)
from portal.errors import FieldError, Refused

_FOLDER = "source.dir"


@dataclass(frozen=True)
class FieldOverride:
    """A field that the sender says, whatever the text says of it.

    Attributes:
        path: the names on the way to it: `("replicas", "worker", "cpu")`.
    """

    path: tuple[str, ...]
    value: Any

    @property
    def field(self) -> str:
        return ".".join(self.path)


@dataclass(frozen=True)
class AskedTraining:
    """
    Attributes:
        body: of a submit, without the code that is still to be sent.
        folder: the folder of code that the text names, relative to its file; None: none.
        notes: what was not taken as it stands in the text, in sentences.
    """

    body: dict[str, Any]
    folder: str | None
    notes: tuple[str, ...]


def read_asked(
    text: str, changes: Sequence[FieldOverride], check: Check, *, has_code: bool = False
) -> AskedTraining:
    """What a text asks for, with changes.

    Args:
        check: of a body, and of how its values are written; raises Refused.
        has_code: the sender brings code, by which the training is called where nothing else names it.

    Raises:
        Refused: with every error by field and line, five of them at most.
    """
    document = read_document(text, MAX_FILE_BYTES)
    elsewhere = [change.field for change in changes]
    if not document.is_readable:
        raise Refused(document.find_errors())
    body, replaced = document.body, []
    for change in changes:
        if _is_said(body, change.path, change.value):
            replaced.append(change.field)
        body = _with(body, change.path, change.value)
    errors: list[FieldError] = []
    folder = None
    source = body.get("source")
    if isinstance(source, dict) and "dir" in source:
        if set(source) == {"dir"} and isinstance(source["dir"], str) and source["dir"]:
            folder = source["dir"]
        else:
            text_of_error = _("This is a folder's name, beside the file, and stands alone.")
            errors.append(FieldError(_FOLDER, "invalid", text_of_error))
        body = {name: one for name, one in body.items() if name != "source"}
    if body.get("source") in (None, {}):
        body = {name: one for name, one in body.items() if name != "source"}
    is_unnamed = body.get("name") in (None, "")
    stand_in = {"name": "training"} if (folder or has_code) and is_unnamed else {}
    try:
        check({**body, **stand_in}, document.written)
    except Refused as refusal:
        errors.extend(refusal.errors)
    if all_errors := document.find_errors(errors, elsewhere):
        raise Refused(all_errors)
    notes = list(document.notes)
    if replaced:
        note = _("Said otherwise than in the file: %(fields)s.")
        notes.append(note % {"fields": ", ".join(sorted(set(replaced)))})
    return AskedTraining(body, folder, tuple(notes))


def _with(body: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    """The same with a field set; objects on the way are made."""
    name, *rest = path
    inner = body.get(name)
    outer = inner if isinstance(inner, Mapping) else {}
    return {**body, name: _with(outer, rest, value) if rest else value}


def _is_said(body: Mapping[str, Any], path: Sequence[str], value: Any) -> bool:
    """Whether a field, or what it would stand in, has another value."""
    name, *rest = path
    if not rest:
        return bool(body.get(name, value) != value)
    inner = body.get(name)
    return _is_said(inner, rest, value) if isinstance(inner, Mapping) else inner is not None
