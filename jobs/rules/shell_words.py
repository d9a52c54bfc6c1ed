"""What of a command a shell would treat otherwise than Homeport, which passes words on as they are. Pure.

The rules are those of https://pubs.opengroup.org/onlinepubs/9799919799/utilities/V3_chap02.html (quoting, expansions,
operators), with brace expansion and `$'...'` of bash.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
# Which only a shell itself can do, and no program of that name does.
_BUILTINS = frozenset(
    [
        "cd",
        "export",
        "source",
        ".",
        "set",
        "unset",
        "alias",
        "ulimit",
        "umask",
        "eval",
        "exec",
        "trap",
        "shopt",
        "declare",
        "local",
        "read",
        "wait",
        "if",
        "for",
        "while",
        "until",
        "case",
        "function",
        "select",
        "{",
        "(",
        "!",
        "[[",
        "((",
        "pushd",
        "popd",
        "module",
    ]
)
_OPERATORS = re.compile(r"[|&;<>]+|\d?>+(&\d)?|\d?<+|[|&;<>(){}]|&>>?")
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
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_ASSIGNED = re.compile(r"(?:[A-Za-z_]\w*=)+")
_BRACES = re.compile(r"(?<![{$])\{(?=[^{}\s,.]*(?:\.(?!\.)[^{}\s,.]*)*(?:,|\.\.))[^{}\s]*\}(?!\})")
_DRIVE = re.compile(r"[A-Za-z]:\\")
_SPECIAL = re.compile(r'[\\"`$]')  # within double quotes
_ENVIRONMENT = re.compile(r"\([^\s()]+\)")  # of Python, before a prompt: (venv)
_PROMPTS = frozenset({"$", "%", ">", ">>>", "...", "#"})
_PROMPT_END = re.compile(r"[^\s@]+@\S+[$#%]")
# Sign -> what was meant where it stands for something else.
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d"
_DASHED = re.compile(rf"[{_DASHES}]+-*(?=[A-Za-z])|-[{_DASHES}]+(?=[A-Za-z])")
_QUOTES = dict.fromkeys("\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\uff02", '"') | dict.fromkeys(
    "\u2018\u2019\u201a\u201b\u2032\uff07", "'"
)
_SPACES = re.compile(r"[\u00a0\u1680\u2000-\u200d\u2028\u2029\u202f\u205f\u2060\u3000\ufeff]")
_HOME = re.compile(r"~(?=\s|$)|~\w*/\S*")
_SCRIPT = re.compile(r"-(?=[a-bd-z]*c)[a-z]*")  # the option of a shell that a script follows
_PYTHON = re.compile(r"python[\d.]*|ipython\d?|torchrun")
_MOST_SHOWN = 4
_LINE_CHARS = 300


def _is_any(_name: str) -> bool:
    return True


def word_hints(words: Sequence[str], *, is_allowed: Callable[[str], bool] = _is_any) -> list[str]:
    """Sentences about a command that was given as a list of words, each naming a sign, with what to write.

    Args:
        is_allowed: whether people may choose a variable of this name.
    """
    if not words:
        return []
    if script := _script(words):
        return _typography([*script.split()])
    first, line = words[0], shlex.join(words)
    found = []
    if _is_line(words):
        found.append(
            f"“{_cut(first)}” is one word, which is taken for the name of a program. Write its words one by "
            f"one: {_cut(first)}"
        )
    signs = [word for word in words if word in _OPERATOR_WORDS]
    signs += [word for word in words[:-1] if word.endswith(";") and word not in _OPERATOR_WORDS]
    signs += [match[0] for word in words for match in _NAMED.finditer(word)]
    signs += [word for word in words if word.startswith("~/")]
    comment = next((at for at, word in enumerate(words) if word == "#" and at), None)
    signs += ["#"] if comment else []
    found[:0] = _first_word(words, line, is_allowed, has_signs=bool(signs))
    if signs:
        script = " ".join(_unquoted(word) for word in words)
        found.append(_for_a_shell(signs, script))
    found += [_windows(word) for word in words if _DRIVE.match(word)][:1]
    return found + _notebook(words) + _typography(words)


def typed_hints(text: str, *, is_allowed: Callable[[str], bool] = _is_any) -> list[str]:
    """Sentences about a command line as a person typed or pasted it.

    Args:
        is_allowed: see `word_hints`.

    Raises:
        ValueError: a quote is missing.
    """
    joined = re.sub(r"\\\r?\n", " ", text).replace("\r\n", "\n")
    words = shlex.split(joined)
    if not words:
        return []
    if script := _script(words):
        outside = list(_signs(joined))
        outer = [_for_a_shell(outside, joined.strip())] if outside else []
        return outer + _typography(script.split())
    prompt = _prompt_words(words)
    rest = joined.strip().split(maxsplit=prompt)[prompt] if prompt else joined.strip()
    signs = list(_signs(rest))
    found = [*_first_word(words, joined.strip(), is_allowed, has_signs=bool(signs))]
    if _is_line(words):
        found.append(
            f"“{_cut(words[0])}” is one word, which is taken for the name of a program. Write it without "
            f"quotes: {_cut(' '.join(words))}"
        )
    if others := [sign for sign in signs if sign != "\n"]:
        found.append(_for_a_shell(others, rest))
    elif signs:
        found.append(_new_lines(rest))
    if drive := re.search(r"[A-Za-z]:\\\S*", joined):
        found.append(_windows(drive[0]))
    return found + _notebook(words) + _typography(words)


def _script(words: Sequence[str]) -> str:
    """The script that a shell gets by `-c`; empty: there is none."""
    if words[0].rpartition("/")[2] not in _SHELLS:
        return ""
    for at, word in enumerate(words[1:-1], 1):
        if _SCRIPT.fullmatch(word):
            return words[at + 1]
        if not word.startswith(("-", "+")):
            break
    return ""


def _is_line(words: Sequence[str]) -> bool:
    """Whether the first word is a whole command in quotes."""
    is_path = words[0].startswith(("/", "./"))
    is_variable = len(words) > 1 and _ASSIGNMENT.fullmatch(words[0])
    return " " in words[0].strip() and not is_path and not is_variable


def _prompt_words(words: Sequence[str]) -> int:
    """How many words before the command are a shell's prompt, also `(venv) $`."""
    at = 1 if _ENVIRONMENT.fullmatch(words[0]) else 0
    if not any(word.strip() for word in words[at + 1 :]):
        return 0
    return at + 1 if words[at] in _PROMPTS or _PROMPT_END.fullmatch(words[at]) else 0


