"""Makes the output of a program harmless: colours stay, everything else that a terminal obeys goes.

What remains is text, line breaks, tabs and SGR sequences (ESC [ ... m). Removed are all other
escape sequences with what they carry (titles, links, device strings), C0 and C1 controls, and the
characters that turn the direction of text around. Sequences: ECMA-48,
https://ecma-international.org/publications-and-standards/standards/ecma-48/
"""

import re

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
    # No sequence goes on in the next line, and none after the end.
    rf"|{_STRING}\Z"
    rf"|(?:{_CSI}|\x1b[ -/]{{0,16}}+)(?=\n|\Z)"
    r"|\x1b[ -/]{0,16}+[0-~]"
    rf"|{_SUSPECT}"
)


def is_clean(text: str) -> bool:
    """Whether there is nothing to remove, colours not counted as clean."""
    return _suspect.search(text) is None


def clean(text: str) -> str:
    """The text of whole lines, cleaned; a sequence that is not finished at its end is removed."""
    parts = []
    position = 0
    # Every sequence begins with a suspect character.
    while (suspect := _suspect.search(text, position)) is not None:
        parts.append(text[position : suspect.start()])
        token = _token.match(text, suspect.start())
        assert token is not None  # its last alternative is the suspect itself
        if token.lastgroup == "colour":
            parts.append(token.group())
        position = token.end()
    return "".join((*parts, text[position:])) if parts else text
