"""Words of a command as one line that people can read and paste; `shlex.split` gives them back."""

import re
import shlex
from collections.abc import Iterable

# Besides what shlex takes as safe, braces: placeholders stay readable, and no shell expands {{x}}.
_PLAIN = re.compile(r"[\w@%+=:,./{}-]+", re.ASCII)
_NOT_IN_DOUBLE_QUOTES = re.compile(r'["\\$`!]')


def quote(word: str) -> str:
    """One word, in the quotes that disturb least."""
    if _PLAIN.fullmatch(word):
        return word
    if "'" in word and not _NOT_IN_DOUBLE_QUOTES.search(word):
        return f'"{word}"'
    return shlex.quote(word)


def join(words: Iterable[str]) -> str:
    """The whole line."""
    return " ".join(map(quote, words))
