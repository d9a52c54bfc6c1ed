"""What `.gitignore` files leave out: their lines are read by pathspec, their order is here.

`.homeportignore` has the same form and counts more than every `.gitignore`, so that one can send
what git ignores (`!build/model.bin`) and leave out what git keeps.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field, replace
from pathlib import Path

from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

from .sanitize import one_line

GIT_FILE = ".gitignore"
OWN_FILE = ".homeportignore"
MAX_FILE_BYTES = 1024**2
# Never sent, whatever anybody says: histories may hold what the files no longer do.
NEVER = frozenset({".git", ".hg", ".svn"})
# What tools leave behind; any ignore file may take it in again.
DEFAULTS = """__pycache__/
*.py[co]
.venv/
.ipynb_checkpoints/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.DS_Store
"""


# Lines of a file: whether what one means is left out, and its expression.
Rules = list[tuple[bool, "re.Pattern[str]"]]


@dataclass(frozen=True)
class Scope:
    """The rules that one folder adds; `folder` is relative to the top, with a slash at its end."""

    folder: str
    rules: Rules

    def leaves_out(self, path: str, *, is_folder: bool) -> bool | None:
        """Whether the last line that matches leaves it out; None when no line matches."""
        relative = _by_byte(path[len(self.folder) :])
        return next(
            (is_out for is_out, line in reversed(self.rules) if _means(line, relative, is_folder)),
            None,
        )


def _by_byte(text: str) -> str:
    """A letter for each byte, as git compares them: `?` is one of the two of an é."""
    return os.fsencode(text).decode("ascii", "surrogateescape")


def _means(line: re.Pattern[str], path: str, is_folder: bool) -> bool:
    """Whether a line means this very path, and not only a folder above it.

    pathspec's expressions capture the slash behind a folder, and nothing else.
    """
    return any(not found.lastgroup for found in line.finditer(path)) or (
        is_folder
        and any(
            found.lastgroup and found.end() == len(path) + 1 for found in line.finditer(f"{path}/")
        )
    )


@dataclass(frozen=True)
class Ignored:
    """The rules that hold in one folder: those of the folders above it and its own."""

    # Of `.gitignore`, outermost first, behind what holds when nobody says anything.
    git: tuple[Scope, ...] = ()
    own: tuple[Scope, ...] = ()  # of `.homeportignore`, likewise; they count more
    warnings: list[str] = field(default_factory=list)  # one list for all folders

    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        """Whether a path (relative to the top) is left out, its folder being taken in."""
        if path.rpartition("/")[2] in NEVER:
            return True
        said = (
            scope.leaves_out(path, is_folder=is_folder)
            for scope in reversed((*self.git, *self.own))
        )
        return next((is_out for is_out in said if is_out is not None), False)

    def inside(self, folder: Path, path: str) -> Ignored:
        """With the ignore files of a folder; `path` is its own, empty or with a slash at its end."""
        git = read_rules(folder / GIT_FILE, self.warnings)
        own = read_rules(folder / OWN_FILE, self.warnings)
        return Ignored(
            (*self.git, Scope(path, git)) if git else self.git,
            (*self.own, Scope(path, own)) if own else self.own,
            self.warnings,
        )


def read_rules(path: Path, warnings: list[str]) -> Rules:
    """The rules of a file; none when there is no such plain file (git follows no link here)."""
    flags = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        with open(path, "rb", opener=lambda name, mode: os.open(name, mode | flags)) as file:
            is_plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            text = os.fsdecode(file.read(MAX_FILE_BYTES)) if is_plain else ""
    except OSError:
        return []
    return parse_rules(text, str(path), warnings)


def parse_rules(text: str, name: str, warnings: list[str]) -> Rules:
    """The rules of an ignore file; a line that is none is left out, with a warning."""
    rules: Rules = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        try:
            rule = GitIgnoreSpecPattern(_by_byte(line.removesuffix("\r")))
        except (ValueError, re.error):
            warnings.append(f"{name}, line {number}, is no pattern: {one_line(ascii(line))[:80]}")
            continue
        if rule.regex is not None:
            rules.append((bool(rule.include), rule.regex))
    return rules


def rules_above(folder: Path) -> tuple[Ignored, str]:
    """What holds in a folder before its own files are read, and its path below the top.

    The top is that of the git working tree that holds the folder, or else the folder itself.
    """
    top = next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)
    found, path = Ignored((Scope("", parse_rules(DEFAULTS, "", [])),)), ""
    exclude = read_rules(top / ".git" / "info" / "exclude", found.warnings)
    found = replace(found, git=(*found.git, Scope("", exclude)))
    here = top
    for part in folder.relative_to(top).parts:
        found = found.inside(here, path)
        here, path = here / part, f"{path}{part}/"
    return found, path
