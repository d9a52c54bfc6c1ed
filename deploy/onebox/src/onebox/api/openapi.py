"""OpenAPI version 3, which kubectl 1.27 and newer reads.

It is for `explain`, and for `apply` (does PATCH know fieldValidation and dryRun?). Version 2 for
older ones is in `openapi_v2`.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import Any

import msgspec

from onebox.api.discovery import GIT_VERSION
from onebox.api.openapi_v2 import GVK
from onebox.api.resources import SERVED, Obj, Resource, group_versions
from onebox.api.schema import definition_name, shapes

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
    if resource.is_review:
        return {
            f"{root}/{resource.plural}": {"post": _operation(resource, "post", _WRITE_PARAMETERS)}
        }
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
