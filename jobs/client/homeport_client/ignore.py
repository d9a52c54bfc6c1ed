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
        relative = path[len(self.folder) :]
        return next(
            (is_out for is_out, line in reversed(self.rules) if _means(line, relative, is_folder)),
            None,
        )


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
    """The rules that hold in one folder: those of the folders above it and its own.

    Attributes:
        own: of `.homeportignore`, outermost first; asked first.
        git: of `.gitignore`, likewise.
        last: what holds when nobody says anything.
        warnings: lines that mean nothing, in words; one list for all folders.
    """

    own: tuple[Scope, ...] = ()
    git: tuple[Scope, ...] = ()
    last: tuple[Scope, ...] = ()
    warnings: list[str] = field(default_factory=list)

    def leaves_out(self, path: str, *, is_folder: bool) -> bool:
        """Whether a path (relative to the top) is left out, its folder being taken in."""
        if path.rpartition("/")[2] in NEVER:
            return True
        for scope in (*reversed(self.own), *reversed(self.git), *reversed(self.last)):
            found = scope.leaves_out(path, is_folder=is_folder)
            if found is not None:
                return found
        return False

    def inside(self, folder: Path, path: str) -> Ignored:
        """With the ignore files of a folder; `path` is its own, empty or with a slash at its end."""
        own = read_rules(folder / OWN_FILE, self.warnings)
        git = read_rules(folder / GIT_FILE, self.warnings)
        return replace(
            self,
            own=(*self.own, Scope(path, own)) if own else self.own,
            git=(*self.git, Scope(path, git)) if git else self.git,
        )


def read_rules(path: Path, warnings: list[str]) -> Rules:
    """The rules of a file; none when there is no such plain file (git follows no link here)."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return []
        with open(
            handle, encoding="utf-8", errors="surrogateescape", newline="\n", closefd=False
        ) as file:
            text = file.read(MAX_FILE_BYTES)
    finally:
        os.close(handle)
    return parse_rules(text, str(path), warnings)


def parse_rules(text: str, name: str, warnings: list[str]) -> Rules:
    """The rules of an ignore file; a line that is none is left out, with a warning."""
    rules: Rules = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        try:
            rule = GitIgnoreSpecPattern(line.removesuffix("\r"))
        except (ValueError, re.error):
            warnings.append(f"{name}, line {number}, is no pattern: {one_line(ascii(line))[:80]}")
            continue
        if rule.regex is not None:
            rules.append((bool(rule.include), rule.regex))
    return rules


def find_top(folder: Path) -> Path:
    """The top of the git working tree that holds a folder, or the folder itself."""
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return folder


def rules_above(folder: Path) -> tuple[Ignored, str]:
    """What holds in a folder before its own files are read, and its path below the top."""
    top = find_top(folder)
    warnings: list[str] = []
    last = [Scope("", parse_rules(DEFAULTS, "", warnings))]
    if exclude := read_rules(top / ".git" / "info" / "exclude", warnings):
        last.append(Scope("", exclude))
    found, path = Ignored(last=tuple(last), warnings=warnings), ""
    here = top
    for part in folder.relative_to(top).parts:
        found = found.inside(here, path)
        here, path = here / part, f"{path}{part}/"
    return found, path
