"""Label selectors as they come in a query string: words, and what they select. Pure.

The grammar and the sentences are those of
https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/labels/selector.go
"""

from __future__ import annotations

import re
from collections.abc import Callable

from onebox.api.rules import names
from onebox.api.status import quote

Term = Callable[[dict[str, str]], bool]

_TOKEN = re.compile(r"[ \t\r\n]*(?:(?P<word>[^=!(),<>\s]+)|(?P<symbol>[=!(),<>]+))?")
_OPERATORS = ("=", "==", "in", "!=", "notin", ">", "<")
# In the order in which upstream lists them to whoever gets it wrong.
_EXPECTED_OPERATORS = "in, notin, =, ==, !=, gt, lt"
_SYMBOLS = frozenset({"!", "!=", "(", ")", ",", "=", "==", ">", "<"})
_SPECIAL = frozenset("=!(),<>")
_END = ""
_MAX_INT = 1 << 63


class SelectorError(ValueError):
    """The text is no label selector; the message says what is wrong where."""


def parse(text: str) -> list[Term]:
    """Read a selector; an object is selected when all terms hold.

    Raises:
        SelectorError: it cannot be read.
    """
    return _Parser(_words(text)).terms()


def _words(text: str) -> list[str]:
    """Split a selector into words and symbols; "" stands for the end."""
    found: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        assert match is not None  # every part of the pattern may be empty
        word, symbols = match["word"], match["symbol"]
        if word is None and symbols is None:
            break
        at = match.end()
        if word is not None:
            found.append(word)
        else:
            found.extend(_split_symbols(symbols))
    return [*found, _END]


def _split_symbols(text: str) -> list[str]:
    parts = []
    while text:
        size = 2 if text[:2] in _SYMBOLS else 1
        parts.append(text[:size])
        text = text[size:]
    return parts


def _is_word(token: str) -> bool:
    return bool(token) and token[0] not in _SPECIAL


class _Parser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def _next(self) -> str:
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def _take(self) -> str:
        token = self._next()
        self._at += 1
        return token

    def terms(self) -> list[Term]:
        terms: list[Term] = []
        token = self._next()
        while token != _END:
            if not _is_word(token) and token != "!":
                raise SelectorError(f"found '{token}', expected: !, identifier, or 'end of string'")
            try:
                terms.append(self._term())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from error
            token = self._take()
            if token == ",":
                token = self._next()
                if not _is_word(token) and token != "!":
                    raise SelectorError(f"found '{token}', expected: identifier after ','")
            elif token != _END:
                raise SelectorError(f"found '{token}', expected: ',' or 'end of string'")
        return terms

    def _term(self) -> Term:
        token = self._take()
        is_negated = token == "!"
        key = self._take() if is_negated else token
        if not _is_word(key):
            raise SelectorError(f"found '{key}', expected: identifier")
        _check("<nil>", key, names.label_key(key))
        if is_negated:
            return lambda labels: key not in labels
        if self._next() in (_END, ","):
            return lambda labels: key in labels
        operator = self._take()
        if operator not in _OPERATORS:
            raise SelectorError(f"found '{operator}', expected: {_EXPECTED_OPERATORS}")
        is_set = operator in ("in", "notin")
        values = self._values() if is_set else frozenset({self._value()})
        return _made(key, operator, values)

    def _value(self) -> str:
        if self._next() in (_END, ","):
            return ""
        token = self._take()
        if not _is_word(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        return token

    def _values(self) -> frozenset[str]:
        token = self._take()
        if token != "(":
            raise SelectorError(f"found '{token}' expected: '('")
        values: set[str] = set()
        last = ","
        while True:
            token = self._take()
            if _is_word(token) and last == ",":
                values.add(token)
            elif token in (",", ")"):
                if last == ",":
                    values.add("")
                if token == ")":
                    return frozenset(values)
            elif last == ",":
                raise SelectorError(f"found '{token}', expected: ',', ')' or identifier")
            else:
                raise SelectorError(f"found '{token}', expected: ',' or ')'")
            last = token


def _check(path: str, value: str, wrong: list[str]) -> None:
    if wrong:
        raise SelectorError(f"{path}: Invalid value: {quote(value)}: {'; '.join(wrong)}")


def _made(key: str, operator: str, values: frozenset[str]) -> Term:
    if operator in ("<", ">"):
        (text,) = values
        if not re.fullmatch(r"[+-]?\d+", text) or not -_MAX_INT <= int(text[:25]) < _MAX_INT:
            why = ["for 'Gt', 'Lt' operators, the value must be an integer"]
            _check("values[0]", text, why)
        return _compare(key, operator, int(text))
    for i, value in enumerate(sorted(values)):
        _check(f"values[{i}][{key}]", value, names.label_value(value))
    wanted = operator in ("=", "==", "in")
    # A missing label is in no set, so it satisfies notin and != as upstream has it.
    return lambda labels: (labels.get(key) in values) == wanted


def _compare(key: str, operator: str, bound: int) -> Term:
    def matches(labels: dict[str, str]) -> bool:
        try:
            value = int(labels[key])
        except (KeyError, ValueError):
            return False
        return value > bound if operator == ">" else value < bound

    return matches