def _first_word(
    words: Sequence[str], line: str, is_allowed: Callable[[str], bool], *, has_signs: bool
) -> Iterator[str]:
    """
    Args:
        has_signs: a line for a shell is said anyway.
    """
    first, rest = words[0], words[1:]
    if prompt := _prompt_words(words):
        shown, command = " ".join(words[:prompt]), line.split(maxsplit=prompt)[prompt]
        yield f"{shown} is the prompt of a shell, and no program. Write: {_cut(command)}"
    elif rest and _ASSIGNMENT.fullmatch(first):
        if not has_signs:
            name = first.partition("=")[0]
            choose = (
                f"Enter {name} as an environment variable, or write"
                if is_allowed(name)
                else "Write"
            )
            yield (
                f"Only a shell takes {_cut(first)} in front of a command for a variable. {choose}: env {_cut(line)}"
            )
    elif first == "exec" and rest:
        yield f"exec is a word of shells, and no program. Write: {_cut(line.partition(' ')[2])}"
    elif first in _BUILTINS:
        yield f"{first} is a word of shells, and no program. Write: sh -c {_quoted(line)}"


def _for_a_shell(signs: Sequence[str], script: str) -> str:
    shown = list(dict.fromkeys(_cut(sign, 40) for sign in signs))
    names = ", ".join(shown[:_MOST_SHOWN])
    is_one = len(shown) == 1
    return (
        f"Not run by a shell: {names} {'is' if is_one else 'are'} passed on as {'it stands' if is_one else 'they stand'}. "
        f"For a shell, write: sh -c {_quoted(script)}"
    )


def _new_lines(script: str) -> str:
    told = "Not run by a shell: a new line is read as a blank, so that this is one command."
    goes_on = all(line[:1] in {"", " ", "\t", "-"} for line in script.splitlines()[1:])
    return told if goes_on else f"{told} For a shell, write: sh -c {_quoted(script)}"


def _windows(path: str) -> str:
    name = re.split(r"[\\/]", path)[-1]
    return (
        f"{_cut(path, 80)} is a path of Windows, which no replica has. Code lies in /workspace, the current folder; "
        f"write: {_cut(name, 80)}"
    )


def _notebook(words: Sequence[str]) -> list[str]:
    """About a file of Jupyter's that python is to run, which is JSON."""
    if not _PYTHON.fullmatch(words[0].rpartition("/")[2]):
        return []
    file = next((word for word in words[1:] if not word.startswith("-")), "")
    if not file.endswith(".ipynb"):
        return []
    line = f"jupyter nbconvert --to notebook --execute {shlex.quote(file)}"
    return [f"{_cut(file, 80)} is a notebook, which python does not run. Write: {_cut(line)}"]


