"""A command as one line, and back."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs import command_line


@given(st.lists(st.text(st.characters(exclude_characters="\0")), min_size=1, max_size=6))
def test_every_line_gives_its_words_back(words: list[str]) -> None:
    assert shlex.split(command_line.join(words)) == words


@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("--log_dir={{log_dir}}", "--log_dir={{log_dir}}"),
        ("two words", "'two words'"),
        ("print('hello')", "\"print('hello')\""),
        ("", "''"),
        ("a'b$c", "'a'\"'\"'b$c'"),
    ],
)
def test_quotes_disturb_as_little_as_possible(word: str, line: str) -> None:
    assert command_line.quote(word) == line
