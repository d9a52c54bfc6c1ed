"""Merging an applied configuration into an object, and checking it first. Pure."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from onebox.api.managed.typed import ABSENT, TypedError, element_of, is_leaf
from onebox.api.shape import (
    Amount,
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


def merge(live: Any, config: Any, shape: Shape) -> Any:
    """Give `live` with the fields of `config` set; ABSENT when nothing is left.

    Neither is changed; the result shares parts with both.
    """
    if live is ABSENT or config is ABSENT:
        return live if config is ABSENT else config
    if is_leaf(shape) or (not live and not config):
        return config
    if isinstance(shape, Items):
        return _merge_items(live or [], config or [], shape) or ABSENT
    live, config = live or {}, config or {}
    result = {}
    for key in (*live, *(key for key in config if key not in live)):
        merged = merge(live.get(key, ABSENT), config.get(key, ABSENT), shape.child(key))
        if merged is not ABSENT:
            result[key] = merged
    return result or ABSENT


def _merge_items(live: list[Any], config: list[Any], shape: Items) -> list[Any]:
    """Merge two lists: items of the live one keep their places around those that both have.

    The order of the configuration wins for what it names; what only the live list has stays
    before the next item that both name.
    """
    names = [element_of(shape, item) for item in live]
    wanted = {element_of(shape, item): item for item in config}
    doubles = {name for name, count in Counter(names).items() if count > 1}
    have = {name: None if name in doubles else item for name, item in zip(names, live, strict=True)}
    queue = list(wanted)
    shared = [name for name in queue if name in have]
    merged: list[Any] = []
    done: set[str] = set()

    def take(name: str) -> None:
        done.add(name)
        _append(merged, merge(have.get(name, ABSENT), wanted[name], shape.item))

    left = right = 0
    while left < len(names) or right < len(queue):
        if left < len(names) and right < len(queue):
            name = names[left]
            if name == queue[right]:
                take(name)
                left, right = left + 1, right + 1
                shared = shared[1:]
                continue
            if name in wanted and shared and shared[0] != name:
                left += 1  # both have it, but its turn comes later
                continue
        if left < len(names):
            name = names[left]
            if name not in wanted:
                _append(merged, merge(live[left], ABSENT, shape.item))
                left += 1
                continue
            if name in done:
                left += 1
        if right < len(queue):
            name = queue[right]
            take(name)
            right += 1
            if shared and shared[0] == name:
                shared = shared[1:]
    return merged


def _append(items: list[Any], item: Any) -> None:
    if item is not ABSENT:
        items.append(item)


def check(config: Any, shape: Shape, path: str = "") -> list[str]:
    """Say what in a configuration does not fit its shape; each sentence starts with the path."""
    if config is None:
        return []
    match shape:
        case Items():
            return _check_items(config, shape, path)
        case Record() | Mapping():
            return _check_map(config, shape, path)
    wrong = _wrong_scalar(config, shape)
    return [f"{path}: {wrong}"] if wrong else []


def _check_items(config: Any, shape: Items, path: str) -> list[str]:
    if not isinstance(config, list):
        return [f"{path}: expected list, got {_show(config)}"]
    wrong: list[str] = []
    seen: set[str] = set()
    for i, item in enumerate(config):
        step = f"[{i}]"
        if not shape.is_atomic:
            try:
                element = element_of(shape, item)
            except TypedError as error:
                return [*wrong, f"{path}: element {i}: {error}"]
            step = _step(element)
            if element in seen:
                wrong.append(f"{path}: duplicate entries for key {step}")
            seen.add(element)
        wrong.extend(check(item, shape.item, path + step))
    return wrong


def _step(element: str) -> str:
    value = json.loads(element[2:])
    if element.startswith("v:"):
        return f"[={json.dumps(value)}]"
    return "[" + ",".join(f"{key}={json.dumps(item)}" for key, item in value.items()) + "]"


def _check_map(config: Any, shape: Record | Mapping, path: str) -> list[str]:
    if not isinstance(config, dict):
        return [f"{path}: expected map, got {_show(config)}"]
    wrong: list[str] = []
    for key, item in config.items():
        if isinstance(shape, Record) and key not in shape.fields:
            wrong.append(f"{path}.{key}: field not declared in schema")
            break  # as upstream, which stops at the first
        wrong.extend(check(item, shape.child(key), f"{path}.{key}"))
    return wrong


def _wrong_scalar(value: Any, shape: Shape) -> str:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match shape:
        case Truth():
            return "" if isinstance(value, bool) else f"expected boolean, got {_show(value)}"
        case Whole():
            return "" if is_number else f"expected numeric (int or float), got {_go_type(value)}"
        case Amount() | Moment() | WholeOrText():
            if isinstance(value, str | bool) or is_number:
                return ""
            return f"expected any scalar, got {_show(value)}"
        case Text():
            if isinstance(value, str):
                return ""
            return f"expected string, got &value.valueUnstructured{{Value:{_go_syntax(value)}}}"
    return ""


def _go_type(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    return "[]interface {}" if isinstance(value, list) else "map[string]interface {}"


def _go_syntax(value: Any) -> str:
    """Give a value as Go's %#v writes it."""
    if isinstance(value, dict):
        inner = ", ".join(f"{json.dumps(key)}:{_go_syntax(value[key])}" for key in sorted(value))
        return f"map[string]interface {{}}{{{inner}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_go_syntax, value))}}}"
    return json.dumps(value)


def _show(value: Any) -> str:
    return f"&{{{_go(value)}}}"


def _go(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return "map[" + " ".join(f"{key}:{_go(value[key])}" for key in sorted(value)) + "]"
    if isinstance(value, list):
        return "[" + " ".join(_go(item) for item in value) + "]"
    return str(value)
