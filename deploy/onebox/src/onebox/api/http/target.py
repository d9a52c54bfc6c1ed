"""Paths: which object or list a URL names. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import unquote

from onebox.api.resources import BY_PATH, Resource, group_versions


@dataclass(frozen=True, slots=True)
class Target:
    """What a URL names.

    Attributes:
        namespace: "" for kinds without one, and for lists over all namespaces.
        name: "" for a list.
        subresource: "" for the object itself.
    """

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def split_path(raw_path: str) -> list[str]:
    """Split an encoded path into decoded segments; a %2F inside a name stays inside it."""
    return [unquote(part) for part in raw_path.strip("/").split("/")]


def serves_group(segments: list[str]) -> bool:
    """Tell whether a path lies below a group and version that are served."""
    match segments:
        case ["api", version, *_rest]:
            return ("", version) in group_versions()
        case ["apis", group, version, *_rest]:
            return (group, version) in group_versions()
    return False


def find_target(segments: list[str]) -> Target | None:
    """Find what a path below /api or /apis names; None when nothing is served there."""
    match segments:
        case ["api", version, *rest]:
            group = ""
        case ["apis", group, version, *rest]:
            pass
        case _:
            return None
    match rest:
        case ["namespaces", namespace, plural, *more] if (group, version, plural) in BY_PATH:
            resource = BY_PATH[group, version, plural]
            return _target(resource, namespace, more) if resource.namespaced else None
        case ["namespaces", namespace, "bindings"] if not group:
            return Target(BY_PATH["", version, "pods"], namespace, "", "binding")
        case [plural, *more] if (group, version, plural) in BY_PATH:
            resource = BY_PATH[group, version, plural]
            if resource.namespaced and more:
                return None
            return _target(resource, "", more)
    return None


def _target(resource: Resource, namespace: str, rest: list[str]) -> Target | None:
    match rest:
        case []:
            return Target(resource, namespace)
        case [name] if name:
            return Target(resource, namespace, name)
        case [name, subresource] if name and subresource in resource.subresources:
            return Target(resource, namespace, name, subresource)
    return None
