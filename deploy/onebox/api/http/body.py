"""Request bodies: bounded, JSON or protobuf, with a clear word about everything else."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from deploy.onebox.api import protobuf
from deploy.onebox.api.resources import Resource
from deploy.onebox.api.status import bad_request, too_large, unsupported_media_type

MAX_BODY_BYTES = 3 * 1024 * 1024
"""As upstream's limit of a request."""

JSON = "application/json"
PATCH_KINDS = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
_UNREADABLE = "the body of the request was in an unknown format - accepted media types include: "
_decode = msgspec.json.Decoder().decode


async def read_bytes(request: web.Request) -> bytes:
    """Read the body.

    Raises:
        StatusError: 413.
    """
    if (request.content_length or 0) > MAX_BODY_BYTES:
        raise too_large(MAX_BODY_BYTES)
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge as error:
        raise too_large(MAX_BODY_BYTES) from error


async def read_object(request: web.Request, resource: Resource) -> Any:
    """Read an object of a kind, as JSON or as protobuf.

    Raises:
        StatusError: 400, 413, 415.
    """
    if request.content_type != protobuf.MEDIA_TYPE:
        return await read_json(request)
    content = await read_bytes(request)
    try:
        return protobuf.read_object(resource, content)
    except protobuf.WireError as error:
        raise bad_request(f"the body is no protobuf of a {resource.kind}: {error}") from error


async def read_json(request: web.Request) -> Any:
    """Read a JSON body; None when there is none.

    Raises:
        StatusError: 400, 413, 415.
    """
    content = await read_bytes(request)
    if not content:
        return None
    if request.content_type not in (JSON, "application/octet-stream", "text/plain"):
        raise unsupported_media_type(_explain(request.content_type))
    return decode(content)


def _explain(content_type: str) -> str:
    hint = ""
    if "protobuf" in content_type:
        hint = ". onebox reads protobuf only of whole objects in a create or an update"
    elif "yaml" in content_type:
        hint = ". Send the object as JSON (kubectl does so for -f FILE)"
    return f"{_UNREADABLE}{JSON}{hint}"


def decode(content: bytes) -> Any:
    """Read JSON.

    Raises:
        StatusError: 400.
    """
    try:
        return _decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"the body is no JSON: {error}") from error


def patch_kind(request: web.Request) -> str:
    """Give the kind of patch that the content type announces.

    Raises:
        StatusError: 415.
    """
    kind = PATCH_KINDS.get(request.content_type)
    if kind is None:
        raise unsupported_media_type(_UNREADABLE + ", ".join(PATCH_KINDS))
    return kind
