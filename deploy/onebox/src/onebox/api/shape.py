"""Shapes of JSON values: read what a client sent as upstream's typed decoder would.

Unknown fields are dropped and named, nulls vanish, empty lists and maps that are not required
vanish, quantities and times get their canonical form, and a value of the wrong type is an error
with upstream's sentence. The tree of shapes also tells strategic merge patches how lists merge.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from typing import Any

from onebox.api.golang import base64_error
from onebox.api.resources import Obj
from onebox.api.timestamps import format_micro_time, format_time, parse_time
from onebox.quantity import QuantityError, canonical

_INT_LIMIT = {"int32": 1 << 31, "int64": 1 << 63}
_INDEX = re.compile(r"\[\d+\]")
# Go reads a MicroTime only with all of its six digits.
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d.*")
_SECONDS_LENGTH = len("2006-01-02T15:04:05")
_PLAIN_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


class ShapeError(ValueError):
    """A value has a type that its field cannot hold; the message is upstream's."""


class MismatchError(ShapeError):
    """A JSON value of the wrong type.

    Attributes:
        owner: name of the record that has the field, set by the innermost one.
    """

    def __init__(self, found: str, path: str, go_type: str) -> None:
        super().__init__(found, path, go_type)
        self.owner = ""
        self._found = found
        self._path = _INDEX.sub("", path)
        self._go_type = go_type

    def __str__(self) -> str:
        """Give the sentence of Go's decoder."""
        if not self._path:
            return f"json: cannot unmarshal {self._found} into Go value of type {self._go_type}"
        return (
            f"json: cannot unmarshal {self._found} into Go struct field "
            f"{self.owner}.{self._path} of type {self._go_type}"
        )


class Reading:
    """What is found while one object is read: the fields that the kind does not have."""

    __slots__ = ("unknown",)

    def __init__(self) -> None:
        self.unknown: list[str] = []


class Shape:
    """The shape of one value; this base takes anything."""

    go_type = "interface {}"

    def empty(self) -> Any:
        """Give what a null inside a list or a map stands for: Go's zero value."""
        return None

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        """Give the value in canonical form.

        Raises:
            ShapeError: the value has another type.
        """
        return value

    def child(self, key: str) -> Shape:
        """Give the shape of a field or of a map's values."""
        return ANYTHING


ANYTHING = Shape()


_JSON_NAMES: tuple[tuple[type, str], ...] = ((str, "string"), (list, "array"), (dict, "object"))


def _wrong(value: Any, path: str, go_type: str) -> MismatchError:
    if isinstance(value, bool):
        found = "bool"
    elif isinstance(value, int | float):
        short = value if abs(value) < 1e30 else "beyond all bounds"
        found = f"number {short}" if go_type.startswith("int") else "number"
    else:
        found = next((name for type_, name in _JSON_NAMES if isinstance(value, type_)), "null")
    return MismatchError(found, path, go_type)


class Text(Shape):
    """A string."""

    go_type = "string"

    def empty(self) -> Any:
        """Give the zero value."""
        return ""

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        """Take a string."""
        if not isinstance(value, str):
            raise _wrong(value, path, self.go_type)
        return value


class Bytes(Text):
    """A string of base64; upstream writes it back in the standard alphabet, padded."""

    go_type = "[]uint8"

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        """Take base64 text."""
        text = super().read(value, path, reading)
        try:
            return base64.b64encode(base64.b64decode(text, validate=True)).decode()
        except (binascii.Error, ValueError) as error:
            raise ShapeError(base64_error(text)) from error


class Truth(Shape):
    """A boolean."""

    go_type = "bool"

    def empty(self) -> Any:
        """Give the zero value."""
        return False

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        """Take true or false."""
        if not isinstance(value, bool):
            raise _wrong(value, path, self.go_type)
        return value


class Whole(Shape):
    """An integer of 32 or 64 bits."""

    def __init__(self, width: str) -> None:
        self.go_type = width
        self._limit = _INT_LIMIT[width]

    def empty(self) -> Any:
        """Give the zero value."""
        return 0

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        """Take an integer within the width."""
        fits = isinstance(value, int) and not isinstance(value, bool)
        if not fits or not -self._limit <= value < self._limit:
            raise _wrong(value, path, self.go_type)
        return value


class Amount(Shape):
    """A quantity."""

    go_type = "resource.Quantity"

    def empty(self) -> Any:
        """Give the zero value."""
        return "0"

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        """Take a quantity as string or number and give its canonical form."""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise _wrong(value, path, self.go_type)
        try:
            return canonical(value)
        except QuantityError as error:
            raise ShapeError(str(error)) from error


