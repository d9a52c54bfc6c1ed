"""The shapes of all kinds, made from the definitions in `schemas/kubernetes.json`."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import copy
from functools import lru_cache
from pathlib import Path
from typing import Any

from onebox.api.resources import Obj, Resource
from onebox.api.shape import (
    ANYTHING,
    Amount,
    Bytes,
    Items,
    Mapping,
    Moment,
    Reading,
    Record,
    Shape,
    ShapeError,
    Text,
    Truth,
    Whole,
    WholeOrText,
)

DEFINITIONS_FILE = Path(__file__).with_name("schemas") / "kubernetes.json"
WIRE_FILE = DEFINITIONS_FILE.with_name("wire.json")
"""Definition -> number -> field: "*NAME" for a pointer, ">DEFINITION" for an embedded struct."""

_MAP_TYPE = "x-kubernetes-map-type"

_SPECIAL: dict[str, Callable[[], Shape]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Amount,
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": Shape,
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": lambda: Moment(micro=True),
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": lambda: Moment(micro=False),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": WholeOrText,
}


class Shapes:
    """All definitions, as shapes.

    Args:
        wire: see WIRE_FILE.
    """

    def __init__(
        self, definitions: dict[str, Any], wire: dict[str, dict[str, str]] | None = None
    ) -> None:
        self.definitions = definitions
        self._wire = wire or {}
        self._shapes: dict[str, Shape] = {name: make() for name, make in _SPECIAL.items()}

    def named(self, name: str) -> Shape:
        """Give the shape of a definition, for example "io.k8s.api.core.v1.Pod"."""
        shape = self._shapes.get(name)
        if shape is None:
            definition = self.definitions[name]
            record = Record(name, is_atomic=definition.get(_MAP_TYPE) == "atomic")
            self._shapes[name] = shape = record  # before its fields: definitions may be recursive
            properties = definition.get("properties", {})
            record.required = frozenset(definition.get("required", ()))
            record.defaults = {
                key: value["default"]
                for key, value in properties.items()
                if isinstance(value.get("default"), str | int)
            }
            record.fields = {key: self._shape(value) for key, value in properties.items()}
            self._note_go_types(record)
        return shape

    def _note_go_types(self, record: Record) -> None:
        plain = self._plain_fields(record.definition)
        record.vanishing = frozenset(
            key
            for key in plain - record.required
            if isinstance(record.fields.get(key), Text | Truth | Whole)
        )
        if record.name != "ObjectMeta":  # whose creationTimestamp may be left out
            record.zeros = {k: None for k in plain if isinstance(record.fields.get(k), Moment)}
        if record.name.endswith("Status"):
            structs = [k for k in plain if isinstance(record.fields.get(k), Record)]
            record.zeros |= {key: {} for key in structs}

    def _plain_fields(self, definition: str) -> frozenset[str]:
        """Give the fields that are no pointers in Go, which cannot tell "not set" from zero."""
        found: set[str] = set()
        for name in self._wire.get(definition, {}).values():
            if name.startswith(">"):
                found |= self._plain_fields(name[1:])
            elif not name.startswith("*"):
                found.add(name)
        return frozenset(found)

    def _shape(self, schema: dict[str, Any]) -> Shape:
        for wrapped in schema.get("allOf", ()):
            shape = self._shape(wrapped)
            if schema.get(_MAP_TYPE) == "granular" and isinstance(shape, Record):
                # The field has its own word on how this kind of object is merged.
                shape = copy(shape)
                shape.is_atomic = False
            return shape
        if "$ref" in schema:
            return self.named(schema["$ref"].rsplit("/", 1)[-1])
        match schema.get("type"):
            case "string":
                return Bytes() if schema.get("format") == "byte" else Text()
            case "boolean":
                return Truth()
            case "integer":
                return Whole(schema.get("format", "int64"))
            case "array":
                return Items(
                    self._shape(schema["items"]),
                    merges="merge" in schema.get("x-kubernetes-patch-strategy", ""),
                    merge_key=schema.get("x-kubernetes-patch-merge-key", ""),
                    is_atomic=_is_atomic_list(schema),
                    keys=_list_keys(schema),
                )
            case "object" if "additionalProperties" in schema:
                return Mapping(
                    self._shape(schema["additionalProperties"]),
                    is_atomic=schema.get(_MAP_TYPE) == "atomic",
                )
        return ANYTHING


def _is_atomic_list(schema: dict[str, Any]) -> bool:
    kind = schema.get("x-kubernetes-list-type")
    if kind:
        return bool(kind == "atomic")
    return "merge" not in schema.get("x-kubernetes-patch-strategy", "").split(",")


def _list_keys(schema: dict[str, Any]) -> tuple[str, ...]:
    if schema.get("x-kubernetes-list-type") == "set":
        return ()
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys is None:
        keys = [schema.get("x-kubernetes-patch-merge-key", "")]
    return tuple(sorted(key for key in keys if key))


@lru_cache(maxsize=1)
def shapes() -> Shapes:
    """Load the definitions, once."""
    return Shapes(json.loads(DEFINITIONS_FILE.read_text()), json.loads(WIRE_FILE.read_text()))


_PACKAGES = {
    "": "core",
    "apps": "apps",
    "authentication.k8s.io": "authentication",
    "authorization.k8s.io": "authorization",
    "batch": "batch",
    "coordination.k8s.io": "coordination",
    "discovery.k8s.io": "discovery",
    "events.k8s.io": "events",
    "networking.k8s.io": "networking",
    "rbac.authorization.k8s.io": "rbac",
    "scheduling.k8s.io": "scheduling",
    "storage.k8s.io": "storage",
}


def definition_name(resource: Resource) -> str:
    """Give the name of a kind's definition."""
    return f"io.k8s.api.{_PACKAGES[resource.group]}.{resource.version}.{resource.kind}"


def shape_of(resource: Resource) -> Shape:
    """Give the shape of a kind."""
    return shapes().named(definition_name(resource))


def read(shape: Shape, obj: Any) -> tuple[Obj, list[str]]:
    """Read an object sent by a client; the argument is not changed.

    Returns:
        a fresh object in canonical form, and the paths of the fields that were dropped.

    Raises:
        ShapeError: a value has the wrong type, or the object is nested deeper than any kind.
    """
    reading = Reading()
    try:
        result = shape.read(obj, "", reading)
    except RecursionError as error:
        raise ShapeError("the object is nested too deeply") from error
    return result, reading.unknown
