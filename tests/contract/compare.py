"""What differs between two transcripts of one script. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.contract.kube import Json

_NOTHING = "(nothing)"


@dataclass(frozen=True)
class Difference:
    """One place.

    Attributes:
        path: number of the step (from 1) and the way into it: `3/reply/body/spec/replicas`.
        what: the step's request, for people.
    """

    path: str
    what: str
    expected: Any
    actual: Any

    def __str__(self) -> str:
        return f"{self.path} ({self.what}): upstream {self.expected!r}, here {self.actual!r}"


def differences(expected: Sequence[Json], actual: Sequence[Json]) -> list[Difference]:
    """Every place where the second transcript is not as the first."""
    found: list[Difference] = []
    for number, step in enumerate(expected, 1):
        other = actual[number - 1] if number <= len(actual) else _NOTHING
        what = _what(step)
        found += [
            Difference(path, what, one, two) for path, one, two in _walk(str(number), step, other)
        ]
    for number, step in enumerate(actual[len(expected) :], len(expected) + 1):
        found.append(Difference(str(number), _what(step), _NOTHING, step))
    return found


def _what(step: Json) -> str:
    return " ".join(str(step[key]) for key in list(step)[:1])


def _walk(path: str, expected: Any, actual: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in dict.fromkeys([*expected, *actual]):
            inner = f"{path}/{key}"
            yield from _walk(inner, expected.get(key, _NOTHING), actual.get(key, _NOTHING))
    elif isinstance(expected, list) and isinstance(actual, list):
        for place in range(max(len(expected), len(actual))):
            one = expected[place] if place < len(expected) else _NOTHING
            two = actual[place] if place < len(actual) else _NOTHING
            yield from _walk(f"{path}/{place}", one, two)
    elif expected != actual or type(expected) is not type(actual):
        yield path, expected, actual
