"""Strategic merge patch: lists merge by key, and directives steer it.

Understands $patch (replace, delete), $retainKeys, $setElementOrder/FIELD and
$deleteFromPrimitiveList/FIELD, as
https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/util/strategicpatch/patch.go does.
Which lists merge, and by which key, comes from the kind's shape.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Any, cast

from onebox.api.shape import Items, Shape
from onebox.api.status import StatusError, bad_request

_PATCH = "$patch"
_RETAIN_KEYS = "$retainKeys"
_ORDER = "$setElementOrder/"
_DELETE_FROM = "$deleteFromPrimitiveList/"


def merge(original: dict[str, Any], patch: dict[str, Any], shape: Shape) -> dict[str, Any]:
    """Give `original` changed by `patch`; neither is changed.

    Raises:
        StatusError: 400, the patch misuses a directive or omits a merge key.
    """
    if _PATCH in patch:
        return _replace_or_delete(patch)
    result = dict(original)
    _retain_keys(result, patch)
    for key, value in patch.items():
        if key == _RETAIN_KEYS or key.startswith(_ORDER):
            continue
        if key.startswith(_DELETE_FROM):
            _delete_primitives(result, key.removeprefix(_DELETE_FROM), value)
        elif value is None:
            result.pop(key, None)
        else:
            kept, merged = _merge_value(result.get(key), value, shape.child(key))
            if kept:
                result[key] = merged
            else:
                result.pop(key, None)
    for key, value in patch.items():
        if key.startswith(_ORDER):
            name = key.removeprefix(_ORDER)
            _set_order(result, original.get(name), name, value, shape.child(name))
    return result


def _merge_value(old: Any, new: Any, shape: Shape) -> tuple[bool, Any]:
    if isinstance(old, dict) and isinstance(new, dict):
        return True, merge(old, new, shape)
    if (
        isinstance(old, list)
        and isinstance(new, list)
        and isinstance(shape, Items)
        and shape.merges
    ):
        return True, _merge_list(old, new, shape)
    return _without_directives(new)


def _replace_or_delete(patch: dict[str, Any]) -> dict[str, Any]:
    directive = patch[_PATCH]
    if directive == "replace":
        return {key: value for key, value in patch.items() if key != _PATCH}
    if directive == "delete":
        return {}
    raise StatusError(500, "", f"unknown patch type: {directive} in map: map[$patch:{directive}]")


def _retain_keys(result: dict[str, Any], patch: dict[str, Any]) -> None:
    if _RETAIN_KEYS not in patch:
        return
    retained = patch[_RETAIN_KEYS]
    if not isinstance(retained, list) or any(
        key not in retained
        for key, value in patch.items()
        if value is not None and not key.startswith("$")
    ):
        raise bad_request(
            f"invalid patch format of retainKeys: {retained!r} has to list every key of the patch"
        )
    for key in [key for key in result if key not in retained]:
        del result[key]


def _delete_primitives(result: dict[str, Any], key: str, values: Any) -> None:
    if not isinstance(values, list):
        raise bad_request(f"invalid patch format of {_DELETE_FROM}{key}: it has to be a list")
    if isinstance(result.get(key), list):
        result[key] = [item for item in result[key] if item not in values]


def _without_directives(value: Any) -> tuple[bool, Any]:
    """Give (keep it, the value as it is stored) for a value that has nothing to merge with."""
    if isinstance(value, dict):
        if _PATCH in value:
            return False, None
        cleaned = {}
        for key, item in value.items():
            kept, new = _without_directives(item)
            if kept and item is not None and not key.startswith("$"):
                cleaned[key] = new
        return True, cleaned
    if isinstance(value, list):
        return True, [new for kept, new in map(_without_directives, value) if kept]
    return True, value


def _key_of(item: Any, merge_key: str) -> Hashable:
    key = item
    if merge_key:
        if not isinstance(item, dict) or merge_key not in item:
            raise bad_request(f"map: {item!r} does not contain declared merge key: {merge_key}")
        key = item[merge_key]
    if isinstance(key, dict | list):
        raise bad_request("the patch holds an object where the kind has a plain value")
    return cast("Hashable", key)


def _merge_list(old: list[Any], new: list[Any], shape: Items) -> list[Any]:
    merge_key = shape.merge_key
    if not merge_key:
        return list(dict.fromkeys([*old, *(_key_of(item, "") for item in new)]))
    merged, patch = _special_items(old, new, merge_key)
    places = {item.get(merge_key): i for i, item in enumerate(merged)}
    for item in patch:
        key = _key_of(item, merge_key)
        if key in places:
            merged[places[key]] = merge(merged[places[key]], item, shape.item)
        else:
            _kept, clean = _without_directives(item)
            places[key] = len(merged)
            merged.append(clean)
    order = [_key_of(item, merge_key) for item in patch]
    return _ordered(merged, order, [item.get(merge_key) for item in old], merge_key)


def _special_items(old: list[Any], new: list[Any], merge_key: str) -> tuple[list[Any], list[Any]]:
    """Carry out the items that are directives; give the list to merge into, and what to merge."""
    gone: set[Hashable] = set()
    patch, replaces = [], False
    for item in new:
        if not isinstance(item, dict) or _PATCH not in item:
            patch.append(item)
        elif item[_PATCH] == "delete":
            gone.add(_key_of(item, merge_key))
        elif item[_PATCH] == "replace":
            replaces = True
        else:
            raise bad_request(f"unknown patch type: {item[_PATCH]!r} in a list")
    kept = [] if replaces else [have for have in old if have.get(merge_key) not in gone]
    return kept, patch


def _set_order(result: dict[str, Any], before: Any, name: str, order: Any, shape: Shape) -> None:
    items = result.get(name)
    if not isinstance(order, list) or not isinstance(items, list | None):
        raise bad_request(f"invalid patch format of {_ORDER}{name}: it has to be a list")
    if not items or not isinstance(shape, Items):
        return
    merge_key = shape.merge_key
    wanted = [_key_of(item, merge_key) for item in order]
    live = [_key_of(item, merge_key) for item in before or []]
    result[name] = _ordered(items, wanted, live, merge_key)


def _ordered(
    items: list[Any], wanted: list[Hashable], live: list[Hashable], merge_key: str
) -> list[Any]:
    """Sort what the patch names as it wants, and weave in the rest where it stood."""

    def key(item: Any) -> Hashable:
        return cast("Hashable", item.get(merge_key) if merge_key else item)

    rank = {name: i for i, name in reversed(list(enumerate(wanted)))}
    place = {name: i for i, name in reversed(list(enumerate(live)))}
    named = deque(sorted((i for i in items if key(i) in rank), key=lambda i: rank[key(i)]))
    others = deque(item for item in items if key(item) not in rank)
    woven: list[Any] = []
    while named and others:
        left, right = place.get(key(others[0])), place.get(key(named[0]))
        is_before = left is not None and right is not None and left < right
        woven.append((others if is_before else named).popleft())
    return [*woven, *others, *named]
