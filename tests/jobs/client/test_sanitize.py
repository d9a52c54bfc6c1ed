"""No text from elsewhere moves a terminal."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeport_client.sanitize import one_line, sanitize
from jobs.logs.ansi import clean

PIECES = st.sampled_from([*"\x1b[]\x07\\a\n\t\x9b\x9d\u202eéP", "31m", "0;"])


@given(st.one_of(st.text(), st.lists(PIECES, max_size=30).map("".join)))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    shown = sanitize(text)
    assert all(letter in "\n\t" or letter >= " " for letter in shown)
    assert not set(shown) & {chr(code) for code in range(0x7F, 0xA0)}
    assert not set(shown) & set(
        "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f"
    )
    shown.encode()


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert sanitize(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", "red"),
        ("\x1b]0;owned\x07title", "title"),
        ("\x1b]8;;http://evil/\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x1b[2Jb\x1b[1;1Hc", "abc"),
        ("50%\r100%", "50%100%"),
        ("\x9b31mred", "red"),
        ("\x1b]0;no end\nnext line", "\nnext line"),
        ("ab\x08c\x00d", "abcd"),
        ("\x1bPq#0;2\x1b\\image", "image"),
        ("evil\u202egnp.exe", "evilgnp.exe"),
    ],
)
def test_sequences_go_with_what_they_carry(text: str, shown: str) -> None:
    assert sanitize(text) == shown
    # The portal's own cleaning leaves colours, and nothing that ours would take away besides.
    assert sanitize(clean(text)) == shown


def test_one_line_is_one_line() -> None:
    assert one_line("a\n b\t\tc\u2028d \x1b[2K") == "a b cd"


@pytest.mark.parametrize("text", ["\x1b[" * 200_000, "\x1b]" * 200_000, "\x1b[" + "1;" * 400_000])
def test_hostile_text_takes_linear_time(text: str) -> None:
    began_s = time.process_time()
    sanitize(text)
    assert time.process_time() - began_s < 5
