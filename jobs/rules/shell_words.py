"""What of a command a shell would treat otherwise than Homeport, which passes words on as they are. Pure.

What a line that was typed and words of a list have in common is said by one function; `shell_signs` has the signs.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jobs.rules.shell_signs import (
    ASSIGNMENT,
    BUILTINS,
    OF_BASH,
    FoundSign,
    is_line,
    is_of_bash,
    signs_of_line,
    signs_of_words,
    unquoted,
)
from jobs.rules.typography import typography

_SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
_STARTERS = frozenset({"exec", "command", "builtin"})  # of the command behind them alone
_DRIVE = re.compile(r"(?<![^\s=\"'])(?:[A-Za-z]:\\|[A-Z]:/(?!/))[^\s\"']*")
_ENVIRONMENT = re.compile(r"\([^\s()]+\)")  # of Python, before a prompt: (venv)
_PROMPTS = frozenset({"$", "%", ">", ">>>", "...", "#"})
_PROMPT_END = re.compile(r"[^\s@]+@\S+[$#%]")
_OF_NOTEBOOKS = re.compile(r"!(?=[\w./])|%(?=(?:conda|mamba|pip|run|uv)$)")
_ACTIVATION = re.compile(
    r"(conda|mamba|micromamba|source|\.)\s+activate(?:\s+([^\s;&|]+))?\s*(?:(?:&&|;|\n)\s*(\S.*)?)?$",
    re.DOTALL,
)
_SCRIPT = re.compile(r"-(?=[a-bd-z]*c)[a-z]*")  # the option of a shell that a script follows
_READS_ARGUMENTS = re.compile(r"\$\{?[0-9@*#]")
_PYTHON = re.compile(r"python[\d.]*|ipython\d?|torchrun")
_MOST_SHOWN = 4
_LINE_CHARS = 300


@dataclass(frozen=True)
class _Given:
    """A command in its two shapes, without a prompt."""

    words: list[str]
    line: str  # with what a shell is to see as it stands
    found: list[FoundSign]

    @property
    def signs(self) -> list[str]:
        return [one.sign for one in self.found]


def _is_any(_name: str) -> bool:
    return True


def word_hints(words: Sequence[str], *, is_allowed: Callable[[str], bool] = _is_any) -> list[str]:
    """Sentences about a command that was given as a list of words, each naming a sign, with what to write.

    Args:
        is_allowed: whether people may choose a variable of this name.
    """
    if not words:
        return []
    prompt, rest, _count = _without_prompt(words)
    found = [*signs_of_words(rest)] and [*signs_of_words(rest, is_script=True)]
    line = " ".join(unquoted(rest, at, is_script=bool(found)) for at in range(len(rest)))
    return _hints(_Given(rest, line, found), prompt, is_allowed)


def typed_hints(text: str, *, is_allowed: Callable[[str], bool] = _is_any) -> list[str]:
    """Sentences about a command line as a person typed or pasted it.

    Args:
        is_allowed: see `word_hints`.

    Raises:
        ValueError: a quote is missing.
    """
    joined = re.sub(r"\\\r?\n", " ", text).replace("\r\n", "\n").strip()
    words = shlex.split(joined)
    if not words:
        return []
    prompt, rest, count = _without_prompt(words)
    if count:
        joined = joined.split(maxsplit=count)[count]
    elif prompt:
        joined = " ".join([rest[0], *joined.split(maxsplit=1)[1:]])
    return _hints(_Given(rest, joined, [*signs_of_line(joined)]), prompt, is_allowed)


def _hints(given: _Given, prompt: str, is_allowed: Callable[[str], bool]) -> list[str]:
    words, line = given.words, given.line
    if script_at := _script_at(words):
        outer = _of_script(given, script_at)
        before = [_prompt_hint(prompt, line)] if prompt and not outer else []
        return before + outer + typography(words[script_at].split())
    signs = [sign for sign in given.signs if sign != "\n"]
    found = []
    if is_line(words):
        found.append(_one_word(given))
    elif told := _activation(line):
        found.append(told)
    elif signs:
        named = [prompt] if prompt else []
        named += [words[0]] if words[0] in BUILTINS else []
        found.append(_for_a_shell([*named, *signs], line, _shell(words[0], signs)))
    else:
        found += _first_word(given, prompt, is_allowed)
        found += [_new_lines(line, _shell(words[0], []))] if given.found else []
    # A backslash is seen where it was typed: as a word it may be gone.
    if drive := _DRIVE.search(line):
        found.append(_windows(drive[0]))
    return found + _notebook(words) + typography(words)


def _script_at(words: Sequence[str]) -> int:
    """Which word is the script that a shell gets by `-c`; 0: there is none."""
    if words[0].rpartition("/")[2] not in _SHELLS:
        return 0
    for at, word in enumerate(words[1:-1], 1):
        if _SCRIPT.fullmatch(word):
            return at + 1
        if not word.startswith(("-", "+")):
            break
    return 0


def _of_script(given: _Given, at: int) -> list[str]:
    """About what stands around the script of a shell, which itself is one's own affair."""
    script, behind = given.words[at], given.words[at + 1 :]
    # In double quotes the shell that is started sees what one before it would have seen.
    outside = [
        one.sign
        for one in given.found
        if one.word != at or not one.is_quoted or one.sign[:1] == "\\"
    ]
    typed = given.line.split(maxsplit=at)[at]
    is_quoted = typed[:1] in {"'", '"'}
    if behind and not _is_read(script, behind) and not (outside and is_quoted):
        shell = " ".join(given.words[:at])
        whole = f"{script} {shlex.join(behind)}" if is_quoted else typed
        told = f"{shell} runs the next word alone, which is {_cut(script, 80)}; words behind it are only $0, $1 and so on of it."
        return [f"{told} Write: {shell} {_quoted(whole)}"]
    others = [sign for sign in outside if sign != "\n"]
    return [_for_a_shell(others, given.line, _shell("", others))] if others else []


