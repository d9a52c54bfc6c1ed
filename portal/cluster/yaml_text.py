"""Objects as YAML: to the letter what PyYAML writes, in a tenth of its time.

PyYAML's own emitter looks at each character of each text; the libyaml beside it folds long texts elsewhere
and escapes emoji. Here the layout and plain words are written directly, and PyYAML is asked for the rest.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

# Without a space nothing is folded; PyYAML puts quotes around what it would read as something else.
_PLAIN = re.compile(
    r"(?!(?:true|false|yes|no|on|off|null)\Z)[a-z/_](?:[a-z0-9_./@=+-]|:(?=[a-z0-9/]))*"
    r"|[0-9]+(?:m|[KMGT]i)|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.IGNORECASE,
)
_MAX_KEY = 100  # longer ones, and odd ones, are written on lines of their own
_NUMBER = re.compile("0|[1-9][0-9]*")
# Ends of lines to YAML 1.1: they are read as others unless PyYAML escapes all that is not ASCII.
_OTHER_ENDS = re.compile("[\x85\u2028\u2029]")


def dump(documents: Iterable[Mapping[str, Any]]) -> str:
    """The documents with their keys in the given order."""
    given = list(documents)
    try:
        text = "---\n".join("".join(_document(document)) for document in given)
    except ValueError:  # there is something that is not laid out here
        text = str(yaml.safe_dump_all(given, sort_keys=False, allow_unicode=True))
    return str(yaml.safe_dump_all(given, sort_keys=False)) if _OTHER_ENDS.search(text) else text


def _document(document: Mapping[str, Any]) -> Iterator[str]:
    if not document:
        raise ValueError("an empty document")
    return _mapping(document, 0)


def _mapping(values: Mapping[str, Any], indent: int, first: str = "") -> Iterator[str]:
    """Lines of a mapping; `first` stands before the first of them instead of the indent.

    Raises:
        ValueError: PyYAML is to write all of it.
    """
    lead = first or " " * indent
    for key, value in values.items():
        if not _PLAIN.fullmatch(key) or len(key) > _MAX_KEY:
            raise ValueError(f"the key {key!r}")
        start = f"{lead}{key}:"
        lead = " " * indent
        if value and isinstance(value, dict):
            yield f"{start}\n"
            yield from _mapping(value, indent + 2)
        elif value and isinstance(value, list):
            yield f"{start}\n"
            yield from _items(value, indent)
        else:
            yield f"{start}{_scalar(value, indent, key)}\n"


def _items(values: list[Any], indent: int) -> Iterator[str]:
    lead = " " * indent
    for value in values:
        if value and isinstance(value, list):
            raise ValueError("a list in a list")
        if value and isinstance(value, dict):
            yield from _mapping(value, indent + 2, f"{lead}- ")
        else:
            yield f"{lead}-{_scalar(value, indent, '')}\n"


def _scalar(value: Any, indent: int, key: str) -> str:
    """What follows the colon or dash, with the space before it.

    Args:
        indent: of the mapping or list that it stands in.
        key: empty: it is an item of a list.
    """
    if isinstance(value, str):
        if _PLAIN.fullmatch(value):
            return f" {value}"
        if _NUMBER.fullmatch(value):
            return f" '{value}'"
    elif value is True or value is False:
        return " true" if value else " false"
    elif type(value) is int:
        return f" {value}"
    elif isinstance(value, dict) and not value:
        return " {}"
    return _asked(value, indent, key)


def _asked(value: Any, indent: int, key: str) -> str:
    """The same of PyYAML, which folds it by where it stands."""
    inner: Any = {key: value} if key else {"a": [value]}
    for _ in range(indent // 2):
        inner = {"a": inner}
    text = str(yaml.safe_dump(inner, sort_keys=False, allow_unicode=True))
    start = f"{' ' * indent}{key}:" if key else f"{' ' * indent}-"
    lines = text.split("\n", indent // 2 + (0 if key else 1))
    return lines[-1].removeprefix(start).removesuffix("\n")
