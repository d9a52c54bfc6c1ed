"""What the parsers of Go's library say of a text that they cannot read, as upstream passes it on. Pure.

https://github.com/golang/go/blob/go1.26.0/src/encoding/json/scanner.go
"""

from __future__ import annotations

import json
import re
from string import hexdigits
from typing import Any

from onebox.api.status import quote

_TYPE_OF_OBJECT = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; '
    'Kind string "json:\\"kind,omitempty\\"" }'
)
_SCHEME = "pkg/runtime/scheme.go:111"
_ENDED = "unexpected end of JSON input"
_AT_END = " "  # Go adds a space to a text that ends within a literal or an escape
_IN_ESCAPE = "in string escape code"
_IN_HEXADECIMAL = "in \\u hexadecimal character escape"
_SHOWN_BYTES = 30
_LITERALS = ("true", "false", "null")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BASE64 = re.compile(rb"[A-Za-z0-9+/]*")
_QUANTUM = 4
# What Python's parser says, and how Go says it.
_CONTEXTS = {
    "Expecting property name enclosed in double quotes": "looking for beginning of object key string",
    "Expecting ':' delimiter": "after object key",
    "Extra data": "after top-level value",
    "Invalid control character at": "in string literal",
}


def json_error(content: bytes) -> str:
    """Say why a text is no JSON."""
    text = content.decode("latin-1")  # Go names a byte, whatever it is a part of
    try:
        json.loads(text, parse_int=len)  # of any length
    except json.JSONDecodeError as error:
        return _sentence(text, error)
    except RecursionError:
        return "exceeded max depth"
    # Python's parser takes NaN and Infinity, and bytes that are no text.
    return "invalid character in JSON input"


def _sentence(text: str, error: json.JSONDecodeError) -> str:
    at = error.pos
    if error.msg.startswith("Unterminated string"):
        return _of_end(text)
    if error.msg.startswith("Invalid \\u"):
        wrong = next(char for char in text[at + 1 :] + _AT_END if char not in hexdigits)
        return f"invalid character {_shown(wrong)} {_IN_HEXADECIMAL}"
    if not text[at:].strip():
        return _ENDED
    if error.msg == "Expecting value":
        return _of_value(text, at)
    if error.msg == "Expecting ',' delimiter":
        inside = "object key:value pair" if _is_in_object(text[:at]) else "array element"
        return f"invalid character {_shown(text[at])} after {inside}"
    if error.msg.startswith("Invalid \\"):
        return f"invalid character {_shown(text[at + 1])} {_IN_ESCAPE}"
    context = _CONTEXTS.get(error.msg, "looking for beginning of value")
    return f"invalid character {_shown(text[at])} {context}"


def _of_value(text: str, at: int) -> str:
    literal = next((word for word in _LITERALS if word[0] == text[at]), "")
    for i in range(1, len(literal)):
        found = text[at + i : at + i + 1] or _AT_END
        if found != literal[i]:
            expected = f"in literal {literal} (expecting {_shown(literal[i])})"
            return f"invalid character {_shown(found)} {expected}"
    return f"invalid character {_shown(text[at])} looking for beginning of value"


def _of_end(text: str) -> str:
    """Say what is wrong with a text that ends within a string."""
    before = text.rstrip("\\")
    is_in_escape = (len(text) - len(before)) % 2 == 1
    return f"invalid character {_shown(_AT_END)} {_IN_ESCAPE}" if is_in_escape else _ENDED


def _shown(char: str) -> str:
    if char == "'":
        return "'\\''"
    if char == '"':
        return "'\"'"
    if char == "\\":
        return "'\\\\'"
    if char.isprintable():
        return f"'{char}'"
    short = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
    code = f"\\x{ord(char):02x}" if ord(char) < 0x80 else f"\\u{ord(char):04x}"
    return f"'{short.get(char, code)}'"


def _is_in_object(before: str) -> bool:
    opened: list[str] = []
    for char in _STRING.sub("", before):
        if char in "{[":
            opened.append(char)
        elif char in "}]" and opened:
            opened.pop()
    return bool(opened) and opened[-1] == "{"


def base64_error(text: str) -> str:
    """Say why a text is no base64."""
    content = text.encode()
    match = _BASE64.match(content)
    good = match.end() if match else 0
    # What is whole but for its padding is wrong where its last four letters begin.
    at = good if good < len(content) and content[good] != ord("=") else good - good % _QUANTUM
    return f"illegal base64 data at input byte {at}"


def unrecognised(kind: str, content: bytes, why: str) -> str:
    """Say that a body does not tell what it is.

    Args:
        kind: that the address takes.
        why: what the parser said.
    """
    shown = "<empty>"
    if content:
        is_object = content.startswith(b"{")
        short = content[:_SHOWN_BYTES]
        shown = short.decode(errors="replace") if is_object else short.hex()
        shown += " ..." if len(content) > _SHOWN_BYTES else ""
    failed = f"couldn't get version/kind; json parse error: {why}"
    return f"the object provided is unrecognized (must be of type {kind}): {failed} ({shown})"


def json_name(value: Any) -> str:
    """Give the name that Go has for the type of a JSON value."""
    known = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    return known.get(type(value), "number")


def not_an_object(value: Any) -> str:
    """Say that a JSON value is no object with a kind."""
    return f"json: cannot unmarshal {json_name(value)} into Go value of type {_TYPE_OF_OBJECT}"


def unregistered(kind: str, version: str) -> str:
    """Say that there is no such kind."""
    return f'no kind {quote(kind)} is registered for version {quote(version)} in scheme "{_SCHEME}"'
