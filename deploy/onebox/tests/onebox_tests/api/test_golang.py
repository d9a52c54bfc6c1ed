"""The sentences of Go's parsers, as Go 1.26 said them of these texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onebox.api import golang


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
        ('"\\', "invalid character ' ' in string escape code"),
        ('"\\\\', "unexpected end of JSON input"),
        ('"\\u', "invalid character ' ' in \\u hexadecimal character escape"),
        ('["\\u12', "invalid character ' ' in \\u hexadecimal character escape"),
        ('"\\u12x4"', "invalid character 'x' in \\u hexadecimal character escape"),
        ('"\\u"', "invalid character '\"' in \\u hexadecimal character escape"),
        ("\\", "invalid character '\\\\' looking for beginning of value"),
        ('"a\nb"', "invalid character '\\n' in string literal"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        ("\u00e9", "invalid character '\u00c3' looking for beginning of value"),
    ],
)
def test_text_that_is_no_json(text: str, said: str) -> None:
    assert golang.json_error(text.encode()) == said


@given(st.text(alphabet='{}[]",:\\u01fnaNtre\n -+.E\x00\u00e9'))
def test_anything_that_is_no_json_is_said(text: str) -> None:
    try:
        json.loads(text)
    except ValueError:
        assert golang.json_error(text.encode())


@pytest.mark.parametrize(
    ("text", "byte"),
    [("no base64", 2), ("YQ", 0), ("YWJj YQ==", 4), ("Y", 0), ("YWJj!", 4), ("=", 0)],
)
def test_text_that_is_no_base64(text: str, byte: int) -> None:
    assert golang.base64_error(text) == f"illegal base64 data at input byte {byte}"
