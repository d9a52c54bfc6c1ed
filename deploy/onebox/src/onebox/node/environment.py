"""The environment variables of a container, resolved exactly as the kubelet does. Pure.

Rule: pkg/kubelet/kubelet_pods.go makeEnvironmentVariables. `envFrom` first, then `env` in
order, where a value may refer to what was defined before it and to service variables.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from onebox.node.client import Json
from onebox.node.downward import DownwardError, PodView, field_text, resource_text
from onebox.node.expansion import expand

Reference = tuple[str, str]
"""("configmaps" | "secrets", name), always in the pod's own namespace."""


class ConfigError(Exception):
    """A container's configuration cannot be resolved now; the message is the waiting message."""


@dataclass(frozen=True)
class EnvironmentSources:
    """Where values come from.

    Args:
        objects: configmaps and secrets that were found; absent ones are simply missing here.
        service_variables: from `servicelinks`.
        defaults: the image's variables, which anything else overrides and no reference sees.
        overrides: variables that the node imposes (GPU indices).
    """

    view: PodView
    objects: Mapping[Reference, Json]
    service_variables: Mapping[str, str]
    defaults: Mapping[str, str]
    overrides: Mapping[str, str]


def referenced_objects(container: Json) -> set[Reference]:
    """Name the configmaps and secrets that the container's environment needs."""
    found: set[Reference] = set()
    for source in container.get("envFrom") or []:
        if "configMapRef" in source:
            found.add(("configmaps", source["configMapRef"]["name"]))
        if "secretRef" in source:
            found.add(("secrets", source["secretRef"]["name"]))
    for variable in container.get("env") or []:
        origin = variable.get("valueFrom") or {}
        if "configMapKeyRef" in origin:
            found.add(("configmaps", origin["configMapKeyRef"]["name"]))
        if "secretKeyRef" in origin:
            found.add(("secrets", origin["secretKeyRef"]["name"]))
    return found


def container_environment(container: Json, sources: EnvironmentSources) -> dict[str, str]:
    """Resolve all variables of a container.

    Raises:
        ConfigError: a configmap, secret or key that is not optional is missing.
    """
    defined = dict(_env_from(container, sources))
    for variable in container.get("env") or []:
        name = variable["name"]
        if variable.get("value"):
            known = {**sources.service_variables, **defined}
            defined[name] = expand(variable["value"], known)
        elif variable.get("valueFrom"):
            text = _value_from(variable["valueFrom"], container, sources)
            if text is not None:
                defined[name] = text
        else:
            defined[name] = ""
    return {
        **sources.defaults,
        **sources.service_variables,
        **defined,
        **sources.overrides,
    }


def _env_from(container: Json, sources: EnvironmentSources) -> Iterator[tuple[str, str]]:
    for source in container.get("envFrom") or []:
        prefix = source.get("prefix") or ""
        kind = "configmaps" if "configMapRef" in source else "secrets"
        ref = source.get("configMapRef") or source.get("secretRef") or {}
        found = sources.objects.get((kind, ref.get("name", "")))
        if found is None:
            if ref.get("optional"):
                continue
            raise ConfigError(f'{_word(kind)} "{ref.get("name")}" not found')
        for key, text in object_texts(kind, found).items():
            name = prefix + key
            if is_variable_name(name):
                yield name, text


def _value_from(origin: Json, container: Json, sources: EnvironmentSources) -> str | None:
    """Give the text, or None when an optional source is missing."""
    try:
        if "fieldRef" in origin:
            return field_text(sources.view, origin["fieldRef"]["fieldPath"])
        if "resourceFieldRef" in origin:
            return resource_text(sources.view, origin["resourceFieldRef"], container)
    except DownwardError as error:
        raise ConfigError(str(error)) from error
    kind = "configmaps" if "configMapKeyRef" in origin else "secrets"
    ref = origin.get("configMapKeyRef") or origin.get("secretKeyRef") or {}
    found = sources.objects.get((kind, ref.get("name", "")))
    if found is None:
        if ref.get("optional"):
            return None
        raise ConfigError(f'{_word(kind)} "{ref.get("name")}" not found')
    texts = object_texts(kind, found)
    if ref["key"] in texts:
        return texts[ref["key"]]
    if ref.get("optional"):
        return None
    namespace = sources.view.pod["metadata"]["namespace"]
    label = "ConfigMap" if kind == "configmaps" else "Secret"
    raise ConfigError(f"couldn't find key {ref['key']} in {label} {namespace}/{ref['name']}")


def object_texts(kind: str, obj: Json) -> dict[str, str]:
    """Give a configmap's or secret's entries as text, for variables."""
    return {key: data.decode(errors="replace") for key, data in object_bytes(kind, obj).items()}


def object_bytes(kind: str, obj: Json) -> dict[str, bytes]:
    """Give a configmap's (data and binaryData) or secret's entries as bytes, for files."""
    if kind == "secrets":
        return {key: _decode(value) for key, value in (obj.get("data") or {}).items()}
    plain = {key: value.encode() for key, value in (obj.get("data") or {}).items()}
    binary = {key: _decode(value) for key, value in (obj.get("binaryData") or {}).items()}
    return {**plain, **binary}


def _decode(value: str) -> bytes:
    try:
        return base64.b64decode(value or "", validate=False)
    except binascii.Error:
        return b""


def _word(kind: str) -> str:
    return kind.removesuffix("s")


def is_variable_name(name: str) -> bool:
    """Tell whether a key can be a variable: printable ASCII without "=".

    https://kubernetes.io/docs/tasks/inject-data-application/define-environment-variable-container/
    """
    return bool(name) and all(32 <= ord(letter) <= 126 and letter != "=" for letter in name)
