"""Keeps the reconciler's notes about a row, a dataclass of its kind, as JSON and reads them again.

Fields may be added: one that is missing in a stored note takes its default, one that is not known
any more is dropped, so that what runs survives an upgrade.
"""

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

N = TypeVar("N", bound="DataclassInstance")


def load(kind: type[N], raw: Mapping[str, Any]) -> N:
    """The notes of a row; an empty mapping is a row that nobody has looked at yet."""
    known: dict[str, Any] = {}
    for item in dataclasses.fields(kind):
        if item.name not in raw:
            continue
        value = raw[item.name]
        if item.type == datetime | None:
            known[item.name] = datetime.fromisoformat(value) if value else None
        else:
            known[item.name] = _frozen(value)
    return kind(**known)


def dump(notes: "DataclassInstance") -> dict[str, Any]:
    """JSON of the notes; what has its default value is left out."""
    plain = type(notes)()
    names = [item.name for item in dataclasses.fields(notes)]
    changed = [name for name in names if getattr(notes, name) != getattr(plain, name)]
    return {name: _json(getattr(notes, name)) for name in changed}


def _frozen(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(value)
    if isinstance(value, dict):
        return {name: _frozen(inner) for name, inner in value.items()}
    return value


def _json(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return {name: _json(inner) for name, inner in value.items()}
    return value
