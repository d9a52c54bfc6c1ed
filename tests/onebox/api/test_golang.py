"""The sentences of Go's parsers, as Go 1.26 said them of these texts."""

from __future__ import annotations

import pytest

from deploy.onebox.api import golang


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "unexpected end of JSON input"),
        ("", "unexpected end of JSON input"),
        ('"a', "unexpected end of JSON input"),
        ("nonsense", "invalid character 'o' in literal null (expecting 'u')"),
        ("tru", "invalid character ' ' in literal true (expecting 'e')"),
        ("[1 2]", "invalid character '2' after array element"),
        ('{"a":[1}', "invalid character '}' after array element"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b":2}', "invalid character '\"' after object key:value pair"),
        ("{a:1}", "invalid character 'a' looking for beginning of object key string"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
        ("1 2", "invalid character '2' after top-level value"),
        ('"\\x"', "invalid character 'x' in string escape code"),
        ('"a\nb"', "invalid character '\\n' in string literal"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        ("\u00e9", "invalid character '\u00c3' looking for beginning of value"),
    ],
)
def test_text_that_is_no_json(text: str, said: str) -> None:
    assert golang.json_error(text.encode()) == said


@pytest.mark.parametrize(
    ("text", "byte"),
    [("no base64", 2), ("YQ", 0), ("YWJj YQ==", 4), ("Y", 0), ("YWJj!", 4), ("=", 0)],
)
def test_text_that_is_no_base64(text: str, byte: int) -> None:
    assert golang.base64_error(text) == f"illegal base64 data at input byte {byte}"
