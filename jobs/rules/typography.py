"""Signs that word processors, web pages and keyboards of other scripts put in place of those that programs know. Pure.

`_PLAIN` says what each was meant as; the patterns say where it counts. Where it may be meant as it stands, as in a
sentence or in a word of another script, it does not.
"""

import re
from collections.abc import Iterator, Sequence

_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"
_DOUBLE = "\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\uff02"
_SINGLE = "\u2018\u2019\u201a\u201b\u2032\u00b4\uff07"
_QUOTES = frozenset(_DOUBLE + _SINGLE)
_BLANKS = "\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_UNSEEN = "\u00ad\u200b-\u200d\u2060-\u2064\ufeff"
_DIRECTIONS = "\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069"
# Full-width punctuation, as keyboards of Chinese and Japanese write it: U+FF01 to U+FF5E but for letters and digits.
_WIDE = {
    chr(code): chr(code - 0xFEE0)
    for code in range(0xFF01, 0xFF5F)
    if not chr(code - 0xFEE0).isalnum()
} | {"\u3001": ",", "\u3002": "."}
_LIGATURES = {
    "\ufb00": "ff",
    "\ufb01": "fi",
    "\ufb02": "fl",
    "\ufb03": "ffi",
    "\ufb04": "ffl",
    "\ufb05": "st",
    "\ufb06": "st",
}


def _each(ranges: str) -> Iterator[str]:
    """The signs of a class of a pattern."""
    for first, last in re.findall(r"(.)(?:-(.))?", ranges, re.DOTALL):
        yield from map(chr, range(ord(first), ord(last or first) + 1))


_PLAIN = {
    **_WIDE,
    **_LIGATURES,
    **dict.fromkeys(_DASHES, "-"),
    **dict.fromkeys(_DOUBLE, '"'),
    **dict.fromkeys(_SINGLE, "'"),
    **dict.fromkeys(_each(_BLANKS), " "),
    **dict.fromkeys(_each(_UNSEEN + _DIRECTIONS), ""),
}
_TO_PLAIN = str.maketrans(_PLAIN)
# Whole words are looked through by these, so none may look twice at what it has passed.
_DASHED = re.compile(rf"(?=-?[{_DASHES}])[-{_DASHES}]+(?=[A-Za-z])")
_OPTION = re.compile(r"--?[A-Za-z][^\s=\uff1d]*\uff1d?")
_NEVER_MEANT = re.compile(f"[{_BLANKS}{_UNSEEN}\ufb00-\ufb06]")
_DIRECTION = re.compile(f"[{_DIRECTIONS}]")
_MINUS = re.compile(rf"(?:(?<![^=,:\[(])|(?<=\d[eE]))[{_DASHES}](?=\.?\d)")
_RANGE = re.compile(rf"\d+[{_DASHES}]\d+")
_WIDE_SIGN = re.compile(f"[{re.escape(''.join(_WIDE))}]")
_PLAIN_LETTER = re.compile(r"[A-Za-z0-9]")
_MOST_SHOWN = 4
_SHOWN_CHARS = 80


def typography(words: Sequence[str]) -> list[str]:
    """A sentence about signs of words that no program expects, with the words to write; none: there are none."""
    odd = [(word, *_typed_plainly(word)) for word in words]
    odd = [row for row in odd if row[2]][:_MOST_SHOWN]
    if not odd:
        return []
    signs = dict.fromkeys("".join(signs for _word, _fixed, signs in odd))
    named = ", ".join(f"U+{ord(sign):04X}" for sign in [*signs][:_MOST_SHOWN])
    shown = _cut(" ".join(word for word, _fixed, _signs in odd))
    fixed = _cut(" ".join(fixed for _word, fixed, _signs in odd))
    return [f"“{shown}” has signs that no program expects ({named}). Write: {fixed}"]


def _typed_plainly(word: str) -> tuple[str, str]:
    """The word with plain signs, and the signs that they replace."""
    signs: list[str] = []

    def plain(match: re.Match[str]) -> str:
        signs.extend(sign for sign in match[0] if sign in _PLAIN)
        return match[0].translate(_TO_PLAIN)

    def dashes(match: re.Match[str]) -> str:
        plain(match)
        is_letter = re.fullmatch(r"[A-Za-z](?:=.*)?", word[match.end() :], re.DOTALL)
        return "-" if is_letter and len(match[0]) == 1 else "--"

    # Within a sentence they are meant as they are, but at its beginning.
    is_sentence = " " in word
    fixed = word
    if not is_sentence:
        fixed = _NEVER_MEANT.sub(plain, fixed)
        fixed = fixed if _is_foreign(fixed) else _DIRECTION.sub(plain, fixed)
    if dashed := _DASHED.match(fixed):
        fixed = f"{dashes(dashed)}{fixed[dashed.end() :]}"
    option = _OPTION.match(fixed)
    name, value = (plain(option), fixed[option.end() :]) if option else ("", fixed)
    if not is_sentence:
        value = _MINUS.sub(plain, value)
        value = _RANGE.sub(plain, value) if _RANGE.fullmatch(value.removeprefix("=")) else value
        if _PLAIN_LETTER.search(value) and not _is_foreign(value):
            value = _WIDE_SIGN.sub(plain, value)
    fixed = name + value
    start = fixed.rpartition("=")[2][:1] if "=" in fixed else fixed[:1]
    if start in _QUOTES or (fixed[-1:] in _QUOTES and not is_sentence):
        signs += [sign for sign in fixed if sign in _QUOTES]
        fixed = "".join(_PLAIN[sign] if sign in _QUOTES else sign for sign in fixed)
    return fixed, "".join(signs)


def _is_foreign(word: str) -> bool:
    """Whether it has letters that no keyboard of English has, so that it is text of a language."""
    return not word.isascii() and any(
        sign > "\x7f" and sign.isalpha() and sign not in _PLAIN for sign in word
    )


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}…"
