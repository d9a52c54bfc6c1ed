"""OpenAPI documents: version 3 in full for current clients, version 2 as far as clients need it.

kubectl 1.27 and newer reads version 3: for `explain`, for `apply` (does PATCH know
fieldValidation and dryRun?). Older ones ask for version 2 as protobuf and only need an answer
that can be read; an empty document makes them skip their own validation, which the server does
anyway.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgspec

from deploy.onebox.api.discovery import GIT_VERSION
from deploy.onebox.api.resources import SERVED, Obj, Resource, group_versions
from deploy.onebox.api.schema import definition_name, shapes

GVK = "x-kubernetes-group-version-kind"
PROTOBUF_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"

_REF = "#/components/schemas/"
_WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation", "force", "pretty")
_READ_PARAMETERS = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "pretty",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)


def _root(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


@lru_cache(maxsize=1)
def index() -> bytes:
    """Give the answer of /openapi/v3: where the document of each group is."""
    paths: Obj = {}
    for group, version in group_versions():
        root = _root(group, version)
        digest = hashlib.sha256(document(group, version) or b"").hexdigest()[:32].upper()
        paths[root] = {"serverRelativeURL": f"/openapi/v3/{root}?hash={digest}"}
    return msgspec.json.encode({"paths": paths})


@lru_cache(maxsize=32)
def document(group: str, version: str) -> bytes | None:
    """Give the answer of /openapi/v3/..., None for a group that is not served."""
    served = [r for r in SERVED if (r.group, r.version) == (group, version)]
    if not served:
        return None
    paths: Obj = {}
    for resource in served:
        paths.update(_paths(resource))
    schemas: Obj = {}
    for resource in served:
        _collect(definition_name(resource), schemas)
    body = {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": paths,
        "components": {"schemas": dict(sorted(schemas.items()))},
    }
    return msgspec.json.encode(body)


def _collect(name: str, into: Obj) -> None:
    if name in into:
        return
    definition = shapes().definitions[name]
    into[name] = definition
    for reference in _references(definition):
        _collect(reference, into)


def _references(value: Any) -> set[str]:
    if isinstance(value, dict):
        own = {value["$ref"].removeprefix(_REF)} if isinstance(value.get("$ref"), str) else set()
        return own.union(*(_references(item) for item in value.values()))
    if isinstance(value, list):
        return set().union(*(_references(item) for item in value))
    return set()


def _paths(resource: Resource) -> Obj:
    root = f"/{_root(resource.group, resource.version)}"
    base = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    return {
        f"{base}/{resource.plural}": {
            "get": _operation(resource, "list", _READ_PARAMETERS),
            "post": _operation(resource, "post", _WRITE_PARAMETERS),
        },
        f"{base}/{resource.plural}/{{name}}": {
            "get": _operation(resource, "get", ("pretty",)),
            "put": _operation(resource, "put", _WRITE_PARAMETERS),
            "patch": _operation(resource, "patch", _WRITE_PARAMETERS),
            "delete": _operation(resource, "delete", ("dryRun", "gracePeriodSeconds", "pretty")),
        },
    }


def _operation(resource: Resource, action: str, parameters: tuple[str, ...]) -> Obj:
    schema = {"$ref": f"{_REF}{definition_name(resource)}"}
    return {
        "operationId": f"{action}{resource.kind}",
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in parameters
        ],
        "responses": {
            "200": {"description": "OK", "content": {"application/json": {"schema": schema}}}
        },
        "x-kubernetes-action": action,
        GVK: {"group": resource.group, "version": resource.version, "kind": resource.kind},
    }


@lru_cache(maxsize=1)
def document_v2() -> bytes:
    """Give the answer of /openapi/v2 as JSON: the definitions, without paths."""
    definitions = _swagger(shapes().definitions)
    body = {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": GIT_VERSION},
        "paths": {},
        "definitions": definitions,
    }
    return msgspec.json.encode(body)


def _swagger(value: Any) -> Any:
    if isinstance(value, dict):
        wrapped = value.get("allOf")
        if isinstance(wrapped, list) and len(wrapped) == 1 and "$ref" in wrapped[0]:
            value = {**value, **wrapped[0]}
            del value["allOf"]
        return {
            key: f"#/definitions/{item.removeprefix(_REF)}"
            if key == "$ref" and isinstance(item, str)
            else _swagger(item)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_swagger(item) for item in value]
    return value


def _field(number: int, content: bytes) -> bytes:
    # One length-delimited protobuf field; all lengths here fit one byte.
    return bytes([number << 3 | 2, len(content)]) + content


@lru_cache(maxsize=1)
def document_v2_protobuf() -> bytes:
    """Give the answer of /openapi/v2 as protobuf: an openapi.v2.Document without paths.

    Fields by https://github.com/google/gnostic-models/blob/main/openapiv2/OpenAPIv2.proto:
    swagger = 1, info = 2 (title = 1, version = 2), paths = 8.
    """
    info = _field(1, b"Kubernetes") + _field(2, GIT_VERSION.encode())
    return _field(1, b"2.0") + _field(2, info) + _field(8, b"")