class Moment(Shape):
    """A metav1.Time or MicroTime."""

    def __init__(self, *, micro: bool) -> None:
        self.go_type = "v1.MicroTime" if micro else "v1.Time"
        self._micro = micro

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        """Take an RFC 3339 time and give it in UTC."""
        if not isinstance(value, str):
            raise _wrong(value, path, self.go_type)
        if not self._micro and _PLAIN_TIME.fullmatch(value):
            return value
        if self._micro and not _MICRO_TIME.fullmatch(value) and _SECONDS.fullmatch(value):
            rest = value[_SECONDS_LENGTH:]
            raise ShapeError(
                f'parsing time {json.dumps(value)} as "2006-01-02T15:04:05.000000Z07:00": '
                f'cannot parse {json.dumps(rest)} as ".000000"'
            )
        try:
            moment = parse_time(value)
        except ValueError as error:
            raise ShapeError(
                f'parsing time {json.dumps(value)} in {path} as "2006-01-02T15:04:05Z07:00": '
                "cannot parse"
            ) from error
        return format_micro_time(moment) if self._micro else format_time(moment)


class WholeOrText(Shape):
    """A port or a percentage: integer or string."""

    go_type = "intstr.IntOrString"

    def empty(self) -> Any:
        """Give the zero value."""
        return 0

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        """Take an int32 or a string."""
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise _wrong(value, path, self.go_type)
        if isinstance(value, int) and not -(1 << 31) <= value < 1 << 31:
            raise _wrong(value, path, "int32")
        return value


class Items(Shape):
    """A list.

    Attributes:
        merge_key: field by which a strategic merge patch finds items; "" for plain values.
        merges: a strategic merge patch merges this list instead of replacing it.
        is_atomic: a server-side apply owns this list as a whole, not item by item.
        keys: fields by which a server-side apply tells items apart; none for plain values.
    """

    def __init__(
        self,
        item: Shape,
        *,
        merges: bool,
        merge_key: str,
        is_atomic: bool = True,
        keys: tuple[str, ...] = (),
    ) -> None:
        self.item = item
        self.merges = merges
        self.merge_key = merge_key
        self.is_atomic = is_atomic
        self.keys = keys
        self.go_type = f"[]{item.go_type}"

    def empty(self) -> Any:
        """Give the zero value."""
        return []

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        """Take a list and read each item."""
        if not isinstance(value, list):
            raise _wrong(value, path, self.go_type)
        return [
            self.item.empty() if item is None else self.item.read(item, f"{path}[{i}]", reading)
            for i, item in enumerate(value)
        ]


class Mapping(Shape):
    """A map from strings to values of one shape.

    Attributes:
        is_atomic: a server-side apply owns this map as a whole, not key by key.
    """

    def __init__(self, value: Shape, *, is_atomic: bool = False) -> None:
        self.value = value
        self.is_atomic = is_atomic
        self.go_type = f"map[string]{value.go_type}"

    def empty(self) -> Any:
        """Give the zero value."""
        return {}

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        """Take a map and read each value."""
        if not isinstance(value, dict):
            raise _wrong(value, path, self.go_type)
        # Go names the map, not the key.
        return {key: self._item(item, path, reading) for key, item in value.items()}

    def _item(self, item: Any, path: str, reading: Reading) -> Any:
        return self.value.empty() if item is None else self.value.read(item, path, reading)

    def child(self, key: str) -> Shape:
        """Give the shape of the values."""
        return self.value


class Record(Shape):
    """An object with named fields.

    Attributes:
        defaults: plain values that fields have when they are left out.
        zeros: what Go writes of fields that are not set but cannot be left out.
        vanishing: fields that Go leaves out when they are "", 0 or false.
        is_atomic: a server-side apply owns this object as a whole, not field by field.
    """

    def __init__(self, definition: str, *, is_atomic: bool = False) -> None:
        self.definition = definition
        self.is_atomic = is_atomic
        self.defaults: dict[str, Any] = {}
        self.zeros: dict[str, Any] = {}
        self.vanishing: frozenset[str] = frozenset()
        self.name = definition.rsplit(".", 1)[-1]
        self.go_type = f"v1.{self.name}"
        self.fields: dict[str, Shape] = {}
        self.required: frozenset[str] = frozenset()

    def empty(self) -> Any:
        """Give the zero value."""
        return {}

    def read(self, value: Any, path: str, reading: Reading) -> Any:
        """Take an object and read each field that the kind has."""
        if not isinstance(value, dict):
            raise _wrong(value, path, self.go_type)
        result: Obj = {}
        for key, item in value.items():
            shape = self.fields.get(key)
            if shape is None:
                reading.unknown.append(f"{path}.{key}" if path else key)
                continue
            if item is None:
                continue
            try:
                read = shape.read(item, f"{path}.{key}" if path else key, reading)
            except MismatchError as error:
                error.owner = error.owner or self.name
                raise
            if read or (
                key not in self.vanishing
                and (key in self.required or not isinstance(shape, Items | Mapping))
            ):
                result[key] = read
        for key, zero in self.zeros.items():
            if key not in result:
                result[key] = {} if zero == {} else zero
        return result

    def child(self, key: str) -> Shape:
        """Give the shape of a field."""
        return self.fields.get(key, ANYTHING)
