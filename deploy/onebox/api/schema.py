"""The shapes of all kinds, made from the definitions in `schemas/kubernetes.json`."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from deploy.onebox.api.resources import Obj, Resource
from deploy.onebox.api.shape import (
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

_SPECIAL: dict[str, Callable[[], Shape]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": Amount,
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": Shape,
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime": lambda: Moment(micro=True),
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time": lambda: Moment(micro=False),
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": WholeOrText,
}


class Shapes:
    """All definitions, as shapes."""

    def __init__(self, definitions: dict[str, Any]) -> None:
        self.definitions = definitions
        self._shapes: dict[str, Shape] = {name: make() for name, make in _SPECIAL.items()}

    def named(self, name: str) -> Shape:
        """Give the shape of a definition, for example "io.k8s.api.core.v1.Pod"."""
        shape = self._shapes.get(name)
        if shape is None:
            definition = self.definitions[name]
            record = Record(name)
            self._shapes[name] = shape = record  # before its fields: definitions may be recursive
            record.required = frozenset(definition.get("required", ()))
            record.fields = {
                key: self._shape(value) for key, value in definition.get("properties", {}).items()
            }
        return shape

    def _shape(self, schema: dict[str, Any]) -> Shape:
        for wrapped in schema.get("allOf", ()):
            return self._shape(wrapped)
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
                )
            case "object" if "additionalProperties" in schema:
                return Mapping(self._shape(schema["additionalProperties"]))
        return ANYTHING


@lru_cache(maxsize=1)
def shapes() -> Shapes:
    """Load the definitions, once."""
    return Shapes(json.loads(DEFINITIONS_FILE.read_text()))


_PACKAGES = {
    "": "core",
    "apps": "apps",
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
