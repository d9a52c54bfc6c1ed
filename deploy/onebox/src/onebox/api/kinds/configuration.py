"""ConfigMaps and Secrets.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/apis/core/validation/validation.go
"""

from __future__ import annotations

import base64
import json

from onebox.api.golang import json_error
from onebox.api.resources import Obj
from onebox.api.rules import fields, names
from onebox.api.status import Cause
from onebox.api.strategy import Context, Strategy

MAX_SIZE_BYTES = 1024 * 1024

_DOCKER_CONFIG = ".dockerconfigjson"
_NEEDED_KEYS = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (_DOCKER_CONFIG,),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _check_immutable(new: Obj, old: Obj, *parts: str) -> list[Cause]:
    if not old.get("immutable"):
        return []
    text = "field is immutable when `immutable` is set"
    causes = [fields.forbidden(part, text) for part in parts if new.get(part) != old.get(part)]
    if not new.get("immutable"):
        causes.append(fields.forbidden("immutable", text))
    return causes


class ConfigMapStrategy(Strategy):
    """The rules of ConfigMaps."""

    def validate(self, obj: Obj) -> list[Cause]:
        """Check keys and size."""
        data, binary = obj.get("data", {}), obj.get("binaryData", {})
        causes: list[Cause] = []
        size_bytes = 0
        for part, content in (("data", data), ("binaryData", binary)):
            for key, value in content.items():
                causes.extend(fields.each_invalid(f"{part}[{key}]", key, names.config_key(key)))
                size_bytes += len(value.encode())
        for key in sorted(data.keys() & binary.keys()):
            causes.append(
                fields.invalid(f"data[{key}]", key, "duplicate of key present in binaryData")
            )
        if size_bytes > MAX_SIZE_BYTES:
            causes.append(fields.too_long("", MAX_SIZE_BYTES))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check that an immutable map stays."""
        return _check_immutable(new, old, "data", "binaryData")


def _check_docker_config(encoded: str) -> list[Cause]:
    content = base64.b64decode(encoded)
    try:
        found = json.loads(content)
    except ValueError:
        text = json_error(content)
    else:
        if isinstance(found, dict):
            return []
        text = "must be a JSON object"
    return [fields.invalid(f"data[{_DOCKER_CONFIG}]", "<secret contents redacted>", text)]


class SecretStrategy(Strategy):
    """The rules of Secrets."""

    def defaults(self, obj: Obj) -> None:
        """Encode `stringData` into `data`, which it overrides, and set the type."""
        plain = obj.pop("stringData", None)
        if plain:
            data = obj.setdefault("data", {})
            for key, value in plain.items():
                data[key] = base64.b64encode(value.encode()).decode()
        obj["type"] = obj.get("type") or "Opaque"

    def prepare_update(self, ctx: Context, new: Obj, old: Obj) -> None:
        """Nothing is carried over: what the client sends replaces the data."""

    def validate(self, obj: Obj) -> list[Cause]:
        """Check keys, size, and what the type demands."""
        data = obj.get("data", {})
        causes: list[Cause] = []
        size_bytes = 0
        for key, value in data.items():
            causes.extend(fields.each_invalid(f"data[{key}]", key, names.config_key(key)))
            size_bytes += len(base64.b64decode(value))
        if size_bytes > MAX_SIZE_BYTES:
            causes.append(fields.too_long("data", MAX_SIZE_BYTES))
        kind = obj["type"]
        for key in _NEEDED_KEYS.get(kind, ()):
            if key not in data:
                causes.append(fields.required(f"data[{key}]"))
        if kind == "kubernetes.io/dockerconfigjson" and _DOCKER_CONFIG in data:
            causes.extend(_check_docker_config(data[_DOCKER_CONFIG]))
        if kind == "kubernetes.io/basic-auth" and not data.keys() & {"username", "password"}:
            causes.extend(fields.required(f"data[{key}]") for key in ("username", "password"))
        annotation = "kubernetes.io/service-account.name"
        if kind == "kubernetes.io/service-account-token" and not obj["metadata"].get(
            "annotations", {}
        ).get(annotation):
            causes.append(fields.required(f"metadata.annotations[{annotation}]"))
        return causes

    def validate_update(self, new: Obj, old: Obj) -> list[Cause]:
        """Check that the type stays, and an immutable Secret altogether."""
        return [
            *fields.immutable("type", new["type"], old["type"]),
            *_check_immutable(new, old, "data"),
        ]
