"""OpenAPI version 2, which kubectl up to 1.26 reads: as JSON and as protobuf.

kubectl takes three things from it: what `explain` shows, what its own validation of manifests
knows, and whether PATCH understands dryRun. So the definitions are complete, the paths have the
operations with their parameters.

Field numbers are those of
https://github.com/google/gnostic-models/blob/v0.7.0/openapiv2/OpenAPIv2.proto
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import msgspec

from onebox.api.discovery import GIT_VERSION
from onebox.api.resources import SERVED, Obj, Resource
from onebox.api.schema import definition_name, shapes

GVK = "x-kubernetes-group-version-kind"
MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_V3_REF = "#/components/schemas/"
_V2_REF = "#/definitions/"
_TITLE = "Kubernetes"
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_VERBS: dict[str, tuple[str, tuple[str, ...]]] = {
    # method -> (x-kubernetes-action, parameters), of one object
    "get": ("get", ()),
    "put": ("put", _WRITE),
    "patch": ("patch", (*_WRITE, "force")),
    "delete": ("delete", ("dryRun", "gracePeriodSeconds", "propagationPolicy")),
}
_LIST_VERBS: dict[str, tuple[str, tuple[str, ...]]] = {
    "get": (
        "list",
        (
            "allowWatchBookmarks",
            "continue",
            "fieldSelector",
            "labelSelector",
            "limit",
            "resourceVersion",
            "resourceVersionMatch",
            "sendInitialEvents",
            "timeoutSeconds",
            "watch",
        ),
    ),
    "post": ("post", _WRITE),
}
_TYPES = {
    "allowWatchBookmarks": "boolean",
    "force": "boolean",
    "gracePeriodSeconds": "integer",
    "limit": "integer",
    "sendInitialEvents": "boolean",
    "timeoutSeconds": "integer",
    "watch": "boolean",
}


def _document() -> Obj:
    paths: Obj = {}
    for resource in SERVED:
        paths.update(_paths(resource))
    definitions = {name: _swagger(body) for name, body in shapes().definitions.items()}
    return {
        "swagger": "2.0",
        "info": {"title": _TITLE, "version": GIT_VERSION},
        "paths": paths,
        "definitions": definitions,
    }


def _swagger(value: Any) -> Any:
    """Give a schema of version 3 as version 2 has it."""
    if isinstance(value, list):
        return [_swagger(item) for item in value]
    if not isinstance(value, dict):
        return value
    wrapped = value.get("allOf")
    if isinstance(wrapped, list) and len(wrapped) == 1 and "$ref" in wrapped[0]:
        value = {**value, **wrapped[0]}
        del value["allOf"]
    if "oneOf" in value:
        # A quantity, or a port by number or name: version 2 knows them as strings.
        value = {**value, "type": "string"}
        del value["oneOf"]
    result: Obj = {}
    for key, item in value.items():
        if key == "properties":
            result[key] = {name: _swagger(schema) for name, schema in item.items()}
        elif key == "$ref":
            result[key] = _V2_REF + item.removeprefix(_V3_REF)
        elif key != "default":
            result[key] = _swagger(item)
    return result


def _paths(resource: Resource) -> Obj:
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    base = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    if resource.is_review:
        return {f"{base}/{resource.plural}": _operations(resource, {"post": _LIST_VERBS["post"]})}
    return {
        f"{base}/{resource.plural}": _operations(resource, _LIST_VERBS),
        f"{base}/{resource.plural}/{{name}}": _operations(resource, _VERBS),
    }


def _operations(resource: Resource, verbs: dict[str, tuple[str, tuple[str, ...]]]) -> Obj:
    return {
        method: {
            "operationId": f"{action}{resource.kind}",
            "parameters": [
                {"name": name, "in": "query", "type": _TYPES.get(name, "string")}
                for name in (*parameters, "pretty")
            ],
            "responses": {
                "200": {
                    "description": "OK",
                    "schema": {"$ref": f"{_V2_REF}{definition_name(resource)}"},
                }
            },
            "x-kubernetes-action": action,
            GVK: {"group": resource.group, "kind": resource.kind, "version": resource.version},
        }
        for method, (action, parameters) in verbs.items()
    }


@lru_cache(maxsize=1)
def document() -> bytes:
    """Give the answer of /openapi/v2 as JSON."""
    return msgspec.json.encode(_document())


@lru_cache(maxsize=1)
def document_protobuf() -> bytes:
    """Give the answer of /openapi/v2 as protobuf: an openapi.v2.Document."""
    body = _document()
    info = _text(1, body["info"]["title"]) + _text(2, body["info"]["version"])
    paths = b"".join(_part(2, _named(n, _path_item(p))) for n, p in body["paths"].items())
    definitions = b"".join(
        _part(1, _named(n, _schema(s))) for n, s in sorted(body["definitions"].items())
    )
    head = _text(1, body["swagger"]) + _part(2, info)
    return head + _part(8, paths) + _part(9, definitions)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _part(number: int, content: bytes) -> bytes:
    """Give one length-delimited field."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _text(number: int, value: str) -> bytes:
    return _part(number, value.encode()) if value else b""


def _texts(number: int, values: Iterable[str]) -> bytes:
    return b"".join(_part(number, value.encode()) for value in values)


def _named(name: str, content: bytes) -> bytes:
    return _text(1, name) + _part(2, content)


def _extensions(number: int, body: Obj) -> bytes:
    """Give the x-... words of a body; their values are YAML, of which JSON is a part."""
    return b"".join(
        _part(number, _named(key, _text(2, msgspec.json.encode(value).decode())))
        for key, value in body.items()
        if key.startswith("x-")
    )


def _schema(body: Obj) -> bytes:
    parts = [
        _text(1, body.get("$ref", "")),
        _text(2, body.get("format", "")),
        _text(4, body.get("description", "")),
        _texts(19, body.get("required", ())),
    ]
    if "additionalProperties" in body:
        parts.append(_part(21, _part(1, _schema(body["additionalProperties"]))))
    if "type" in body:
        parts.append(_part(22, _text(1, body["type"])))
    if "items" in body:
        parts.append(_part(23, _part(1, _schema(body["items"]))))
    if "properties" in body:
        fields = body["properties"].items()
        parts.append(_part(25, b"".join(_part(1, _named(n, _schema(s))) for n, s in fields)))
    parts.append(_extensions(31, body))
    return b"".join(parts)


_METHODS = {"get": 2, "put": 3, "post": 4, "delete": 5, "patch": 8}


def _path_item(body: Obj) -> bytes:
    return b"".join(_part(_METHODS[method], _operation(item)) for method, item in body.items())


def _operation(body: Obj) -> bytes:
    responses = b"".join(
        _part(1, _named(code, _part(1, _text(1, r["description"]) + _reply_schema(r["schema"]))))
        for code, r in body["responses"].items()
    )
    return b"".join(
        [
            _text(5, body["operationId"]),
            *(_part(8, _part(1, _parameter(p))) for p in body["parameters"]),
            _part(9, responses),
            _extensions(13, body),
        ]
    )


def _reply_schema(body: Obj) -> bytes:
    return _part(2, _part(1, _schema(body)))


def _parameter(body: Obj) -> bytes:
    # Parameter.non_body_parameter (2), of it query_parameter_sub_schema (3).
    query = _text(2, body["in"]) + _text(4, body["name"]) + _text(6, body["type"])
    return _part(2, _part(3, query))