def _is_read(script: str, behind: Sequence[str]) -> bool:
    """Whether a script does something with the words behind it, or they are only the name that it gets."""
    if _READS_ARGUMENTS.search(script):
        return True
    name = behind[0]
    is_own_name = name in _SHELLS or name in {"_", "-", "--"} or name == script.rpartition("/")[2]
    is_name = is_own_name or (" " in script and not name.startswith("-"))
    return len(behind) == 1 and is_name


def _without_prompt(words: Sequence[str]) -> tuple[str, list[str], int]:
    """A shell's prompt, also `(venv) $`, or a notebook's sign; the words behind it; and how many words it has."""
    if sign := _OF_NOTEBOOKS.match(words[0]):
        started = words[0][1:] if words[0] != "%run" else "python"
        return sign[0], [started, *words[1:]], 0
    at = 1 if _ENVIRONMENT.fullmatch(words[0]) else 0
    is_prompt = any(word.strip() for word in words[at + 1 :]) and (
        words[at] in _PROMPTS or _PROMPT_END.fullmatch(words[at])
    )
    count = at + 1 if is_prompt else 0
    return " ".join(words[:count]), [*words[count:]], count


def _one_word(given: _Given) -> str:
    """About a whole command in quotes."""
    first = given.words[0]
    quoted = shlex.quote(first)
    behind = given.line[len(quoted) :] if given.line.startswith(quoted) else ""
    line = f"{first}{behind or ''.join(f' {shlex.quote(word)}' for word in given.words[1:])}"
    signs = [one.sign for one in signs_of_line(line)]
    program = first.split(maxsplit=1)[0]
    write = f"Write its words one by one: {_cut(line)}"
    if signs or program in BUILTINS:
        write = f"For a shell, write: {_shell(program, signs)} -c {_quoted(line)}"
    return f"“{_cut(first)}” is one word, which is taken for the name of a program. {write}"


def _prompt_hint(prompt: str, line: str) -> str:
    whose = "a notebook's sign" if prompt in {"!", "%"} else "the prompt of a shell"
    return f"{prompt} is {whose}, and no program. Write: {_cut(line)}"


def _first_word(given: _Given, prompt: str, is_allowed: Callable[[str], bool]) -> Iterator[str]:
    """About a command without signs, of which a line for a shell is said anyway."""
    words, line = given.words, given.line
    first, rest = words[0], words[1:]
    if given.found and not _goes_on(line):  # a line for a shell is said
        return
    if rest and ASSIGNMENT.fullmatch(first):
        name = first.partition("=")[0]
        choose = (
            f"Enter {name} as an environment variable, or write" if is_allowed(name) else "Write"
        )
        yield (
            f"Only a shell takes {_cut(first)} in front of a command for a variable. {choose}: env {_cut(line)}"
        )
    elif first in _STARTERS and rest and not rest[0].startswith("-"):
        yield f"{first} is a word of shells, and no program. Write: {_cut(line.split(maxsplit=1)[1])}"
    elif first in BUILTINS:
        whose = "no program in most images" if first == "time" else "no program"
        write = f"{_shell(first, [])} -c {_quoted(line)}"
        yield f"{first} is a word of shells, and {whose}. Write: {write}"
    elif prompt:
        yield _prompt_hint(prompt, line)


def _activation(line: str) -> str:
    """About an environment of conda's, which only a shell that was set up for it activates; "": it is none."""
    match = _ACTIVATION.match(line)
    if match is None:
        return ""
    program, name, command = match.groups()
    tool = program if program in {"mamba", "micromamba"} else "conda"
    # Else conda keeps what the program says until it ends.
    options = "" if tool == "micromamba" else " --no-capture-output"
    where = f"-p {name}" if name and "/" in name else f"-n {name or 'base'}"
    signs = [one.sign for one in signs_of_line(command or "")]
    run = command or "COMMAND"
    run = f"{_shell('', signs)} -c {_quoted(run)}" if signs else _cut(run)
    return f"{program} activate works only in a shell that was set up for it. Write: {tool} run{options} {where} {run}"


def _shell(first: str, signs: Sequence[str]) -> str:
    """The least shell that knows these."""
    if first == "module":  # a function, which the profile of a login shell defines
        return "bash -l"
    return "bash" if first in OF_BASH or any(map(is_of_bash, signs)) else "sh"


def _for_a_shell(signs: Sequence[str], script: str, shell: str) -> str:
    shown = list(dict.fromkeys(_cut(sign, 40) for sign in signs))
    names = ", ".join(shown[:_MOST_SHOWN])
    is_one = len(shown) == 1
    return (
        f"Not run by a shell: {names} {'is' if is_one else 'are'} passed on as {'it stands' if is_one else 'they stand'}. "
        f"For a shell, write: {shell} -c {_quoted(script)}"
    )


def _goes_on(line: str) -> bool:
    """Whether each new line is a blank that somebody meant."""
    return all(one[:1] in {"", " ", "\t", "-"} for one in line.splitlines()[1:])


def _new_lines(script: str, shell: str) -> str:
    told = "Not run by a shell: a new line is read as a blank, so that this is one command."
    return told if _goes_on(script) else f"{told} For a shell, write: {shell} -c {_quoted(script)}"


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


def _quoted(script: str) -> str:
    return shlex.quote(_cut(script))


def _cut(text: str, chars: int = _LINE_CHARS) -> str:
    return text if len(text) <= chars else f"{text[:chars]}…"
