"""Walks over values along their shape: which fields are there, what differs, what merges. Pure.

The units of ownership are leaves: plain values, and whole lists and maps that are atomic. Lists
of objects with keys, sets of plain values, and other maps are owned part by part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from json.encoder import encode_basestring
from typing import Any

from onebox.api.managed.fieldset import EMPTY, SELF, Tree, join, split
from onebox.api.shape import Items, Mapping, Record, Shape


class _Absent:
    """No value at all, which is something else than null."""

    def __repr__(self) -> str:
        return "absent"


ABSENT = _Absent()
_compact = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class TypedError(ValueError):
    """A value that does not fit its shape; the message has the path."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs between two values, as sets."""

    removed: Tree
    modified: Tree
    added: Tree


def is_leaf(shape: Shape) -> bool:
    """Tell whether values of this shape are owned as a whole."""
    if isinstance(shape, Items | Mapping | Record):
        return shape.is_atomic
    return True


def element_of(shape: Items, item: Any) -> str:
    """Give the path element of a list item.

    Raises:
        TypedError: the item has none.
    """
    if not shape.keys:
        if isinstance(item, dict):
            raise TypedError("associative list without keys has an element that's a map type")
        if isinstance(item, list):
            raise TypedError("not supported: associative list with lists as elements")
        if item is None:
            raise TypedError("associative list without keys has an element that's an explicit null")
        return f"v:{encode_basestring(item) if isinstance(item, str) else _compact(item)}"
    if item is None:
        raise TypedError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise TypedError("associative list with keys may not have non-map elements")
    if len(shape.keys) == 1:
        value = item.get(shape.keys[0])
        if isinstance(value, str):  # nearly always
            return f'k:{{"{shape.keys[0]}":{encode_basestring(value)}}}'
    defaults = shape.item.defaults if isinstance(shape.item, Record) else {}
    keys = {}
    for name in shape.keys:
        if name in item:
            keys[name] = item[name]
        elif name in defaults:
            keys[name] = defaults[name]
    if not keys:
        listed = " ".join(f'"{name}"' for name in shape.keys)
        raise TypedError(
            f"associative list with keys has an element that omits all key fields [{listed}] "
            "(and doesn't have default values for any key fields)"
        )
    return f"k:{_compact(keys)}"


def _index(shape: Items, items: list[Any] | None) -> dict[str, list[Any]]:
    """Group the items of a list by their path element, in order."""
    found: dict[str, list[Any]] = {}
    for item in items or ():
        found.setdefault(element_of(shape, item), []).append(item)
    return found


def _is_declared(shape: Shape, key: str) -> bool:
    return isinstance(shape, Record) and key in shape.fields


# Which fields a value has ------------------------------------------------------------------


def field_set(value: Any, shape: Shape) -> Tree:
    """Give the set of fields that a value has."""
    return _fields(value, shape)[1]


def _fields(value: Any, shape: Shape) -> tuple[bool, Tree]:
    """Give whether the value itself is a member, and the set below it."""
    if is_leaf(shape):
        return True, EMPTY
    below: Tree = {}
    if value is None:
        return False, below
    if isinstance(shape, Items):
        for element, items in _index(shape, value).items():
            # Of items that are there twice, only the fact is owned.
            sub = EMPTY if len(items) > 1 else _fields(items[0], shape.item)[1]
            below[element] = join(True, sub)
        return False, below
    for key, item in value.items():
        is_member, sub = _fields(item, shape.child(key))
        is_member = is_member or item is None or item == {} or not _is_declared(shape, key)
        node = join(is_member, sub)
        if node is not None:
            below[f"f:{key}"] = node
    return False, below


# What differs --------------------------------------------------------------------------------


def compare(old: Any, new: Any, shape: Shape) -> Changes:
    """Give what has to be removed from, changed in and added to `old` to come to `new`."""
    parts = _compare(old, new, shape)
    removed, modified, added = (split(part)[1] if part is not None else EMPTY for part in parts)
    return Changes(removed, modified, added)


