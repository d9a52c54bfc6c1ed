"""Makes text from elsewhere harmless to a terminal: what a program or a server writes is not obeyed.

Names, reasons, file names and lines of logs come from other people's programs. An escape sequence
among them could retitle a window, hide text or answer on the user's behalf.
"""

from __future__ import annotations

import re
import unicodedata

# Bounded or followed by what cannot be part of them, so that matching takes linear time.
_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]{0,256}[ -/]{0,16}[@-~]"  # colours, movements
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"  # titles, links
    r"|\x1b[ -/]{0,16}[0-~]"
)
# C0 but tab and line break, DEL, C1, line separators, and what turns the direction of text around.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)

# General categories of what shows nothing or turns text around (UAX 44).
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def sanitize(text: object) -> str:
    """The text without escape sequences and controls; tabs and line breaks stay."""
    shown = str(text)
    if _CONTROL.search(shown) is None:
        return shown
    return _CONTROL.sub("", _SEQUENCE.sub("", shown))


def one_line(text: object) -> str:
    """The same on one line: line breaks, tabs and runs of blanks become one blank."""
    return " ".join(sanitize(text).split())


def written_out(text: object) -> str:
    """A name with its hidden characters written out: none can pass for another."""
    return "".join(
        c if unicodedata.category(c) not in _HIDDEN else c.encode("unicode_escape").decode()
        for c in str(text)
    )
