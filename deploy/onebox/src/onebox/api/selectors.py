"""Label and field selectors as they come in a query string.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#api
"""

from __future__ import annotations

import re
from collections.abc import Callable

from onebox.api import labelselector
from onebox.api.resources import Obj
from onebox.api.status import bad_request, quote

Selector = Callable[[Obj], bool]

MAX_LENGTH = 16_384
"""Longer selectors are refused: nobody writes them, and each costs a scan of every object."""

_EQUALITY = re.compile(r"\s*([^\s=!]+)\s*(==|=|!=)\s*(\S*)\s*")


def everything(_obj: Obj) -> bool:
    """Select every object."""
    return True


def parse_labels(text: str | None) -> Selector:
    """Read a label selector.

    Raises:
        StatusError: 400, it cannot be read.
    """
    if not text or not text.strip():
        return everything
    _check_length(text)
    try:
        terms = labelselector.parse(text)
    except labelselector.SelectorError as error:
        raise bad_request(str(error)) from error

    def matches(obj: Obj) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(term(labels) for term in terms)

    return matches


def _check_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise bad_request(f"the selector is longer than {MAX_LENGTH} characters")


_COMMON = ("metadata.name", "metadata.namespace")
# The fields that upstream can select by; anything else is refused, as upstream refuses it.
_FIELDS: dict[str, tuple[str, ...]] = {
    "events": (
        "involvedObject.kind",
        "involvedObject.namespace",
        "involvedObject.name",
        "involvedObject.uid",
        "involvedObject.apiVersion",
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
    ),
    "jobs": ("status.successful",),
    "namespaces": ("status.phase",),
    "nodes": ("spec.unschedulable",),
    "pods": (
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    "replicasets": ("status.replicas",),
    "secrets": ("type",),
    "services": ("spec.clusterIP", "spec.type"),
}
_ALIASES = {
    ("events", "source"): "source.component",
    ("jobs", "status.successful"): "status.succeeded",
    ("namespaces", "name"): "metadata.name",
    # The names that events have in events.k8s.io/v1.
    ("events", "regarding.kind"): "involvedObject.kind",
    ("events", "regarding.namespace"): "involvedObject.namespace",
    ("events", "regarding.name"): "involvedObject.name",
    ("events", "regarding.uid"): "involvedObject.uid",
    ("events", "regarding.apiVersion"): "involvedObject.apiVersion",
    ("events", "regarding.resourceVersion"): "involvedObject.resourceVersion",
    ("events", "regarding.fieldPath"): "involvedObject.fieldPath",
    ("events", "reportingController"): "reportingComponent",
}
_FALSE_BY_DEFAULT = frozenset({"spec.hostNetwork", "spec.unschedulable"})
_ZERO_BY_DEFAULT = frozenset({"status.replicas", "status.succeeded"})


def parse_fields(plural: str, text: str | None) -> Selector:
    """Read a field selector for stored objects of a kind.

    Raises:
        StatusError: 400, it cannot be read, or names a field that cannot be selected by.
    """
    if not text or not text.strip():
        return everything
    _check_length(text)
    terms = [_field_term(plural, part) for part in text.split(",") if part.strip()]
    return lambda obj: all(term(obj) for term in terms)


def _field_term(plural: str, part: str) -> Selector:
    match = _EQUALITY.fullmatch(part)
    if match is None:
        raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")
    name, operator, value = match.groups()
    path = _ALIASES.get((plural, name), name)
    known = name in _COMMON or name in _FIELDS.get(plural, ()) or (plural, name) in _ALIASES
    if not known:
        raise bad_request(_unsupported(plural, name))
    keys = path.split(".")
    default = "0" if path in _ZERO_BY_DEFAULT else "false" if path in _FALSE_BY_DEFAULT else ""
    wanted = operator != "!="
    return lambda obj: (_text_at(obj, keys, default) == value) == wanted


def _unsupported(plural: str, name: str) -> str:
    if plural == "jobs":
        return f"field label {quote(name)} not supported for Job"
    if plural == "replicasets":
        return f"field label not supported for appsv1.ReplicaSet: {name}"
    if plural in _FIELDS:
        return f"field label not supported: {name}"
    return (
        f'{quote(name)} is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def _text_at(obj: Obj, keys: list[str], default: str) -> str:
    value: object = obj
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return default
        value = value[key]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value not in (None, "") else default
