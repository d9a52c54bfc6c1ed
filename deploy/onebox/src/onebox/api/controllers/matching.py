"""Does a set of labels meet a LabelSelector or a node selector? Pure.

Semantics of k8s.io/apimachinery/pkg/labels: `NotIn` and `DoesNotExist` also hold for an absent
key; `Gt` and `Lt` (node selectors only) compare whole numbers and fail on anything else.
"""

from collections.abc import Iterable, Mapping

from onebox.api.resources import Obj


def meets_requirement(expression: Obj, labels: Mapping[str, str]) -> bool:
    """Check one matchExpressions entry; an unknown operator is met by nothing."""
    key, values = str(expression.get("key")), expression.get("values") or []
    value = labels.get(key)
    match expression.get("operator"):
        case "In":
            return value is not None and value in values
        case "NotIn":
            return value is None or value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            return _compares(operator, value, values)
        case _:
            return False


def _compares(operator: str, value: str | None, values: list[str]) -> bool:
    try:
        have, limit = int(str(value)), int(values[0])
    except (ValueError, IndexError):
        return False
    return have > limit if operator == "Gt" else have < limit


def has_labels(labels: Mapping[str, str], wanted: Mapping[str, str] | None) -> bool:
    """True if every wanted label is there with its value."""
    return all(labels.get(key) == value for key, value in (wanted or {}).items())


def meets_all(expressions: Iterable[Obj] | None, labels: Mapping[str, str]) -> bool:
    """True if every matchExpressions entry is met."""
    return all(meets_requirement(expression, labels) for expression in expressions or ())


def meets_selector(selector: Obj | None, labels: Mapping[str, str]) -> bool:
    """Check a metav1.LabelSelector: None selects nothing, an empty one selects everything."""
    if selector is None:
        return False
    return has_labels(labels, selector.get("matchLabels")) and meets_all(
        selector.get("matchExpressions"), labels
    )
