"""What preflight and doctor found, as one small JSON document: read, bounded, and refused in words. Pure.

`{"kind": "preflight" | "doctor", "at": ISO time with its zone, "version": of Homeport, "took_s": seconds,
"checks": [{"name", "outcome": "passed" | "failed" | "skipped" | "warned", "words", "next_step"}]}`.
Further keys are left out, for a newer version may have some. In the cluster it is a ConfigMap of
`NAMESPACE`, named by its kind, under `KEY`.
"""

from datetime import datetime
from typing import Annotated, Any, Literal, get_args

import msgspec

from portal.characters import visible

Kind = Literal["preflight", "doctor"]
Outcome = Literal["passed", "failed", "skipped", "warned"]
KINDS: tuple[Kind, ...] = get_args(Kind)
NAMESPACE, KEY = "homeport", "result.json"
BYTES_MAX = 32 * 1024
TEXT_MAX = 1500
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=80)]
_Text = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]


class CheckFound(msgspec.Struct, frozen=True):
    """One line: what was looked at, and what to do when it is not as it should be."""

    name: _Name
    outcome: Outcome
    words: _Text = ""
    next_step: _Text = ""


class CheckResults(msgspec.Struct, frozen=True):
    """All lines of one run; see the module."""

    kind: Kind
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    version: Annotated[str, msgspec.Meta(max_length=60)]
    took_s: Annotated[float, msgspec.Meta(ge=0, le=86_400)]
    checks: Annotated[list[CheckFound], msgspec.Meta(min_length=1, max_length=60)]

    def __post_init__(self) -> None:
        if not 2000 < self.at.year < 3000:  # else no age can be told of it
            raise ValueError("`at` is no time of ours")

    def with_outcome(self, outcome: Outcome) -> list[CheckFound]:
        return [check for check in self.checks if check.outcome == outcome]

    def as_json(self) -> dict[str, Any]:
        """The document with plain values."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


def parse_results(body: bytes, kind: Kind | None = None) -> CheckResults:
    """The document in `body`, whoever wrote it; what shows nothing is written out (`\\x00`).

    Args:
        kind: which one it has to be; None: either.

    Raises:
        ValueError: it is none; the text says what is wrong and where.
    """
    if len(body) > BYTES_MAX:
        raise ValueError(f"it has {len(body)} bytes, at most {BYTES_MAX} are taken")
    try:
        results = msgspec.json.decode(body, type=CheckResults)
        plain = _visible(results.as_json())
        results = msgspec.convert(plain, CheckResults)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise ValueError(f"it is no result of preflight or doctor: {error}") from error
    if kind is not None and results.kind != kind:
        raise ValueError(f"it is a result of {results.kind}, not of {kind}")
    return results


def _visible(told: Any) -> Any:
    if isinstance(told, dict):
        return {key: _visible(value) for key, value in told.items()}
    if isinstance(told, list | tuple):
        return [_visible(value) for value in told]
    return visible(told) if isinstance(told, str) else told
