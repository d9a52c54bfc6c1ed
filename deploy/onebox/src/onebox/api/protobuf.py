"""Objects and DeleteOptions in Kubernetes' protobuf form, as typed Go clients (`kubectl`) send them.

Only reading: replies are JSON, which those clients accept. The numbers of the fields are in
`schemas/wire.json`, their types are those of the kind's shape.
https://kubernetes.io/docs/reference/using-api/api-concepts/#protobuf-encoding
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

from onebox.api.resources import Obj, Resource
from onebox.api.schema import definition_name, shape_of
from onebox.api.shape import (
    Amount,
    Bytes,
    Items,
    Mapping,
    Moment,
    Record,
    Shape,
    Text,
    Truth,
    Whole,
    WholeOrText,
)
from onebox.api.timestamps import format_micro_time

MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
MAGIC = b"k8s\x00"

_TABLE_FILE = Path(__file__).with_name("schemas") / "wire.json"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_SECONDS = 250_000_000_000  # before the year 9999, the last that a datetime can hold

_Value = int | bytes


class WireError(ValueError):
    """The bytes are no object of the kind; the message says where they stop making sense."""


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[int, str]]:
    raw = json.loads(_TABLE_FILE.read_text())
    return {name: {int(n): field for n, field in fields.items()} for name, fields in raw.items()}


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise WireError("a number is cut off or longer than 64 bits")
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, _Value]]:
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        number, kind = tag >> 3, tag & 7
        value: _Value
        if kind == _VARINT:
            value, at = _varint(data, at)
        else:
            if kind == _BYTES:
                size, at = _varint(data, at)
            elif kind in (_FIXED32, _FIXED64):
                size = 4 if kind == _FIXED32 else 8
            else:
                raise WireError(f"field {number} has the unknown wire type {kind}")
            if at + size > len(data):
                raise WireError(f"field {number} is cut off")
            value = data[at : at + size]
            at += size
        yield number, value


def _as_bytes(value: _Value) -> bytes:
    if isinstance(value, int):
        raise WireError("a number stands where a text or an object belongs")
    return value


def _as_int(value: _Value) -> int:
    if not isinstance(value, int):
        raise WireError("a text or an object stands where a number belongs")
    return value - (1 << 64) if value >= 1 << 63 else value


def _as_text(value: _Value) -> str:
    try:
        return _as_bytes(value).decode()
    except UnicodeDecodeError as error:
        raise WireError("a text is not UTF-8") from error


def _simple(value: _Value) -> dict[int, _Value]:
    return dict(_fields(_as_bytes(value)))


def _moment(value: _Value) -> str | None:
    parts = _simple(value)
    seconds, nanos = _as_int(parts.get(1, 0)), _as_int(parts.get(2, 0))
    if not parts or abs(seconds) > _MAX_SECONDS:
        return None  # Go's zero time is written without any field
    return format_micro_time(_EPOCH + timedelta(seconds=seconds, microseconds=nanos // 1000))


def _whole_or_text(value: _Value) -> int | str:
    parts = _simple(value)
    return _as_text(parts.get(3, b"")) if parts.get(1) else _as_int(parts.get(2, 0))


def _read(shape: Shape, value: _Value) -> Any:
    match shape:
        case Bytes():
            return base64.b64encode(_as_bytes(value)).decode()
        case Text():
            return _as_text(value)
        case Truth():
            return bool(_as_int(value))
        case Whole():
            return _as_int(value)
        case Amount():
            return _as_text(_simple(value).get(1, b"0"))
        case Moment():
            return _moment(value)
        case WholeOrText():
            return _whole_or_text(value)
        case Record():
            return _read_record(shape, shape.definition, _as_bytes(value))
    return None


def _read_record(shape: Record, definition: str, data: bytes) -> Obj:
    names = _table().get(definition, {})
    result: Obj = {}
    for number, value in _fields(data):
        name = names.get(number, "")
        if name.startswith(">"):
            # A struct that Go embeds: its fields are fields of this object.
            result.update(_read_record(shape, name[1:], _as_bytes(value)))
            continue
        is_pointer = name.startswith("*")
        name = name.removeprefix("*")
        field = shape.fields.get(name)
        if field is None:
            continue
        if isinstance(field, Items):
            result.setdefault(name, []).append(_read(field.item, value))
        elif isinstance(field, Mapping):
            entry = _simple(value)
            key = _as_text(entry.get(1, b""))
            result.setdefault(name, {})[key] = _read(field.value, entry.get(2, b""))
        else:
            read = _read(field, value)
            # Go writes zeros too; they mean "not set" unless the field is a pointer.
            if is_pointer or read not in (None, "", 0, {}):
                result[name] = read
    return result


def _open(content: bytes) -> tuple[Obj, bytes]:
    """Give apiVersion and kind, where they are told, and the object itself."""
    if not content.startswith(MAGIC):
        raise WireError("the body does not begin as Kubernetes protobuf does")
    envelope = _simple(content[len(MAGIC) :])
    meta = _simple(envelope.get(1, b""))
    told = {"apiVersion": _as_text(meta.get(1, b"")), "kind": _as_text(meta.get(2, b""))}
    return told if meta else {}, _as_bytes(envelope.get(2, b""))


def read_delete_options(content: bytes) -> Obj:
    """Read DeleteOptions, which typed Go clients send with each delete.

    Raises:
        WireError: the bytes are none.
    """
    told, data = _open(content)
    result: Obj = {**told}
    for number, value in _fields(data):
        match number:
            case 1:
                result["gracePeriodSeconds"] = _as_int(value)
            case 2:
                parts = _simple(value)
                named = {"uid": parts.get(1), "resourceVersion": parts.get(2)}
                held = {key: _as_text(text) for key, text in named.items() if text is not None}
                result["preconditions"] = held
            case 3:
                result["orphanDependents"] = bool(_as_int(value))
            case 4:
                result["propagationPolicy"] = _as_text(value)
            case 5:
                result.setdefault("dryRun", []).append(_as_text(value))
    return result


def read_object(resource: Resource, content: bytes) -> Obj:
    """Read an object.

    Raises:
        WireError: the bytes are none.
    """
    told, data = _open(content)
    shape = shape_of(resource)
    if not isinstance(shape, Record):
        raise WireError(f"{resource.kind} is no object")
    try:
        obj = _read_record(shape, definition_name(resource), data)
    except RecursionError as error:
        raise WireError("the object is nested too deeply") from error
    return {**told, **obj}
