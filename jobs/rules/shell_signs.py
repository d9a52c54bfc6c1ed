"""What of a command a shell makes something else of, in a line that was typed and in words of a list. Pure.

The rules are those of https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html (quoting, expansions,
operators), with brace expansion, `$'...'` and other words of bash. `_SIGNS` has each sign once: how it stands in a
line, and which word of a list cannot mean it as it stands.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

# Which only a shell itself can do, and no program of that name does; `compgen -bk` of bash lists most.
_OF_ALL_SHELLS = shlex.split(
    ". : ! '{' '(' alias bg break case cd command continue do done elif else esac eval exec exit export fc fg fi for getopts "
    "hash if in jobs local read readonly return set shift then times trap type ulimit umask unalias unset until wait while"
)
OF_BASH = shlex.split(
    "[[ (( bind builtin caller compgen complete compopt coproc declare dirs disown enable function help history let "
    "logout mapfile popd pushd readarray select shopt source suspend time typeset"
)
BUILTINS = frozenset([*_OF_ALL_SHELLS, *OF_BASH, "module"])
_OPERATORS = re.compile(r"[<>]\(|&>>?|\d?>+(?:&\d)?|\d?<+|[|&;<>]+|[()]")
_OPERATOR_WORDS = frozenset(
    [
        "&&",
        "||",
        "|",
        "|&",
        ">",
        ">>",
        "<",
        "<<",
        "<<<",
        ";",
        ";;",
        "&",
        "&>",
        "&>>",
        "2>",
        "2>>",
        "1>",
        "1>>",
        "2>&1",
        ">&2",
        "1>&2",
        "(",
        ")",
    ]
)
# Whole commands are looked through by these, so none may look twice at what it has passed: no class that goes on to a
# closing sign has the opening one, or it has a most.
_VARIABLE = re.compile(
    r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_][^}]{0,1000}\}|\([^)]{0,1000}\)?|[0-9@*#?$!'\"])"
)
_NAMED = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_][^}]{0,1000}\}|\([^)]{1,1000}\))")
_BACKTICKS = re.compile(r"`(?:[^`]*`)?")
_BACKTICKS_WORD = re.compile(r"^[^\s`]*(`[^`]+`)[^\s`]*$")
# Other signs of patterns stand in addresses and lists, and seldom match a file.
_ANY = re.compile(r"\*")
_ANY_WORD = re.compile(r"^(?!-)(?=\*?[\w./~-])[\w./~-]*(\*)[\w./*-]*$")
_BRACES = re.compile(r"(?<![{$])\{(?=[^{}\s,.]*(?:\.(?!\.)[^{}\s,.]*)*(?:,|\.\.))[^{}\s]*\}(?!\})")
_BRACES_WORD = re.compile(
    r"^\{(?:-?\d+\.\.-?\d+(?:\.\.-?\d+)?|[A-Za-z]\.\.[A-Za-z]|[\w.-]+(?:,[\w.-]+)+)\}$"
)
_NEW_LINE = re.compile(r"\n")
_COMMENT = re.compile(r"#")
_COMMENT_WORD = re.compile(r"^#$")
_HOME = re.compile(r"~(?=\s|$)|~\w*/\S*")
_HOME_WORD = re.compile(r"^~\w*/\S*")
_HOME_ALONE = re.compile(r"^~$")
# Into a file, or a command behind another: `>5`, `<unk>` and `dog|cat` are what programs are given.
_OPERATOR_WORD = re.compile(
    r"^(\d?>>?|&>>?|\d?<)(?=[^A-Za-z_/]*[A-Za-z_/])[\w./~${}-]+$|^(&&|\|\|)[\w./]\S*$"
    r"|(\|&?|&&|\|\||;)(?:tee|grep|egrep|xargs)$|^([<>]\()"
)
_BEHIND_SCRIPT = re.compile(r"^[\w./-]+\.(?:py|sh|R|jl)(\|\|?|&&?|;|<|>>?(?!=))")


class _Sign(NamedTuple):
    """What a shell makes something else of.

    A group of `word` or `argument` is the sign within the word.
    """

    first: str  # what it begins with in a line
    typed: re.Pattern[str]  # in a line, outside of quotes
    word: re.Pattern[str] | None = None  # in a word of a list, of which there are fewer
    argument: re.Pattern[str] | None = None  # likewise, unless it is the value of the option before
    in_quotes: bool = False  # typed: double ones leave it what it is
    begins_word: bool = False  # typed: elsewhere it is a letter as any other
    of_bash: bool = False  # no other shell need know it


_SIGNS = (
    _Sign("$", _VARIABLE, _NAMED, in_quotes=True),
    _Sign("`", _BACKTICKS, _BACKTICKS_WORD, in_quotes=True),
    _Sign("\n", _NEW_LINE),
    _Sign("|&;<>()", _OPERATORS, _OPERATOR_WORD, _BEHIND_SCRIPT),
    _Sign("*", _ANY, argument=_ANY_WORD),
    _Sign("{", _BRACES, _BRACES_WORD, of_bash=True),
    _Sign("#", _COMMENT, _COMMENT_WORD, begins_word=True),
    _Sign("~", _HOME, _HOME_WORD, _HOME_ALONE, begins_word=True),
)
_ROW_OF = {sign: row for row in _SIGNS for sign in row.first}
_BASH_OPERATORS = frozenset({"|&", "&>", "&>>", "<<<", "<(", ">(", "$'", '$"'})
_OF_FILES = frozenset({"cat", "cp", "head", "ls", "mv", "rm", "tail", "touch", "wc"})
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_ASSIGNED = re.compile(r"(?:[A-Za-z_]\w*=)+")
_SPECIAL = re.compile(r'[\\"`$]')  # within double quotes


@dataclass(frozen=True)
class FoundSign:
    """A sign of a line, and the word of the line in which it stands, from 0."""

    sign: str
    word: int
    is_quoted: bool  # in double quotes, or given as a word


def is_line(words: Sequence[str]) -> bool:
    """Whether the first word is a whole command in quotes."""
    is_path = words[0].startswith(("/", "./"))
    is_variable = len(words) > 1 and ASSIGNMENT.fullmatch(words[0])
    return " " in words[0].strip() and not is_path and not is_variable


def is_of_bash(sign: str) -> bool:
    """Whether no other shell need know it."""
    is_row = any(row.of_bash and row.typed.match(sign) for row in _SIGNS)
    return sign in _BASH_OPERATORS or is_row


def signs_of_line(text: str) -> Iterator[FoundSign]:
    """Of a line, what a shell does not pass on as it stands, with what belongs to it; quoted signs are not."""
    text = text.strip()
    at, quote, is_word_start, word = 0, "", True, 0
    while at < len(text):
        sign = text[at]
        found, length = "", 1
        if quote == "'":
            quote = "" if sign == "'" else quote
        elif sign == "\\":
            length = 2
            found = text[at : at + 2] if quote and text[at + 1 : at + 2] in {"$", "`"} else ""
        elif found := _begins(text, at, is_quoted=bool(quote), is_word_start=is_word_start):
            # A quote that belongs to it begins as any other.
            length = len(found.rstrip("'\""))
        elif sign in "'\"" and quote in {"", sign}:
            quote = "" if quote else sign
        if found:
            yield FoundSign(found, word, bool(quote))
        if found == "#":
            return
        is_blank = not quote and sign in " \t\r\n"
        word += is_blank and text[at + 1 : at + 2] not in {" ", "\t", "\r", "\n"}
        is_word_start = not quote and (sign.isspace() or sign in "|&;<>()")
        at += length


def _begins(text: str, at: int, *, is_quoted: bool, is_word_start: bool) -> str:
    """What of a line a shell makes something else of begins here; "": nothing."""
    sign = text[at]
    if is_word_start and sign.isdecimal() and text[at + 1 : at + 2] in {"<", ">"}:
        sign = text[at + 1]  # 2>
    row = _ROW_OF.get(sign)
    if row is None or (is_quoted and not row.in_quotes):
        return ""
    match = row.typed.match(text, at)
    if match is None or (row.begins_word and not is_word_start):
        return ""
    return "" if is_quoted and match[0] in {"$'", '$"'} else match[0]


def signs_of_words(words: Sequence[str], *, is_script: bool = False) -> Iterator[FoundSign]:
    """Of words that were given one by one, those signs that no program would be given so.

    Args:
        is_script: somebody meant a shell, so that values of options have signs, too.
    """
    for at, word in enumerate(words):
        if word in _OPERATOR_WORDS or (
            at < len(words) - 1 and word.endswith(";") and not _is_value(word.rstrip(";"))
        ):
            yield FoundSign(word, at, is_quoted=True)
        else:
            for _row, match in _matches(words, at, is_script=is_script):
                yield FoundSign(match[match.lastindex or 0], at, is_quoted=True)


def _is_value(word: str) -> bool:
    """Whether what follows is the value of an option: `--sep=`."""
    return word.startswith("-") and word.endswith("=")


def _matches(
    words: Sequence[str], at: int, *, is_script: bool = False
) -> Iterator[tuple[_Sign, re.Match[str]]]:
    """Of a word, what it has of the signs of words."""
    word = words[at]
    if _ROW_OF.keys().isdisjoint(word):
        return
    is_sentence = len(word.split(maxsplit=1)) > 1
    before = words[at - 1] if at else ""
    is_option = before.startswith("-") and "=" not in before
    is_value = is_option and words[0] not in _OF_FILES and not is_script
    for row in _SIGNS:
        if (is_sentence and not row.in_quotes) or (row.begins_word and not at):
            continue
        for pattern in (row.word, None if is_value else row.argument):
            if pattern:
                yield from ((row, match) for match in pattern.finditer(word))


def unquoted(words: Sequence[str], at: int, *, is_script: bool) -> str:
    """A word of a line, in which what a shell is to see stays as it is."""
    word = words[at]
    if word in _OPERATOR_WORDS or word in BUILTINS:
        return word
    if any(row.word is not _NAMED for row, _match in _matches(words, at, is_script=is_script)):
        return word
    return _with_variables(word) if at or not is_line(words) else shlex.quote(word)


def _with_variables(word: str) -> str:
    if word.endswith(";") and not _is_value(word.rstrip(";")):
        before = word.rstrip(";")
        return f"{_with_variables(before) if before else ''}{word[len(before) :]}"
    if assigned := _ASSIGNED.match(word):
        value = word[assigned.end() :]
        return f"{assigned[0]}{_with_variables(value) if value else ''}"
    named = [match[0] for match in _NAMED.finditer(word)]
    between = _NAMED.split(word)
    if not named or all(shlex.quote(text) == text for text in between if text):
        return word if named else shlex.quote(word)
    quoted = _SPECIAL.sub(r"\\\g<0>", between[0])
    for variable, text in zip(named, between[1:], strict=True):
        quoted += variable + _SPECIAL.sub(r"\\\g<0>", text)
    return f'"{quoted}"'
