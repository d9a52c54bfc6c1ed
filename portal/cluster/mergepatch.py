"""JSON merge patches (RFC 7386) that turn what is into what is wanted."""

from typing import Any

from portal import quantity


def is_equal(actual: Any, wanted: Any) -> bool:
    """Equality that knows quantities: the API server stores "0.5" as "500m"."""
    if isinstance(actual, dict) and isinstance(wanted, dict):
        return actual.keys() == wanted.keys() and all(
            is_equal(actual[key], wanted[key]) for key in wanted
        )
    if isinstance(actual, list) and isinstance(wanted, list):
        return len(actual) == len(wanted) and all(map(is_equal, actual, wanted))
    if isinstance(actual, str) and isinstance(wanted, str) and actual != wanted:
        try:
            return quantity.parse(actual) == quantity.parse(wanted)
        except ValueError:
            return False
    return bool(actual == wanted)


def difference(actual: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """The patch; empty when nothing differs. Keys that are not wanted are removed (null)."""
    patch: dict[str, Any] = {key: None for key in actual if key not in wanted}
    for key, value in wanted.items():
        before = actual.get(key)
        if isinstance(before, dict) and isinstance(value, dict):
            inner = difference(before, value)
            if inner:
                patch[key] = inner
        elif key not in actual or not is_equal(before, value):
            patch[key] = value
    return patch
