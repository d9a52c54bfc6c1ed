"""Whatever a program writes, only text and colours reach a browser."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.logs.ansi import CONTROL_BYTES, clean, is_clean

ALLOWED = re.compile(
    r"(?:\x1b\[[0-9:;]{0,64}m|[^\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069])*"
)
CORPUS = {
    "plain": ("hello", "hello"),
    "tab and break": ("a\tb\nc", "a\tb\nc"),
    "colour": ("\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
    "colours of 24 bit": ("\x1b[38;2;1;2;3mx\x1b[m", "\x1b[38;2;1;2;3mx\x1b[m"),
    "colours by colons": ("\x1b[38:5:1mx", "\x1b[38:5:1mx"),
    "private sgr": ("\x1b[>4;2mx", "x"),
    "sgr with an intermediate": ("\x1b[1 mx", "x"),
    "cursor": ("a\x1b[2Jb\x1b[10;10Hc\x1b[?25l", "abc"),
    "report": ("\x1b[6n\x1b[c\x1b[>q", ""),
    "title": ("\x1b]0;evil\x07after", "after"),
    "title by st": ("\x1b]2;evil\x1b\\after", "after"),
    "title by c1 st": ("\x1b]2;evil\x9cafter", "after"),
    "title that never ends": ("\x1b]0;evil\nafter", "\nafter"),
    "title cut by another escape": ("\x1b]0;evil\x1b[31mred", "\x1b[31mred"),
    "link": ("\x1b]8;;http://evil\x07click\x1b]8;;\x07", "click"),
    "clipboard": ("\x1b]52;c;ZXZpbA==\x07x", "x"),
    "device string": ("\x1bPq#0;2;0;0;0~\x1b\\x", "x"),
    "apc": ("\x1b_Gf=100;AAAA\x1b\\x", "x"),
    "pm": ("\x1b^secret\x1b\\x", "x"),
    "sos": ("\x1bXsecret\x1b\\x", "x"),
    "c1 csi": ("\x9b31mred", "red"),
    "c1 osc": ("\x9d0;evil\x07x", "x"),
    "c1 dcs": ("\x90evil\x9cx", "x"),
    "charset": ("\x1b(0x\x1b)B", "x"),
    "reset": ("\x1bcx", "x"),
    "keypad": ("\x1b=\x1b>x", "x"),
    "backspace": ("pass\x08\x08word", "password"),
    "bell and nul": ("a\x07\x00b", "ab"),
    "delete": ("a\x7fb", "ab"),
    "vertical tab": ("a\x0b\x0cb", "ab"),
    "carriage return": ("a\rb", "ab"),
    "bidi": ("a\u202eb\u2066c\u200fd\u061c", "abcd"),
    "nel": ("a\x85b", "ab"),
    "lone escape": ("a\x1b", "a"),
    "escape at a break": ("a\x1b\nb", "a\nb"),
    "unfinished csi": ("a\x1b[31", "a"),
    "html stays text": ("<script>alert(1)</script>", "<script>alert(1)</script>"),
    "other scripts": ("日本語 ä 🙂 \u200d", "日本語 ä 🙂 \u200d"),
}


@pytest.mark.parametrize("name", CORPUS)
def test_the_corpus_is_cleaned(name: str) -> None:
    given_text, expected = CORPUS[name]
    assert clean(given_text) == expected


fragments = st.sampled_from(
    [
        *"\x1b\x9b\x9c\x9d\x07\x00\x7f\u202e\\m;?~[]!aä \n\r\t",
        "\x1b[",
        "\x1b]",
        "\x1bP",
        "31",
        "8;;",
    ]
)
texts = st.lists(fragments, max_size=24).map("".join) | st.text(max_size=40)


@settings(max_examples=400, deadline=None)
@given(texts)
def test_nothing_but_text_and_colours_remains(text: str) -> None:
    found = clean(text)
    assert ALLOWED.fullmatch(found)
    assert clean(found) == found


@settings(max_examples=200, deadline=None)
@given(st.lists(texts, max_size=5))
def test_lines_are_cleaned_independently(lines: list[str]) -> None:
    flat = [line.replace("\n", "") for line in lines]
    assert clean("\n".join(flat)).split("\n") == [clean(line) for line in flat] or not flat


@pytest.mark.parametrize(
    "text",
    [
        "\x9d" * 200000,
        "\x9d" * 200000 + "\x07",
        "\x1b[" * 100000,
        "\x1b[" + "0" * 200000,
        "\x1b]" * 100000 + "\n",
        "\x1b" * 200000,
        "\x9b" * 200000,
        "\x1b(" * 100000,
        "\x1b[0 " * 50000,
        "\x1b]" + "a" * 200000 + "\x1b",
    ],
)
def test_time_is_linear_whatever_comes(text: str) -> None:
    started = time.process_time()
    clean(text)
    assert time.process_time() - started < 1


def test_the_fast_look_at_bytes_finds_what_the_slow_one_finds() -> None:
    for code in range(128):
        assert (bytes([code]) in [bytes([b]) for b in CONTROL_BYTES]) != is_clean(chr(code))
