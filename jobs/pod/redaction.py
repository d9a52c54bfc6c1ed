# ruff: noqa: UP006, UP035 (the syntax of Python 3.6: images bring their own Python)
"""Takes the values of secrets out of a line that more people may read than those whose secrets they are."""

import json
import os
import re
from typing import Dict, Iterable, List, Set
from urllib.parse import quote

HIDDEN = "***"
# A person may put a key into a variable without calling it a secret.
_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASS|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY", re.IGNORECASE
)
# A shorter value is hidden as a word alone: it would be found within others, and gives nothing away there.
_WORD_CHARS = 6
# TOKEN and PASS are parts of other names, too: TOKENIZERS_PARALLELISM, MAX_TOKENS, NUM_PASSES. These seldom are.
_SURE_NAME = re.compile(r"PASSW|PASSPHRASE|SECRET|CREDENTIAL|_?KEY", re.IGNORECASE)
_SWITCH = re.compile(r"true|false|yes|no|on|off|none|null|auto|default", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?[\d_]*\.?[\d_]+(?:e[+-]?\d+)?", re.IGNORECASE)
_FILE_BYTES = 1024 * 1024  # a Secret of Kubernetes has no more


def secret_values(env: Dict[str, str], names: Iterable[str], folder: str) -> List[str]:
    """Values that are not to be shown.

    Args:
        env: variables of the program.
        names: those that come from secrets.
        folder: below it are secrets as files; it need not be there.
    """
    known = set(names)
    found = [text for name, text in env.items() if name in known or _sounds_secret(name, text)]
    for parent, _folders, files in os.walk(folder):
        for name in files:
            try:
                with open(os.path.join(parent, name), "rb") as file:
                    found.append(file.read(_FILE_BYTES).decode("utf-8", "replace"))
            except OSError:
                continue  # the program, of the same user, could not read it either
    return found


def _sounds_secret(name: str, text: str) -> bool:
    """Whether a variable seems to hold a secret that nobody called one; its value is to be hidden everywhere."""
    value = text.strip()
    if not _SECRET_NAME.search(name) or _SWITCH.fullmatch(value):
        return False
    is_short, is_number = len(value) < _WORD_CHARS, bool(_NUMBER.fullmatch(value))
    if _SURE_NAME.search(name):
        return not (is_short and is_number)
    return not (is_short or is_number)


class Redaction:
    """Hides values in lines, as they are and as programs write them: quoted, in JSON, in addresses."""

    def __init__(self, values: Iterable[str]) -> None:
        forms: Set[str] = set()
        for value in values:
            # As the end of an output is read: what is no text of UTF-8 is replaced.
            known = value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            for part in [known, *known.splitlines()]:
                text = part.strip()
                forms |= {text, repr(text)[1:-1], json.dumps(text)[1:-1], quote(text, safe="")}
        # The longest first: a value may be a part of another one.
        self._forms = sorted(filter(None, forms), key=lambda form: (-len(form), form))

    def hide(self, line: str, *, is_cut: bool = False) -> str:
        """The line without them.

        Args:
            is_cut: a value at its end may be there in part.
        """
        for form in self._forms:
            if len(form) >= _WORD_CHARS:
                line = line.replace(form, HIDDEN)
            elif form in line:
                line = re.sub(r"(?<!\w)" + re.escape(form) + r"(?!\w)", HIDDEN, line)
        if is_cut:
            line = self._without_part(line)
        return line

    def _without_part(self, line: str) -> str:
        line = line.rstrip("\ufffd")  # the half of a character
        most = 0
        for form in self._forms:
            for size in range(min(len(form) - 1, len(line)), most, -1):
                if line.endswith(form[:size]):
                    most = size
                    break
        return line[: len(line) - most] + HIDDEN if most else line