_Parts = tuple[Tree | None, Tree | None, Tree | None]
_SAME: _Parts = (None, None, None)


def _compare(old: Any, new: Any, shape: Shape) -> _Parts:
    if old is ABSENT:
        return None, None, _whole(new, shape)
    if new is ABSENT:
        return _whole(old, shape), None, None
    if old == new:
        return _SAME
    if is_leaf(shape) or (not old and not new):
        return None, {}, None
    if isinstance(shape, Items):
        pairs = _item_parts(old, new, shape)
    else:
        pairs = _key_parts(old or {}, new or {}, shape)
    below: tuple[Tree, Tree, Tree] = ({}, {}, {})
    for key, parts in pairs:
        for into, part in zip(below, parts, strict=True):
            if part is not None:
                into[key] = part
    removed, modified, added = (join(False, tree) for tree in below)
    return removed, modified, added


def _key_parts(
    old: dict[str, Any], new: dict[str, Any], shape: Shape
) -> Iterator[tuple[str, _Parts]]:
    for key in old.keys() | new.keys():
        before, after = old.get(key, ABSENT), new.get(key, ABSENT)
        yield f"f:{key}", _compare(before, after, shape.child(key))


def _item_parts(old: Any, new: Any, shape: Items) -> Iterator[tuple[str, _Parts]]:
    before, after = _index(shape, old), _index(shape, new)
    for element in before | after:
        olds, news = before.get(element, []), after.get(element, [])
        if len(olds) <= 1 and len(news) <= 1:
            first, second = [*olds, ABSENT][0], [*news, ABSENT][0]
            yield element, _compare(first, second, shape.item)
        elif len(olds) > 1 and len(news) > 1:
            yield element, _SAME if olds == news else (None, {}, None)
        elif len(olds) > 1:
            yield element, ({}, None, _whole(news[0], shape.item) if news else None)
        else:
            yield element, (_whole(olds[0], shape.item) if olds else None, None, {})


def _whole(value: Any, shape: Shape) -> Tree:
    """Give the element of a value that comes or goes as a whole: each level is a member."""
    if is_leaf(shape) or not value:
        return {}
    below: Tree = {SELF: {}}
    if isinstance(shape, Items):
        for element, items in _index(shape, value).items():
            below[element] = {} if len(items) > 1 else _whole(items[0], shape.item)
    else:
        for key, item in value.items():
            below[f"f:{key}"] = _whole(item, shape.child(key))
    return below


# Taking fields away --------------------------------------------------------------------------


def remove(value: Any, gone: Tree, shape: Shape) -> Any:
    """Give a value without the fields of a set; null where nothing is left of a list or map."""
    if not isinstance(value, list | dict) or not isinstance(shape, Items | Mapping | Record):
        return value
    if shape.is_atomic or not value:
        return None
    if isinstance(shape, Items) and isinstance(value, list):
        kept = []
        for item in value:
            node = gone.get(element_of(shape, item))
            if node is None:
                kept.append(item)
                continue
            is_gone, below = split(node)
            if not is_gone:
                kept.append(remove(item, below, shape.item))
        return kept or None
    left = {}
    for key, item in value.items() if isinstance(value, dict) else ():
        node = gone.get(f"f:{key}")
        if node is None:
            left[key] = item
            continue
        is_gone, below = split(node)
        if not is_gone:
            left[key] = remove(item, below, shape.child(key))
    return left or None


def with_named_fields(tree: Tree, shape: Shape) -> Tree:
    """Give a set that also has the declared fields which only lead to members below them."""
    result: Tree = {}
    for key, node in tree.items():
        is_member, below = split(node)
        name = key[2:] if key.startswith("f:") else None
        child = shape.item if isinstance(shape, Items) else shape.child(name or "")
        if below and name is not None and _is_declared(shape, name):
            is_member = True
        result[key] = join(is_member, with_named_fields(below, child))
    return result
