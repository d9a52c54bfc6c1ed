"""`$(NAME)` references in env values, commands and arguments, expanded exactly as upstream.

Rule: k8s.io/kubernetes/third_party/forked/golang/expansion/expand.go. `$(NAME)` becomes the
variable's value, an unknown name stays as written, `$$` is one dollar sign (so `$$(NAME)` is
the text `$(NAME)`), any other `$` is itself.
"""

from __future__ import annotations

from collections.abc import Mapping


def expand(text: str, values: Mapping[str, str]) -> str:
    """Expand the references of one string."""
    result = []
    checkpoint = cursor = 0
    while cursor < len(text):
        if text[cursor] != "$" or cursor + 1 >= len(text):
            cursor += 1
            continue
        result.append(text[checkpoint:cursor])
        read, advance = _reference(text[cursor + 1 :], values)
        result.append(read)
        cursor += 1 + advance
        checkpoint = cursor
    return "".join(result) + text[checkpoint:]


def _reference(rest: str, values: Mapping[str, str]) -> tuple[str, int]:
    """Read what follows a dollar sign; return the text it stands for and its length."""
    if rest[0] == "$":
        return "$", 1
    if rest[0] != "(":
        return "$" + rest[0], 1
    closing = rest.find(")")
    if closing < 0:
        # An incomplete reference is text: "$(" and what follows stays.
        return "$(", 1
    name = rest[1:closing]
    return values.get(name, f"$({name})"), closing + 1
