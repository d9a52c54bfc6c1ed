"""Request bodies: bounded; JSON, YAML or protobuf, with a clear word about everything else."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import yaml
from aiohttp import web

from onebox.api import golang, protobuf
from onebox.api.resources import Obj, Resource
from onebox.api.status import (
    bad_request,
    too_large,
    unsupported_media_type,
    unsupported_patch,
)

MAX_BODY_BYTES = 3 * 1024 * 1024
"""As upstream's limit of a request."""

MAX_YAML_NODES = 500_000

JSON = "application/json"
YAML = "application/yaml"
_READ = (JSON, YAML, protobuf.MEDIA_TYPE)
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
    """Read an object of a kind, as JSON, YAML or protobuf.

    Raises:
        StatusError: 400, 413, 415.
    """
    content = await read_bytes(request)
    if request.content_type != protobuf.MEDIA_TYPE:
        value = await read_json(request, resource.kind)
        if isinstance(value, dict):
            return value
        if value is None and content:
            return {}  # what says null is an object without anything
        why = golang.not_an_object(value) if content else golang.json_error(content)
        raise bad_request(golang.unrecognised(resource.kind, content, why))
    try:
        return protobuf.read_object(resource, content)
    except protobuf.WireError as error:
        raise bad_request(f"the body is no protobuf of a {resource.kind}: {error}") from error


async def read_delete_options(request: web.Request) -> Any:
    """Read DeleteOptions as JSON, YAML or protobuf; None when there are none.

    Raises:
        StatusError: 400, 413, 415.
    """
    content = await read_bytes(request)
    if request.content_type != protobuf.MEDIA_TYPE or not content:
        return await read_json(request)
    try:
        return protobuf.read_delete_options(content)
    except protobuf.WireError as error:
        raise bad_request(f"the body is no protobuf of DeleteOptions: {error}") from error


async def read_json(request: web.Request, kind: str = "") -> Any:
    """Read a JSON or YAML body; None when there is none.

    Args:
        kind: of the object that is expected.

    Raises:
        StatusError: 400, 413, 415.
    """
    content = await read_bytes(request)
    if not content:
        return None
    if request.content_type == YAML:
        return decode_yaml(content)
    # Without a word about it a body is JSON; aiohttp then calls it application/octet-stream.
    if request.content_type not in (JSON, "application/octet-stream"):
        raise unsupported_media_type(f"{_UNREADABLE}{', '.join(_READ)}")
    return decode(content, kind)


def duplicate_fields(content: bytes) -> tuple[str, ...]:
    """Name the fields that a JSON body has twice, of which only the last counts."""
    twice: dict[int, list[str]] = {}

    def note(pairs: list[tuple[str, Any]]) -> Obj:
        made = dict(pairs)
        if len(made) != len(pairs):
            names = [name for name, _value in pairs]
            twice[id(made)] = sorted({name for name in names if names.count(name) > 1})
            kept.append(made)
        return made

    kept: list[Obj] = []  # so that no id is given out again
    root = json.loads(content, object_pairs_hook=note)
    return tuple(_paths_of(root, "", twice)) if twice else ()


def _paths_of(value: Any, path: str, twice: Mapping[int, list[str]]) -> Iterator[str]:
    if isinstance(value, dict):
        start = f"{path}." if path else ""
        yield from (f"{start}{name}" for name in twice.get(id(value), ()))
        for key, item in value.items():
            yield from _paths_of(item, f"{start}{key}", twice)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from _paths_of(item, f"{path}[{i}]", twice)


def decode(content: bytes, kind: str = "") -> Any:
    """Read JSON.

    Args:
        kind: of the object that is expected.

    Raises:
        StatusError: 400.
    """
    try:
        return _decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        why = golang.json_error(content)
        text = golang.unrecognised(kind, content, why) if kind else why
        raise bad_request(text) from error


class _YamlLoader(yaml.SafeLoader):
    """YAML as Go reads it for Kubernetes: what JSON does not have stays text."""


_YamlLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def decode_yaml(content: bytes) -> Any:
    """Read YAML, of which JSON is a part.

    Raises:
        StatusError: 400.
    """
    try:
        return _decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # not JSON, so the slow way
    try:
        loader = _YamlLoader(content)
        try:
            root = loader.get_single_node()
            if root is not None and _weight(root, {}) > MAX_YAML_NODES:
                raise bad_request("error decoding YAML: document contains excessive aliasing")
            return None if root is None else loader.construct_document(root)
        finally:
            loader.dispose()
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise bad_request(f"error decoding YAML: {error}") from error


def _weight(node: yaml.Node, known: dict[int, int]) -> int:
    """Count the values that a node stands for once every alias is written out."""
    if id(node) in known:
        return known[id(node)]
    known[id(node)] = MAX_YAML_NODES + 1  # until it is counted: it holds itself
    total = 1
    if isinstance(node, yaml.SequenceNode):
        total += sum(_weight(item, known) for item in node.value)
    elif isinstance(node, yaml.MappingNode):
        total += sum(_weight(key, known) + _weight(item, known) for key, item in node.value)
    known[id(node)] = total
    return total


def patch_kind(request: web.Request) -> str:
    """Give the kind of patch that the content type announces.

    Raises:
        StatusError: 415.
    """
    kind = PATCH_KINDS.get(request.content_type)
    if kind is None:
        raise unsupported_patch()
    return kind
