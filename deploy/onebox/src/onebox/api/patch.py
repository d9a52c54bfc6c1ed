"""Patches: JSON merge patch, strategic merge patch and JSON patch."""

from __future__ import annotations

from typing import Any

import jsonpatch
import jsonpointer
import msgspec

from onebox.api import strategic
from onebox.api.golang import json_name
from onebox.api.resources import Obj, Resource
from onebox.api.schema import shape_of
from onebox.api.status import StatusError, bad_request
from onebox.api.store import clone

MAX_JSON_PATCH_OPERATIONS = 10_000
_UNREADABLE = "error decoding patch: json: cannot unmarshal"
_OPERATIONS = "[]handlers.jsonPatchOp"
_MAP = "map[string]interface {}"
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""Both as upstream: https://github.com/kubernetes/apiserver/blob/v0.36.3/pkg/endpoints/handlers."""


def merge(target: Any, changes: Any) -> Any:
    """Apply a JSON merge patch (RFC 7396); `target` is not changed."""
    if not isinstance(changes, dict):
        return changes
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def _json_patch(old: Obj, operations: Any) -> Any:
    if not isinstance(operations, list):
        raise bad_request(
            f"{_UNREADABLE} {json_name(operations)} into Go value of type {_OPERATIONS}"
        )
    if len(operations) > MAX_JSON_PATCH_OPERATIONS:
        raise StatusError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {MAX_JSON_PATCH_OPERATIONS}, "
            f"got {len(operations)}",
        )
    document: Any = clone(old)
    copied_bytes = 0
    try:
        for operation in operations:
            # One by one: a few hundred copies of copies would otherwise fill the memory.
            if isinstance(operation, dict) and operation.get("op") == "copy":
                source = jsonpointer.resolve_pointer(document, str(operation.get("from", "")))
                copied_bytes += len(msgspec.json.encode(source))
                if copied_bytes > MAX_COPIED_BYTES:
                    raise _too_much_copied()
            document = _operate(document, operation)
    except (
        jsonpatch.JsonPatchException,
        jsonpointer.JsonPointerException,
        TypeError,
        KeyError,
    ) as error:
        raise StatusError(
            422,
            "Invalid",
            "the server rejected our request due to an error in our request",
            {},
        ) from error
    return document


def _operate(document: Any, operation: Any) -> Any:
    try:
        return jsonpatch.JsonPatch([operation]).apply(document, in_place=True)
    except jsonpatch.JsonPatchConflict:
        # Upstream's library lets a replacement make the key of an object.
        if not isinstance(operation, dict) or operation.get("op") != "replace":
            raise
        parent, _slash, _key = str(operation.get("path", "")).rpartition("/")
        if not isinstance(jsonpointer.resolve_pointer(document, parent), dict):
            raise
        made = {**operation, "op": "add"}
        return jsonpatch.JsonPatch([made]).apply(document, in_place=True)


def _too_much_copied() -> StatusError:
    text = f"a JSON patch may copy {MAX_COPIED_BYTES} bytes in all"
    return StatusError(413, "RequestEntityTooLarge", text)


def apply(kind: str, resource: Resource, old: Obj, changes: Any) -> Obj:
    """Give `old` as changed by a patch of kind "json", "merge" or "strategic".

    Raises:
        StatusError: 400 for a patch that is none, 422 for one that cannot be applied.
    """
    if kind != "json" and not isinstance(changes, dict):
        where = "error decoding patch: " if kind == "merge" else ""
        text = f"json: cannot unmarshal {json_name(changes)} into Go value of type {_MAP}"
        raise bad_request(f"{where}{text}")
    try:
        if kind == "json":
            result = _json_patch(old, changes)
        elif kind == "merge":
            result = merge(old, changes)
        else:
            result = strategic.merge(old, changes, shape_of(resource))
    except RecursionError as error:
        raise bad_request("the patch is nested too deeply") from error
    if not isinstance(result, dict):
        raise bad_request("the patch does not give an object")
    return result
