"""Label and field selectors as they come in a query string.

https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#api
"""

from __future__ import annotations

import re
from collections.abc import Callable

from deploy.onebox.api.resources import Obj
from deploy.onebox.api.rules import names
from deploy.onebox.api.status import bad_request

Selector = Callable[[Obj], bool]

MAX_LENGTH = 16_384
"""Longer selectors are refused: nobody writes them, and each costs a scan of every object."""

_SET_TERM = re.compile(r"\s*(\S+)\s+(in|notin)\s*\(([^()]*)\)\s*")
_SPLIT = re.compile(r",(?![^(]*\))")
_EQUALITY = re.compile(r"\s*([^\s=!]+)\s*(==|=|!=)\s*(\S*)\s*")
_COMPARISON = re.compile(r"\s*(\S+?)\s*([<>])\s*(-?\d+)\s*")
_EXISTS = re.compile(r"\s*(!?)\s*([^\s=!<>]+)\s*")

_Term = Callable[[dict[str, str]], bool]


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
    terms = [_label_term(part) for part in _SPLIT.split(text)]

    def matches(obj: Obj) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(term(labels) for term in terms)

    return matches


def _check_length(text: str) -> None:
    if len(text) > MAX_LENGTH:
        raise bad_request(f"the selector is longer than {MAX_LENGTH} characters")


def _label_term(part: str) -> _Term:
    if match := _SET_TERM.fullmatch(part):
        values = frozenset(value.strip() for value in match[3].split(","))
        for value in values:
            _check_value(value)
        return _member(_key(match[1]), values, wanted=match[2] == "in")
    if match := _EQUALITY.fullmatch(part):
        _check_value(match[3])
        return _member(_key(match[1]), frozenset({match[3]}), wanted=match[2] != "!=")
    if match := _COMPARISON.fullmatch(part):
        return _compare(_key(match[1]), match[2], int(match[3]))
    if match := _EXISTS.fullmatch(part):
        return _presence(_key(match[2]), wanted=not match[1])
    raise bad_request(f"unable to parse requirement: {part!r} is no label selector")


def _member(key: str, values: frozenset[str], *, wanted: bool) -> _Term:
    # A missing label is in no set, so it satisfies notin and != as upstream has it.
    return lambda labels: (labels.get(key) in values) == wanted


def _presence(key: str, *, wanted: bool) -> _Term:
    return lambda labels: (key in labels) == wanted


def _compare(key: str, operator: str, bound: int) -> _Term:
    def matches(labels: dict[str, str]) -> bool:
        try:
            value = int(labels[key])
        except (KeyError, ValueError):
            return False
        return value > bound if operator == ">" else value < bound

    return matches


def _key(text: str) -> str:
    wrong = names.label_key(text)
    if wrong:
        raise bad_request(f"unable to parse requirement: key: Invalid value: {text!r}: {wrong[0]}")
    return text


def _check_value(text: str) -> None:
    wrong = names.label_value(text)
    if wrong:
        raise bad_request(
            f"unable to parse requirement: values: Invalid value: {text!r}: {wrong[0]}"
        )


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
        raise bad_request(f"invalid selector: {part!r}; write field=value or field!=value")
    name, operator, value = match.groups()
    path = _ALIASES.get((plural, name), name)
    known = name in _COMMON or name in _FIELDS.get(plural, ()) or (plural, name) in _ALIASES
    if not known:
        raise bad_request(f"field label not supported: {name}")
    keys = path.split(".")
    default = "0" if path in _ZERO_BY_DEFAULT else "false" if path in _FALSE_BY_DEFAULT else ""
    wanted = operator != "!="
    return lambda obj: (_text_at(obj, keys, default) == value) == wanted


def _text_at(obj: Obj, keys: list[str], default: str) -> str:
    value: object = obj
    for key in keys:
        if not isinstance(value, dict) or key not in value:
            return default
        value = value[key]
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if value not in (None, "") else default
