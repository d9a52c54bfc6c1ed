"""Makes the output of a program harmless: colours stay, everything else that a terminal obeys goes.

What remains is text, line breaks, tabs and SGR sequences (ESC [ ... m). Removed are all other
escape sequences with what they carry (titles, links, device strings), C0 and C1 controls, and the
characters that turn the direction of text around. Sequences: ECMA-48,
https://ecma-international.org/publications-and-standards/standards/ecma-48/
"""

import re
from collections.abc import Callable

_MAX_HELD = 4096  # of a string without end; what is longer is thrown away as it comes
# C0 but tab and line break, and DEL, as bytes: what a fast look at ASCII has to find.
CONTROL_BYTES = bytes([*range(9), *range(11, 32), 127])
_SUSPECT = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
_suspect = re.compile(_SUSPECT)
_CSI = r"(?:\x1b\[|\x9b)[0-?]{0,256}+[ -/]{0,16}+"
_STRING = r"(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*+"
# Possessive throughout, and one pass that consumes: the time is linear whatever a program writes.
_token = re.compile(
    r"(?P<colour>\x1b\[[0-9:;]{0,64}+m)"
    rf"|{_CSI}[@-~]"
    # A string (title, link, image) ends with BEL or ST. Another escape or a line break ends it too,
    # or a program could hide all that follows by a string that it never ends.
    rf"|{_STRING}(?:\x07|\x1b\\|\x9c|(?=[\x1b\n]))"
    # What may be the beginning of a sequence, at the end of what has come so far.
    rf"|(?P<held>(?:{_CSI}|{_STRING}|\x1b[ -/]{{0,16}}+)\Z)"
    # No sequence goes on in the next line.
    rf"|(?:{_CSI}|\x1b[ -/]{{0,16}}+)(?=\n)"
    r"|\x1b[ -/]{0,16}+[0-~]"
    rf"|{_SUSPECT}"
)
_string_end = re.compile(r"[\x07\x1b\x9c\n]")


def is_clean(text: str) -> bool:
    """Whether there is nothing to remove, colours not counted as clean."""
    return _suspect.search(text) is None


def clean(text: str) -> str:
    """The text of whole lines, cleaned; a sequence that is not finished at its end is removed."""
    return _replace(text, _keep_colour)


def _replace(text: str, keep: Callable[[re.Match[str]], str]) -> str:
    """The text with each sequence replaced; every one begins with a suspect character."""
    parts = []
    position = 0
    while (suspect := _suspect.search(text, position)) is not None:
        parts.append(text[position : suspect.start()])
        token = _token.match(text, suspect.start())
        assert token is not None  # its last alternative is the suspect itself
        parts.append(keep(token))
        position = token.end()
    return "".join((*parts, text[position:])) if parts else text


def _keep_colour(match: re.Match[str]) -> str:
    return match.group() if match.lastgroup == "colour" else ""


class Cleaner:
    """Cleans text that comes in pieces, cut anywhere: the pieces give what the whole would give."""

    def __init__(self) -> None:
        self._held = ""
        self._is_hiding = False  # inside of a string that became too long to be held

    def feed(self, text: str) -> str:
        """The cleaned text as far as it is certain; the beginning of a sequence is held back."""
        if self._is_hiding:
            text = self._after_hidden(text)
        text, self._held = self._held + text, ""
        return _replace(text, self._keep)

    def finish(self) -> str:
        """Forgets what was held back: a sequence that never ended is removed."""
        self._held, self._is_hiding = "", False
        return ""

    def _keep(self, match: re.Match[str]) -> str:
        if match.lastgroup != "held":
            return _keep_colour(match)
        held = match.group()
        if len(held) > _MAX_HELD:
            self._is_hiding = True  # only strings grow that long
        else:
            self._held = held
        return ""

    def _after_hidden(self, text: str) -> str:
        end = _string_end.search(text)
        if end is None:
            return ""
        self._is_hiding = False
        # A line break or the beginning of another sequence is not part of the string.
        return text[end.start() if end.group() in "\n\x1b" else end.end() :]
