"""What text from people and programs may contain: names that look like another, hidden characters.

Pure. Which characters change the direction of text or show nothing is Unicode's own property
(UAX 44, general category Cf; UAX 9 for the bidirectional ones); mixing of scripts follows UTS 39,
section 5.1, kept to what Python's database knows.
"""

import unicodedata
from collections.abc import Container

# Explicit marks, embeddings, overrides and isolates (UAX 9, section 2).
_BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
# Controls, what shows nothing, halves of surrogates, and separators that are no space.
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
# These go together in one name: Japanese and Korean are written with several.
_EAST_ASIAN = frozenset(
    {
        *("CJK", "HIRAGANA", "KATAKANA", "HANGUL", "BOPOMOFO"),
        # Marks that repeat a character or make a vowel long.
        *("IDEOGRAPHIC", "KATAKANA-HIRAGANA"),
    }
)


def has_bidi_controls(text: str) -> bool:
    """Whether something in the text changes the direction in which it is shown."""
    return not _BIDI.isdisjoint(text)


def scripts_of(text: str) -> frozenset[str]:
    """The scripts of a text's letters by the first word of their names, such as {"LATIN"}."""
    found = {unicodedata.name(letter, "?").split()[0] for letter in text if letter.isalpha()}
    return frozenset("EAST ASIAN" if script in _EAST_ASIAN else script for script in found)


def is_one_script(text: str) -> bool:
    """Whether the letters of a name are of one script, so that none is there to look like another.

    The text must be in normal form NFKC; full-width letters, say, are a script's own before that.
    """
    return len(scripts_of(text)) <= 1


def visible(text: str) -> str:
    r"""The text with hidden characters written out, such as "re\u202etxt.exe" for U+202E."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_written_out(letter) if _is_hidden(letter) else letter for letter in text)


def first_outside(text: str, allowed: Container[str]) -> str:
    """The first character that is not allowed, for a sentence: “Ö” (U+00D6); "": all are."""
    for letter in unicodedata.normalize("NFC", text):
        if letter in allowed:
            continue
        number = f"U+{ord(letter):04X}"
        if _is_hidden(letter) or (letter.isspace() and letter != " "):
            return number
        return f"“{letter}”" if letter.isascii() else f"“{letter}” ({number})"
    return ""


def replace_hidden(text: str, by: str) -> str:
    """The text with each hidden character replaced."""
    return "".join(by if _is_hidden(letter) else letter for letter in text)


def _is_hidden(letter: str) -> bool:
    return unicodedata.category(letter) in _HIDDEN_CATEGORIES


def _written_out(letter: str) -> str:
    code = ord(letter)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
