# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""Files that a command names, and why what it names cannot be run as it stands."""

import errno
import os
import shutil
from typing import Dict, Optional, Sequence

from jobs.pod.program import Ending
from jobs.pod.protocol import codes

FIRST_LINE_BYTES = 256  # BINPRM_BUF_SIZE: execve(2)
SHELLS = frozenset({"sh", "bash", "dash", "ash", "ksh", "zsh"})
_OF_SHELLS = frozenset(
    {"cd", "export", "source", ".", "set", "unset", "alias", "ulimit", "umask", "exec", "eval"}
)
# What runs a file whose first line does not say it: the first of them that the image has.
_BY_ENDING = {
    ".py": ("python", "python3"),
    ".sh": ("bash", "sh"),
    ".bash": ("bash",),
    ".zsh": ("zsh",),
    ".pl": ("perl",),
    ".r": ("Rscript",),
    ".jl": ("julia",),
    ".js": ("node",),
    ".rb": ("ruby",),
    ".php": ("php",),
    ".lua": ("lua",),
}


def unstartable(word: str, error: OSError, env: Dict[str, str]) -> Ending:
    """Why the command could not be started.

    Args:
        word: its first.
        env: its variables, for what is found in PATH.
    """
    path = env.get("PATH", os.defpath)
    if os.path.isdir(word) and "/" in word:
        text = f"{word} is a folder"
        return Ending(codes.EXIT_NOT_EXECUTABLE, codes.SCRIPT_MISSING, text)
    if isinstance(error, FileNotFoundError):
        return _not_found(word, error, path)
    text = f"{word} cannot be executed: {error.strerror or error}"
    if isinstance(error, PermissionError):
        starter = _starter(word, path)
        text += f"; start it by its interpreter: {starter} {word}" if starter else ""
        text += "" if starter else "; make it executable (chmod +x) before you upload it"
        is_windows = starter in SHELLS and _first_line(word).endswith(b"\r")
        text += f", and {_windows_words(word, b'')}" if is_windows else ""
    elif error.errno == errno.ENOEXEC:
        text += _why_no_script(word)
    return Ending(codes.EXIT_NOT_EXECUTABLE, codes.COMMAND_NOT_EXECUTABLE, text)


def _not_found(word: str, error: FileNotFoundError, path: str) -> Ending:
    if error.filename not in (None, word, word.encode("utf-8", "surrogateescape")):
        text = f"{word} cannot be started: {error.filename} does not exist"
        return Ending(codes.EXIT_NOT_FOUND, codes.COMMAND_NOT_FOUND, text)
    if "/" in word and os.path.exists(word):
        return _without_interpreter(word)
    if "/" in word:
        where = "this image" if word.startswith("/") else os.getcwd()
        text = f"there is no {word} in {where}"
        return Ending(codes.EXIT_NOT_FOUND, codes.SCRIPT_MISSING, text)
    if os.path.isfile(word):
        starter = "" if os.access(word, os.X_OK) else _starter(word, path)
        how = f"{starter} {word}" if starter else f"./{word}"
        text = f"{word} is looked for in PATH only; start it by {how}"
        return Ending(codes.EXIT_NOT_FOUND, codes.SCRIPT_MISSING, text)
    words = word.split()
    if word in _OF_SHELLS:
        text = f"{word} is a word of shells and no program; write the line behind bash -c"
    elif len(words) > 1 and shutil.which(words[0], path=path):
        apart = ", ".join(words[:-1]) + f" and {words[-1]}"
        text = f"there is no program “{word}”; write its words apart, as {apart}"
    else:
        # Which folders these are is no news to people, and on the embedded cluster they are of its own disk.
        text = f"there is no {word} in the folders of PATH, nor in the code"
    return Ending(codes.EXIT_NOT_FOUND, codes.COMMAND_NOT_FOUND, text)


def _without_interpreter(word: str) -> Ending:
    first = _first_line(word)
    if first.endswith(b"\r"):
        return Ending(codes.EXIT_NOT_FOUND, codes.WINDOWS_LINES, _windows_words(word, first))
    name = _interpreter(first)
    said = f"the interpreter {name}, which its first line names," if name else "its interpreter"
    text = f"{word} exists, but {said} does not"
    return Ending(codes.EXIT_NOT_FOUND, codes.COMMAND_NOT_FOUND, text)


def _interpreter(first: bytes) -> str:
    """The path that a first line names; empty: none."""
    words = first[2:].split() if first.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else ""


def _starter(word: str, path: str) -> str:
    """What runs a script, by its first line or its ending; empty: neither tells."""
    first = _first_line(word)
    if _interpreter(first):
        words = [os.fsdecode(each) for each in first[2:].split()]
        names = [os.path.basename(each) for each in words if not each.startswith("-")]
        if names[:1] == ["env"]:  # of `env -S NAME=VALUE python3 -u` the program
            names = [name for name in names[1:] if "=" not in name]
        if names:
            return names[0]
    known = _BY_ENDING.get(os.path.splitext(word)[1].lower(), ())
    found = [name for name in known if shutil.which(name, path=path)]
    return next(iter([*found, *known]), "")


def _why_no_script(word: str) -> str:
    first = _first_line(word)
    if first.startswith(b"\xef\xbb\xbf#!"):
        return "; a byte order mark stands before its #!, so save it as UTF-8 without one"
    return (
        ""
        if first.startswith(b"\x7fELF")
        else "; its first line names no interpreter, as #!/bin/sh does"
    )


def _first_line(path: str) -> bytes:
    """Without its line break; empty where there is none within what the kernel looks at, or it cannot be read."""
    try:
        with open(path, "rb") as file:
            line, is_ended, _ = file.read(FIRST_LINE_BYTES).partition(b"\n")
    except (OSError, ValueError):  # no path has a zero byte
        return b""
    return line if is_ended else b""


def _windows_words(script: str, first: bytes) -> str:
    line = first.decode("utf-8", "replace").replace("\r", "\\r")
    named = f", so that its first line names {line[2:].strip()}" if line.startswith("#!") else ""
    return f"the lines of {script} end in \\r\\n{named}"


class CommandScripts:
    """The scripts that a command runs, as far as they lie in this container."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command

    @property
    def windows_words(self) -> str:
        """Words about a shell's script with the line ends of Windows that was run; empty: there is none."""
        command = self._command
        shell = os.path.basename(command[0]) if command else ""
        for word in [word for word in command if not word.startswith("-")][:2]:
            first = _first_line(word)
            is_of_shell = shell in SHELLS if word != command[0] else b"sh" in first
            if first.endswith(b"\r") and is_of_shell:
                return _windows_words(word, first)
        return ""

    def find_obstacle(self, path: str) -> Optional[Ending]:
        """Why a script that is there was not found: its first line names an interpreter that is not; None: it is no such one.

        Args:
            path: as the command wrote it; it may have been meant from another folder than this process is in.
        """
        first = _first_line(path)
        name = _interpreter(first)
        if not name or (os.path.exists(name) and not first.endswith(b"\r")):
            return None
        return _without_interpreter(path)
