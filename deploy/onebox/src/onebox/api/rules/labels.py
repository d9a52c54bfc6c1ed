"""Rules for labels, annotations and label selectors inside objects."""

from __future__ import annotations

from typing import Any

from onebox.api.rules import fields, names
from onebox.api.status import Cause

ANNOTATIONS_LIMIT_BYTES = 256 * 1024


def check_labels(path: str, labels: dict[str, str] | None) -> list[Cause]:
    """Check keys and values of labels."""
    causes: list[Cause] = []
    for key, value in (labels or {}).items():
        causes.extend(fields.each_invalid(path, key, names.label_key(key)))
        causes.extend(fields.each_invalid(path, value, names.label_value(value)))
    return causes


def check_annotations(path: str, annotations: dict[str, str] | None) -> list[Cause]:
    """Check the keys of annotations and their size in all."""
    causes: list[Cause] = []
    size_bytes = 0
    for key, value in (annotations or {}).items():
        causes.extend(fields.each_invalid(path, key, names.label_key(key.lower())))
        size_bytes += len(key.encode()) + len(value.encode())
    if size_bytes > ANNOTATIONS_LIMIT_BYTES:
        causes.append(fields.too_long(path, ANNOTATIONS_LIMIT_BYTES))
    return causes


def check_selector(path: str, selector: dict[str, Any] | None) -> list[Cause]:
    """Check a LabelSelector."""
    if not selector:
        return []
    causes = check_labels(f"{path}.matchLabels", selector.get("matchLabels"))
    for i, expression in enumerate(selector.get("matchExpressions", [])):
        causes.extend(_check_expression(f"{path}.matchExpressions[{i}]", expression))
    return causes


def _check_expression(path: str, expression: dict[str, Any]) -> list[Cause]:
    causes: list[Cause] = []
    operator, values = expression.get("operator", ""), expression.get("values", [])
    if operator in ("In", "NotIn"):
        if not values:
            text = "must be specified when `operator` is 'In' or 'NotIn'"
            causes.append(fields.required(f"{path}.values", text))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            causes.append(fields.forbidden(f"{path}.values", text))
    else:
        text = "not a valid selector operator"
        causes.append(fields.invalid(f"{path}.operator", operator, text))
    key = expression.get("key", "")
    causes.extend(fields.each_invalid(f"{path}.key", key, names.label_key(key)))
    for i, value in enumerate(values):
        messages = names.label_value(value)
        causes.extend(fields.each_invalid(f"{path}.values[{i}]", value, messages))
    return causes


def is_empty_selector(selector: dict[str, Any] | None) -> bool:
    """Tell whether a LabelSelector selects everything."""
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))


def selects(selector: dict[str, Any] | None, labels: dict[str, str] | None) -> bool:
    """Tell whether a LabelSelector matches labels; an absent selector matches nothing."""
    if selector is None:
        return False
    have = labels or {}
    if any(have.get(k) != v for k, v in selector.get("matchLabels", {}).items()):
        return False
    return all(_matches(term, have) for term in selector.get("matchExpressions", []))


def _matches(term: dict[str, Any], labels: dict[str, str]) -> bool:
    key, values = term["key"], term.get("values", [])
    match term["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return labels.get(key) not in values
        case "Exists":
            return key in labels
        case _:
            return key not in labels
