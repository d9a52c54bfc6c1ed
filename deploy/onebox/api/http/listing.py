"""Lists: selectors, pages, and the state of a moment in the past.

A page token names the version of the first page; later pages are served from that same state,
rebuilt from the changes since, so that pages never disagree.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from deploy.onebox.api import events_view, selectors
from deploy.onebox.api.http.options import number
from deploy.onebox.api.http.reply import Form, encode
from deploy.onebox.api.http.target import Target
from deploy.onebox.api.registry import Api
from deploy.onebox.api.resources import EVENTS_VIEW, Obj
from deploy.onebox.api.status import StatusError, bad_request, expired
from deploy.onebox.api.store import ADDED, HistoryGoneError
from deploy.onebox.api.tables import partial, table

_Key = tuple[str, str]

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter."
)


@dataclass(frozen=True, slots=True)
class _Page:
    """Where a page starts, and in which state."""

    version: int
    after: _Key


def _read_token(text: str) -> _Page:
    try:
        parts = msgspec.json.decode(
            base64.urlsafe_b64decode(text.encode()), type=tuple[int, str, str]
        )
    except (msgspec.MsgspecError, binascii.Error, ValueError) as error:
        raise bad_request("continue key is not valid: it was not made by this server") from error
    return _Page(parts[0], parts[1:])


def _write_token(version: int, obj: Obj) -> str:
    meta = obj["metadata"]
    parts = (version, meta.get("namespace", ""), meta["name"])
    return base64.urlsafe_b64encode(encode(parts)).decode()


def _key(obj: Obj) -> _Key:
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def choose(target: Target, query: Mapping[str, str]) -> selectors.Selector:
    """Give the selector of a list, a watch or a deletecollection.

    Raises:
        StatusError: 400.
    """
    plural = target.resource.storage_plural
    by_labels = selectors.parse_labels(query.get("labelSelector"))
    by_fields = selectors.parse_fields(plural, query.get("fieldSelector"))
    if by_labels is selectors.everything and by_fields is selectors.everything:
        return selectors.everything
    return lambda obj: by_labels(obj) and by_fields(obj)


def _state_at(api: Api, target: Target, version: int) -> list[Obj]:
    """Give the objects as they were at a version, in order."""
    plural, namespace = target.resource.storage_plural, target.namespace
    objects = {_key(obj): obj for obj in api.list(plural, namespace or None)}
    if version == api.store.resource_version:
        return list(objects.values())
    try:
        changes = api.store.changes_since(plural, version)
    except HistoryGoneError as error:
        raise expired(_TOO_OLD) from error
    for change in reversed(changes):
        if namespace and change.namespace != namespace:
            continue
        key = (change.namespace, change.name)
        if change.type == ADDED or change.previous is None:
            objects.pop(key, None)
        else:
            objects[key] = change.previous
    return [objects[key] for key in sorted(objects)]


def list_objects(api: Api, target: Target, query: Mapping[str, str]) -> tuple[list[Obj], Obj]:
    """Give the objects of a list and its ListMeta.

    Raises:
        StatusError: 400; 410 for a page token that is too old; 504 for a version still to come.
    """
    selector = choose(target, query)
    limit = number(query, "limit") or 0
    page = _read_token(query["continue"]) if query.get("continue") else None
    version = page.version if page else _version_of(api, query)
    objects = _state_at(api, target, version)
    if page:
        objects = [obj for obj in objects if _key(obj) > page.after]
    if selector is not selectors.everything:
        objects = [obj for obj in objects if selector(obj)]
    meta: Obj = {"resourceVersion": str(version)}
    if 0 < limit < len(objects):
        if selector is selectors.everything:
            meta["remainingItemCount"] = len(objects) - limit
        objects = objects[:limit]
        meta["continue"] = _write_token(version, objects[-1])
    return objects, meta


def _version_of(api: Api, query: Mapping[str, str]) -> int:
    wanted = number(query, "resourceVersion") or 0
    current = api.store.resource_version
    if wanted > current:
        raise StatusError(
            504,
            "Timeout",
            f"Timeout: Too large resource version: {wanted}, current: {current}",
            {
                "causes": [
                    {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
                ]
            },
        )
    return wanted if wanted and query.get("resourceVersionMatch") == "Exact" else current


def list_body(api: Api, target: Target, form: Form, objects: list[Obj], meta: Obj) -> bytes:
    """Encode a list in the form that the client wants."""
    resource = target.resource
    if form.kind == "table":
        plural = resource.storage_plural
        return encode(table(plural, objects, meta, api.clock(), form.style))
    head: Obj
    if form.kind == "partial":
        version = form.style.version
        head = {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{version}"}
        items = [encode(partial(obj, version)) for obj in objects]
    else:
        head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version}
        items = [object_body(api, target, obj) for obj in objects]
    start = encode({**head, "metadata": meta})[:-1]
    return start + b',"items":[' + b",".join(items) + b"]}"


def object_body(api: Api, target: Target, obj: Obj) -> bytes:
    """Encode an object of the stored kind in the kind that was asked for."""
    if target.resource is EVENTS_VIEW:
        return encode(events_view.to_view(obj))
    meta = obj["metadata"]
    namespace, name = meta.get("namespace"), meta["name"]
    stored = api.store.get(target.resource.plural, namespace, name)
    body = api.store.body(target.resource.plural, namespace, name) if stored is obj else None
    return body if body is not None else encode(obj)
