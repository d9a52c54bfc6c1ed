"""Run as a program: looks for a pattern, or for hints, in texts made to be slow, and says what it is at.

`re` keeps all other threads waiting while it looks, so one text that takes a pattern the square of its length stops
the whole portal. A text that takes too much processor time ends the program by SIGPROF.
"""

import re
import signal
import sys
from collections.abc import Iterator, Sequence

from jobs.rules.shell_words import typed_hints, word_hints

_CHARS = 64 * 1024  # of a command that is taken
_HINTED_CHARS = 16 * 1024  # signs are gone through one by one in Python
# Of processor time for one text, on which other work on the machine has little influence: a twentieth of it is what the
# slowest takes, and several times of it what grows with the square.
_PATTERN_S = 2.0
_HINTS_S = 10.0
# What is said over and over, behind a beginning and before an end.
_BEGINS = ("", "{", "{{", "${a", "$(", "-", "a@")
_REPEATED = (
    *("{", "}", "{,", ",", ".", "@", "@$", "a", "c", "1", "$", "${a", "$(", "`", "{{", "{{ ", " "),
    *("\t", "\\", "~", "~/", "-", "\u2010", "\u201c", "\u00a0", ";", "a;", "&& ", "x; && ", ">"),
    *("A:\\", "'", '"', "=", "1>", "t.py", "1\u2212", "\uff0c", "conda activate "),
)
_ENDS = ("", "X")


def _texts(begins: Sequence[str], chars: int, most_s: float) -> Iterator[str]:
    for begin in begins:
        for part in _REPEATED:
            for end in _ENDS:
                text = f"{begin}{part * (chars // len(part))}{end}"
                print(ascii(begin), ascii(part), ascii(end), flush=True)
                signal.setitimer(signal.ITIMER_PROF, most_s)
                yield text


def _search(pattern: re.Pattern[str], *, anywhere: bool) -> None:
    for text in _texts(_BEGINS, _CHARS, _PATTERN_S):
        pattern.match(text)
        pattern.fullmatch(text)
        if anywhere:
            for _each in pattern.finditer(text):
                pass


def _hint_words() -> None:
    for text in _texts([""], _HINTED_CHARS, _HINTS_S):
        half = text[: len(text) // 2]
        for words in ([text, "x"], ["x", text, "x"], ["sh", text, "x"], [half, half], text.split()):
            word_hints(words)


def _hint_lines() -> None:
    for text in _texts([""], _HINTED_CHARS, _HINTS_S):
        try:
            typed_hints(text)
        except ValueError:  # a quote is missing
            continue


if __name__ == "__main__":
    if sys.argv[1:] == ["words"]:
        _hint_words()
    elif sys.argv[1:] == ["lines"]:
        _hint_lines()
    else:
        how, text, flags = sys.argv[1:]
        _search(re.compile(text, int(flags)), anywhere=how == "anywhere")
