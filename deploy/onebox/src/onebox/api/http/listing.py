"""Lists: selectors, pages, and the state of a moment in the past.

A page token names the version of the first page; later pages are served from that same state,
rebuilt from the changes since, so that pages never disagree.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from onebox.api import events_view, selectors
from onebox.api.golang import json_error
from onebox.api.http.options import check_list_options, number, version
from onebox.api.http.reply import Form, encode
from onebox.api.http.target import Target
from onebox.api.registry import Api
from onebox.api.resources import EVENTS_VIEW, Obj
from onebox.api.status import bad_request, expired, too_large_version
from onebox.api.store import ADDED, HistoryGoneError, type_head
from onebox.api.tables import partial, table

_Key = tuple[str, str]

_TOKEN_VERSION = "meta.k8s.io/v1"
_NOW = -1
"""Version in tokens that go on in the present state instead of that of the first page."""

_LIST_TOO_OLD = "The resourceVersion for the provided list is too old."
_TOKEN_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. "
    "You can start a new list without the continue parameter, or use the continue token in this "
    "response to retrieve the remainder of the results. Continuing with the provided token "
    "results in an inconsistent list - objects that were created, modified, or deleted between "
    "the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class _Page:
    """Where a page starts, and in which state.

    Attributes:
        start: of the text form of a key, see `_key_text`.
    """

    version: int
    start: str


class _Token(msgspec.Struct):
    """A page token, as upstream makes them."""

    v: str = ""
    rv: int = 0
    start: str = ""


def _read_token(text: str) -> _Page:
    wrong = "continue key is not valid"
    try:
        padded = text.encode() + b"=" * (-len(text) % 4)
        content = base64.b64decode(padded, b"-_", validate=True)
        token = msgspec.json.decode(content, type=_Token)
    except msgspec.ValidationError as error:
        raise bad_request(f"invalid continue token: {wrong}: {error}") from error
    except msgspec.DecodeError as error:
        why = json_error(content)
        raise bad_request(f"invalid continue token: {wrong}: {why}") from error
    except ValueError as error:  # no base64, or no text
        raise bad_request(f"invalid continue token: {wrong}: {error}") from error
    if token.v != _TOKEN_VERSION:
        known = f"server does not recognize this encoded version {token.v}"
        raise bad_request(f"invalid continue token: {wrong}: {known}")
    if not token.rv:
        raise bad_request(
            f"invalid continue token: {wrong}: incorrect encoded start resourceVersion "
            f"(version {_TOKEN_VERSION})"
        )
    if not token.start:
        raise bad_request(
            f"invalid continue token: {wrong}: encoded start key empty (version {_TOKEN_VERSION})"
        )
    return _Page(token.rv, token.start)


def _write_token(version: int, start: str) -> str:
    content = encode(_Token(_TOKEN_VERSION, version, start))
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def _key(obj: Obj) -> _Key:
    meta = obj["metadata"]
    return f"{meta.get('namespace', '')}/", meta["name"]


def _key_text(target: Target, obj: Obj) -> str:
    """Give the key by which a list is ordered, without what all of its objects share."""
    namespace, name = _key(obj)
    return name if target.namespace or not target.resource.namespaced else namespace + name


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
    """Give the objects as they were at a version, in order.

    Raises:
        HistoryGoneError: that is too long ago.
    """
    plural, namespace = target.resource.storage_plural, target.namespace
    objects = {_key(obj): obj for obj in api.list(plural, namespace or None)}
    if version == api.store.resource_version:
        return list(objects.values())
    for change in reversed(api.store.changes_since(plural, version)):
        if namespace and change.namespace != namespace:
            continue
        key = (f"{change.namespace}/", change.name)
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
    check_list_options(query, is_watch=False)
    selector = choose(target, query)
    limit = number(query, "limit") or 0
    page = _page_of(query)
    wanted = _version_of(api, query) if page is None else page.version
    current = api.store.resource_version
    at = current if wanted == _NOW else wanted
    try:
        objects = _state_at(api, target, at)
    except HistoryGoneError as error:
        if page is None:
            raise expired(_LIST_TOO_OLD) from error
        raise expired(_TOKEN_TOO_OLD, _write_token(_NOW, page.start)) from error
    if page:
        objects = [obj for obj in objects if _key_text(target, obj) >= page.start]
    if selector is not selectors.everything:
        objects = [obj for obj in objects if selector(obj)]
    meta: Obj = {"resourceVersion": str(at)}
    if 0 < limit < len(objects):
        if selector is selectors.everything:
            meta["remainingItemCount"] = len(objects) - limit
        objects = objects[:limit]
        start = f"{_key_text(target, objects[-1])}\0"
        meta["continue"] = _write_token(at, start)
    return objects, meta


def _page_of(query: Mapping[str, str]) -> _Page | None:
    text = query.get("continue")
    if not text:
        return None
    if version(query):
        raise bad_request("specifying resource version is not allowed when using continue")
    return _read_token(text)


def _version_of(api: Api, query: Mapping[str, str]) -> int:
    wanted = wait_for(api, query)
    return wanted if query.get("resourceVersionMatch") == "Exact" else api.store.resource_version


def wait_for(api: Api, query: Mapping[str, str]) -> int:
    """Check that the version which a reader wants to see has come; gives it, 0 for any.

    Raises:
        StatusError: 400; 504, it is still to come.
    """
    wanted, current = version(query) or 0, api.store.resource_version
    if wanted > current:
        raise too_large_version(wanted, current)
    return wanted


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
        items = [_item_body(api, target, obj) for obj in objects]
    start = encode({**head, "metadata": meta})[:-1]
    return start + b',"items":[' + b",".join(items) + b"]}"


def _item_body(api: Api, target: Target, obj: Obj) -> bytes:
    """Encode an object inside a list, which says once for all of them what they are."""
    if target.resource is EVENTS_VIEW:
        obj = events_view.to_view(obj)
    else:
        body, head = object_body(api, target, obj), type_head(obj)
        if body.startswith(head):
            return b"{" + body[len(head) :]
    return encode({k: v for k, v in obj.items() if k not in ("apiVersion", "kind")})


def object_body(api: Api, target: Target, obj: Obj) -> bytes:
    """Encode an object of the stored kind in the kind that was asked for."""
    if target.resource is EVENTS_VIEW:
        return encode(events_view.to_view(obj))
    meta = obj["metadata"]
    namespace, name = meta.get("namespace"), meta["name"]
    stored = api.store.get(target.resource.plural, namespace, name)
    body = api.store.body(target.resource.plural, namespace, name) if stored is obj else None
    return body if body is not None else encode(obj)
