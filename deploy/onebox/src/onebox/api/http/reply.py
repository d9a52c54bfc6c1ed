"""Replies: JSON in the form that the client wants, warnings, failures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from onebox.api.resources import Obj
from onebox.api.status import StatusError, not_acceptable
from onebox.api.tables import TableStyle

JSON_TYPE = "application/json"
MAX_WARNING_CHARS = 1_000
_JSON_TYPES = ("application/json", "application/*", "*/*")

encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Form:
    """How a client wants objects.

    Attributes:
        kind: "object", "table" or "partial" (metadata only).
        style: of a table.
    """

    kind: str = "object"
    style: TableStyle = field(default_factory=TableStyle)


def _media_ranges(accept: str) -> list[tuple[str, dict[str, str]]]:
    ranges = []
    for part in accept.split(",")[:64]:
        media, *parameters = (piece.strip() for piece in part.split(";"))
        values = dict(p.partition("=")[::2] for p in parameters if "=" in p)
        ranges.append((media.lower(), values))
    return ranges


def choose_form(accept: str, include: str) -> Form:
    """Choose the first form that the client accepts and onebox writes.

    Raises:
        StatusError: 406, there is none.
    """
    if not accept:
        return Form()
    for media, values in _media_ranges(accept):
        if media not in _JSON_TYPES:
            continue
        wanted = values.get("as", "")
        if not wanted:
            return Form()
        version = values.get("v", "v1")
        if values.get("g") != "meta.k8s.io" or version not in ("v1", "v1beta1"):
            continue
        if wanted == "Table":
            return Form("table", TableStyle(version, include or "Metadata"))
        if wanted.startswith("PartialObjectMetadata"):
            return Form("partial", TableStyle(version))
    raise not_acceptable()


def accepted_parameter(accept: str, group: str) -> str:
    """Give the version that a client accepts of documents of a group, "" for none."""
    for media, values in _media_ranges(accept):
        if media in _JSON_TYPES:
            return values.get("v", "") if values.get("g") == group else ""
    return ""


def json_reply(body: Any, status: int = 200, warnings: Sequence[str] = ()) -> web.Response:
    """Reply with a value as JSON."""
    return raw_reply(encode(body), status, warnings)


def raw_reply(body: bytes, status: int = 200, warnings: Sequence[str] = ()) -> web.Response:
    """Reply with encoded JSON."""
    response = web.Response(body=body, status=status, content_type=JSON_TYPE)
    for text in dict.fromkeys(warnings):
        response.headers.add("Warning", warning_value(text))
    return response


def warning_value(text: str) -> str:
    """Give the value of a Warning header: code 299, no agent, the text quoted."""
    printable = "".join(c if c.isprintable() and c.isascii() else " " for c in text)
    short = printable[:MAX_WARNING_CHARS].replace("\\", "\\\\").replace('"', '\\"')
    return f'299 - "{short}"'


def failure(error: StatusError) -> web.Response:
    """Reply with a refusal."""
    response = json_reply(error.body(), error.code)
    if error.code == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    return response


def success_status(details: Obj) -> Obj:
    """Give the Status of a write that has nothing else to say."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    }
