"""The ways in which a field can be wrong, worded as upstream words them.

https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/util/validation/field/errors.go
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from onebox.api.status import Cause, quote

IMMUTABLE = "field is immutable"
NEGATIVE = "must be greater than or equal to 0"
NOT_POSITIVE = "must be greater than zero"


def _show(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    return msgspec.json.encode(value).decode()


def invalid(path: str, value: Any, detail: str) -> Cause:
    """Refuse a malformed value."""
    return Cause("FieldValueInvalid", path, f"Invalid value: {_show(value)}: {detail}")


def each_invalid(path: str, value: Any, messages: Iterable[str]) -> list[Cause]:
    """Refuse a value once for each message."""
    return [invalid(path, value, message) for message in messages]


def required(path: str, detail: str = "") -> Cause:
    """Refuse that a value is missing."""
    return Cause(
        "FieldValueRequired", path, f"Required value: {detail}" if detail else "Required value"
    )


def forbidden(path: str, detail: str) -> Cause:
    """Refuse a value that would be fine elsewhere."""
    return Cause("FieldValueForbidden", path, f"Forbidden: {detail}")


def duplicate(path: str, value: Any) -> Cause:
    """Refuse a value that is there twice."""
    return Cause("FieldValueDuplicate", path, f"Duplicate value: {_show(value)}")


def not_found(path: str, value: Any) -> Cause:
    """Refuse a reference to something that is not in the object."""
    return Cause("FieldValueNotFound", path, f"Not found: {_show(value)}")


def not_supported(path: str, value: Any, supported: Sequence[str]) -> Cause:
    """Refuse a word that is not in the list."""
    words = ", ".join(quote(word) for word in supported)
    text = f"Unsupported value: {_show(value)}: supported values: {words}"
    return Cause("FieldValueNotSupported", path, text)


def too_long(path: str, limit: int) -> Cause:
    """Refuse a value above a length."""
    return Cause("FieldValueTooLong", path, f"Too long: may not be more than {limit} bytes")


def one_of(path: str, value: Any, supported: Sequence[str]) -> list[Cause]:
    """Check a word against the list; absent counts as missing."""
    if not value:
        return [required(path)]
    return [] if value in supported else [not_supported(path, value, supported)]


def non_negative(path: str, value: int | None) -> list[Cause]:
    """Check that a number, when given, is not below zero."""
    return [invalid(path, value, NEGATIVE)] if value is not None and value < 0 else []


def in_range(path: str, value: int | None, low: int, high: int) -> list[Cause]:
    """Check that a number, when given, lies within bounds."""
    if value is None or low <= value <= high:
        return []
    return [invalid(path, value, f"must be between {low} and {high}, inclusive")]


def immutable(path: str, new: Any, old: Any) -> list[Cause]:
    """Check that a value has not changed."""
    return [] if new == old else [invalid(path, new, IMMUTABLE)]
