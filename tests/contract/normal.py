"""Makes two runs of one script comparable: what chance chose becomes a placeholder. Pure.

The same value gets the same placeholder wherever it stands in a transcript, in the order in which
the values first appear; so "the same uid as before" stays part of what is compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
# The letters of which the API server makes suffixes; there are no vowels, so no word is meant.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = re.compile(rf"(?<=-)[{_LETTERS}]{{5}}(?![a-z0-9-])")
_HASH = re.compile(rf"(?<=-)[{_LETTERS}]{{8,10}}(?![a-z0-9])")
_EVENT_NAME = re.compile(r"\.[0-9a-f]{15,16}$")
_VERSIONS_IN_TEXT = re.compile(
    r"(?<=too old resource version: )\d+ \(\d+\)"
    r"|(?<=Too large resource version: )\d+, current: \d+"
    r"|(?<=the precondition \()\d+|(?<=Version in record \()\d+"
)
_VERSION_IN_QUERY = re.compile(r"(?<=[?&]resourceVersion=)[1-9]\d+")
_CONTINUE = re.compile(r"(?<=[?&]continue=)[A-Za-z0-9_%-]{20,}")
# A whole object, with versions and managers, in a sentence.
_OBJECT_IN_TEXT = re.compile(r'Invalid value: "\{.*\}"(?=: )', re.DOTALL)
_ADDRESS = re.compile(r"\b\d{1,3}(\.\d{1,3}){3}\b")
_ADDRESS_KEYS = {"clusterIP", "clusterIPs", "podIP", "podIPs", "hostIP", "hostIPs", "ip"}
_PORT_KEYS = {"nodePort", "healthCheckNodePort"}
_PORT_RANGE = re.compile(r"\b3\d{4}-3\d{4}\b")
_AGE_COLUMNS = {"Age", "Duration", "Last Seen", "First Seen"}
_FIELD_MANAGERS = "managedFields"


class Names:
    """Placeholders of one transcript: `<uid-1>`, `<uid-2>`, ..."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, str]] = {}

    def of(self, sort: str, value: object) -> str:
        """The placeholder of a value; the first to come is number 1."""
        known = self._known.setdefault(sort, {})
        return known.setdefault(str(value), f"<{sort}-{len(known) + 1}>")


def normalise(value: Any, namespace: str, *, keep_managers: bool = False) -> Any:
    """A copy of JSON values in which nothing is left to chance.

    Args:
        namespace: of the script; it becomes `<ns>`.
        keep_managers: leave `managedFields` in.
    """
    names = Names()

    def text(found: str) -> str:
        if namespace:
            found = found.replace(namespace, "<ns>")
        found = _CONTINUE.sub("<continue>", found)
        found = _VERSION_IN_QUERY.sub("<version>", found)
        found = _OBJECT_IN_TEXT.sub('Invalid value: "<object>"', found)
        found = _UID.sub(lambda match: names.of("uid", match.group()), found)
        found = _TIME.sub("<time>", found)
        found = _VERSIONS_IN_TEXT.sub("<versions>", found)
        found = _PORT_RANGE.sub("<port-range>", found)
        found = _HASH.sub(lambda match: names.of("hash", match.group()), found)
        found = _SUFFIX.sub(lambda match: names.of("name", match.group()), found)
        return _EVENT_NAME.sub(".<event>", found)

    def special(key: str, found: Any, holder: dict[str, Any]) -> tuple[bool, Any]:
        if key == "resourceVersion" and isinstance(found, str) and found not in {"", "0"}:
            is_list = not {"uid", "name"} & holder.keys()
            return True, "<version>" if is_list else names.of("version", found)
        if key == "continue" and found:
            return True, "<continue>"
        if key == "pod-template-hash":
            return True, names.of("hash", found)
        if key in _PORT_KEYS and isinstance(found, int):
            return True, names.of("node-port", found)
        if key in _ADDRESS_KEYS:
            return True, _each_text(
                found, lambda t: _ADDRESS.sub(lambda m: names.of("ip", m.group()), t)
            )
        return False, None

    def walk(found: Any) -> Any:
        if isinstance(found, dict):
            made: dict[str, Any] = {}
            content = _without_ages(found)
            for key in sorted(content):
                inner = content[key]
                if key == _FIELD_MANAGERS and not keep_managers:
                    continue
                is_special, replaced = special(key, inner, found)
                made[key] = replaced if is_special else walk(inner)
            # Named in the order of the alphabet, shown in the order in which they came.
            return {text(key): made[key] for key in content if key in made}
        if isinstance(found, list | tuple):
            return [walk(item) for item in found]
        return text(found) if isinstance(found, str) else found

    return walk(value)


def _each_text(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_each_text(item, change) for item in value]
    if isinstance(value, dict):
        return {key: _each_text(item, change) for key, item in value.items()}
    return value


def _without_ages(found: dict[str, Any]) -> dict[str, Any]:
    """A Table whose ages are placeholders; anything else as it is."""
    columns = found.get("columnDefinitions")
    if found.get("kind") != "Table" or not columns:
        return found
    places = [i for i, column in enumerate(columns) if column["name"] in _AGE_COLUMNS]
    rows = []
    for row in found.get("rows") or []:
        cells = list(row["cells"])
        for place in places:
            if cells[place] not in {"<unknown>", "<none>", ""}:
                cells[place] = "<age>"
        rows.append({**row, "cells": cells})
    return {**found, "rows": rows}
