"""Sets of field paths, in the very form in which managedFields store them (FieldsV1). Pure.

A set is a tree of path elements: `f:NAME` a field, `k:{...}` a list item by its keys, `v:VALUE` a
plain list item. An element is a member when its subtree is empty or holds "."; else it only leads
to members below it. Sets are values: no function changes its arguments, results share parts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Tree = dict[str, Any]
SELF = "."

EMPTY: Tree = {}


def split(node: Tree) -> tuple[bool, Tree]:
    """Give whether an element is a member, and the set below it."""
    if not node:
        return True, EMPTY
    if SELF in node:
        return True, {key: below for key, below in node.items() if key != SELF}
    return False, node


def join(is_member: bool, below: Tree) -> Tree | None:
    """Make an element; None when it is neither a member nor leads to one."""
    if is_member:
        return {SELF: {}, **below} if below else {}
    return below or None


def _put(into: Tree, key: str, node: Tree | None) -> None:
    if node is not None:
        into[key] = node


def union(left: Tree, right: Tree) -> Tree:
    """Give what is in either."""
    if not left or not right:
        return left or right
    result = dict(left)
    for key, node in right.items():
        have = result.get(key)
        if have is None:
            result[key] = node
        elif have != node:
            mine, below = split(have)
            theirs, other = split(node)
            _put(result, key, join(mine or theirs, union(below, other)))
    return result


def intersection(left: Tree, right: Tree) -> Tree:
    """Give what is in both."""
    result: Tree = {}
    for key, node in left.items():
        other = right.get(key)
        if other is None:
            continue
        mine, below = split(node)
        theirs, beside = split(other)
        _put(result, key, join(mine and theirs, intersection(below, beside)))
    return result


def difference(left: Tree, right: Tree, *, deep: bool = False) -> Tree:
    """Give what is in `left` only; `deep`: a member of `right` takes all below it along."""
    if not left or not right:
        return left
    result: Tree = {}
    for key, node in left.items():
        other = right.get(key)
        if other is None:
            result[key] = node
            continue
        mine, below = split(node)
        theirs, beside = split(other)
        if deep and theirs:
            continue
        _put(result, key, join(mine and not theirs, difference(below, beside, deep=deep)))
    return result


def has(tree: Tree, path: tuple[str, ...]) -> bool:
    """Tell whether a path is a member."""
    node = tree
    for element in path:
        found = node.get(element)
        if found is None:
            return False
        node = found
    return split(node)[0]


def paths(tree: Tree, prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Give the members in upstream's order: those of a level before those below them."""
    keys = sorted(tree)
    for key in keys:
        if split(tree[key])[0]:
            yield (*prefix, key)
    for key in keys:
        yield from paths(split(tree[key])[1], (*prefix, key))


def path_set(path: tuple[str, ...]) -> Tree:
    """Give the set that has one path."""
    node: Tree = {}
    for element in reversed(path):
        node = {element: node}
    return node


def show(path: tuple[str, ...]) -> str:
    """Give a path as sentences have it: `.spec.containers[name="main"].image`."""
    return "".join(_show(element) for element in path)


def _show(element: str) -> str:
    kind, _colon, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "k":
        keys = json.loads(rest)
        return "[" + ",".join(f"{key}={_text(value)}" for key, value in keys.items()) + "]"
    return f"[={_text(json.loads(rest))}]"


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def is_well_formed(tree: Any) -> bool:
    """Tell whether a value from outside is such a tree."""
    if not isinstance(tree, dict):
        return False
    return all(
        (key == SELF and below == {}) or (_is_element(key) and is_well_formed(below))
        for key, below in tree.items()
    )


def _is_element(key: str) -> bool:
    kind, colon, rest = key.partition(":")
    if not colon or kind not in ("f", "k", "v", "i"):
        return False
    if kind == "f":
        return True
    try:
        value = json.loads(rest)
    except ValueError:
        return False
    return isinstance(value, dict) if kind == "k" else not isinstance(value, dict | list)