def _typography(words: Sequence[str]) -> list[str]:
    """About signs that word processors and web pages put in place of the ones that programs know."""
    odd = [(word, *_typed_plainly(word)) for word in words]
    odd = [row for row in odd if row[2]][:_MOST_SHOWN]
    if not odd:
        return []
    signs = dict.fromkeys("".join(signs for _word, _fixed, signs in odd))
    named = ", ".join(f"U+{ord(sign):04X}" for sign in [*signs][:_MOST_SHOWN])
    shown = _cut(" ".join(word for word, _fixed, _signs in odd), 80)
    fixed = _cut(" ".join(fixed for _word, fixed, _signs in odd), 80)
    return [f"“{shown}” has signs that no program expects ({named}). Write: {fixed}"]


def _typed_plainly(word: str) -> tuple[str, str]:
    """The word with plain signs, and the signs that they replace."""
    signs = ""
    fixed = word
    if dashed := _DASHED.match(word):
        signs += "".join(sign for sign in dashed[0] if sign in _DASHES)
        fixed = f"--{word[dashed.end() :]}"
    # Within a sentence they are meant as they are.
    if " " not in word and (bad := _SPACES.findall(fixed)):
        signs += "".join(bad)
        fixed = _SPACES.sub(" ", fixed)
    start = fixed.rpartition("=")[2][:1] if "=" in fixed else fixed[:1]
    if start in _QUOTES or (fixed[-1:] in _QUOTES and " " not in word):
        signs += "".join(sign for sign in fixed if sign in _QUOTES)
        fixed = "".join(_QUOTES.get(sign, sign) for sign in fixed)
    return fixed, signs


def _signs(text: str) -> Iterator[str]:
    """Of a line, what a shell does not pass on as it stands, with what belongs to it; quoted signs are not."""
    text = text.strip()
    at, quote, is_word_start = 0, "", True
    while at < len(text):
        sign = text[at]
        found, length = "", 1
        if quote == "'":
            quote = "" if sign == "'" else quote
        elif sign == "\\":
            length = 2
            found = text[at : at + 2] if quote and text[at + 1 : at + 2] in {"$", "`"} else ""
        elif found := _expansion(text, at, is_quoted=bool(quote)):
            # A quote that belongs to it begins as any other.
            length = len(found.rstrip("'\""))
        elif sign in "'\"" and quote in {"", sign}:
            quote = "" if quote else sign
        elif not quote:
            found = _bare(text, at, is_word_start=is_word_start)
            length = len(found) or 1
        if found:
            yield found
        if found == "#":
            return
        is_word_start = not quote and (sign.isspace() or sign in "|&;<>()")
        at += length


def _expansion(text: str, at: int, *, is_quoted: bool) -> str:
    """A variable or a command whose output is put in, which also double quotes leave what it is; "": none."""
    if text[at] == "`":
        end = text.find("`", at + 1)
        return text[at : end + 1] if end > 0 else "`"
    variable = _VARIABLE.match(text, at)
    is_plain = variable is None or (is_quoted and variable[0] in {"$'", '$"'})
    return "" if is_plain or variable is None else variable[0]


def _bare(text: str, at: int, *, is_word_start: bool) -> str:
    """What only a sign outside of quotes begins; "": nothing."""
    sign = text[at]
    if (
        sign in "\n*"
    ):  # the other signs of patterns stand in addresses and lists, and seldom match a file
        return sign
    if operator := _OPERATORS.match(text, at) if sign in "|&;<>()" else None:
        return operator[0]
    if braces := _BRACES.match(text, at):
        return braces[0]
    if is_word_start and sign == "#":
        return sign
    home = _HOME.match(text, at) if is_word_start else None
    return home[0] if home else ""


def _unquoted(word: str) -> str:
    """A word of a script, in which what a shell is to see stays as it is."""
    if word in _OPERATOR_WORDS or word == "#" or word.startswith("~/"):
        return word
    if word.endswith(";"):
        before = word.rstrip(";")
        return f"{_unquoted(before) if before else ''}{word[len(before) :]}"
    if assigned := _ASSIGNED.match(word):
        value = word[assigned.end() :]
        return f"{assigned[0]}{_unquoted(value) if value else ''}"
    named = [match[0] for match in _NAMED.finditer(word)]
    between = _NAMED.split(word)
    if not named or all(shlex.quote(text) == text for text in between if text):
        return word if named else shlex.quote(word)
    quoted = _SPECIAL.sub(r"\\\g<0>", between[0])
    for variable, text in zip(named, between[1:], strict=True):
        quoted += variable + _SPECIAL.sub(r"\\\g<0>", text)
    return f'"{quoted}"'


def _quoted(script: str) -> str:
    return shlex.quote(_cut(script))


def _cut(text: str, chars: int = _LINE_CHARS) -> str:
    return text if len(text) <= chars else f"{text[:chars]}…"
