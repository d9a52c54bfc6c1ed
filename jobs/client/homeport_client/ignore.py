"""What `.gitignore` files leave out, by git's own rules; pure apart from reading those files.

A port of git's matching (dir.c and wildmatch.c; https://git-scm.com/docs/gitignore), on bytes as
git does it. `.homeportignore` has the same form and counts more than every `.gitignore`, so that one
can send what git ignores (`!build/model.bin`) and leave out what git keeps.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

GIT_FILE = ".gitignore"
OWN_FILE = ".homeportignore"
MAX_FILE_BYTES = 1024**2
# Never sent, whatever anybody says: histories may hold what the files no longer do.
NEVER = frozenset({b".git", b".hg", b".svn"})
# What tools leave behind; any ignore file may take it in again.
DEFAULTS = b"""__pycache__/
*.py[co]
.venv/
.ipynb_checkpoints/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.DS_Store
"""

_CLASSES = {
    b"alnum": b"0-9A-Za-z",
    b"alpha": b"A-Za-z",
    b"blank": rb" \t",
    b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": b"0-9",
    b"graph": rb"\x21-\x7e",
    b"lower": b"a-z",
    b"print": rb"\x20-\x7e",
    b"punct": rb"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    b"space": rb"\t\n\x0b\x0c\r ",
    b"upper": b"A-Z",
    b"xdigit": b"0-9A-Fa-f",
}
_GLOB = re.compile(rb"[*?\[\\]")
_NOTHING = re.compile(rb"(?!)")


@dataclass(frozen=True)
class Rule:
    """One line of an ignore file.

    Attributes:
        pattern: matches a name (`is_name`) or a path relative to the file's folder.
        is_negated: takes in again what an earlier line left out.
        is_folder_only: the line ended with a slash.
    """

    pattern: re.Pattern[bytes]
    is_name: bool
    is_negated: bool
    is_folder_only: bool

    def matches(self, path: bytes, name: bytes, *, is_folder: bool) -> bool:
        """`path` is relative to the folder of the ignore file, `name` its last part."""
        if self.is_folder_only and not is_folder:
            return False
        return self.pattern.fullmatch(name if self.is_name else path) is not None


def parse_rules(text: bytes) -> list[Rule]:
    """The rules of an ignore file, in its order."""
    if text.startswith(b"\xef\xbb\xbf"):
        text = text[3:]
    rules = (parse_rule(line) for line in text.split(b"\n"))
    return [rule for rule in rules if rule is not None]


def parse_rule(line: bytes) -> Rule | None:
    """One line; None for comments and empty ones."""
    # As git does it, what stands behind a NUL does not count.
    line = line[:-1] if line.endswith(b"\r") else line
    line = line.partition(b"\0")[0]
    if not line or line.startswith(b"#"):
        return None
    line = _without_end_blanks(line)
    is_negated = line.startswith(b"!")
    body = line[1:] if is_negated else line
    is_folder_only = body.endswith(b"/")
    body = body[:-1] if is_folder_only else body
    is_name = b"/" not in body
    if is_name:
        pattern = compile_pattern(body, in_paths=False)
    else:
        pattern = compile_pattern(body[1:] if body.startswith(b"/") else body, in_paths=True)
    return Rule(pattern, is_name, is_negated, is_folder_only)


def _without_end_blanks(line: bytes) -> bytes:
    """Blanks at the end do not count unless the last is escaped."""
    end = position = 0
    while position < len(line):
        if line[position : position + 1] == b"\\":
            if position + 1 == len(line):
                return line
            position += 2
            end = position
        else:
            position += 1
            if line[position - 1 : position] != b" ":
                end = position
    return line[:end]


def compile_pattern(pattern: bytes, *, in_paths: bool) -> re.Pattern[bytes]:
    """The regular expression of a wildcard pattern. `in_paths`: `*` and `?` stop at slashes."""
    literal = _GLOB.search(pattern)
    # git compares what is before the first wildcard by itself, and matches the rest from there on.
    at = literal.start() if literal else len(pattern)
    parts = [re.escape(pattern[:at])]
    rest = pattern[at:]
    position = 0
    any_byte, some = (b"[^/]", b"[^/]*") if in_paths else (b".", b".*")
    while position < len(rest):
        letter = rest[position : position + 1]
        if letter == b"*":
            piece, position = _stars(rest, position, in_paths=in_paths, some=some)
        elif letter == b"?":
            piece, position = any_byte, position + 1
        elif letter == b"[":
            found = _bracket(rest, position, in_paths=in_paths)
            if found is None:
                return _NOTHING
            piece, position = found
        elif letter == b"\\":
            if position + 1 == len(rest):
                return _NOTHING
            piece, position = re.escape(rest[position + 1 : position + 2]), position + 2
        else:
            piece, position = re.escape(letter), position + 1
        parts.append(piece)
    return re.compile(b"".join(parts), re.DOTALL)


def _stars(rest: bytes, start: int, *, in_paths: bool, some: bytes) -> tuple[bytes, int]:
    end = start
    while rest[end : end + 1] == b"*":
        end += 1
    before_ok = start == 0 or rest[start - 1 : start] == b"/"
    after = rest[end : end + 2]
    after_ok = not after or after.startswith(b"/") or after == b"\\/"
    if not in_paths or end - start == 1 or not (before_ok and after_ok):
        return some, end
    if after.startswith(b"/"):
        return b"(?:.*/)?", end + 1
    return b".*", end


def _bracket(rest: bytes, start: int, *, in_paths: bool) -> tuple[bytes, int] | None:
    """A class in brackets as a regular expression and where it ends; None: it never ends."""
    position = start + 1
    is_inverted = rest[position : position + 1] in (b"!", b"^")
    position += is_inverted
    items: list[bytes] = []
    previous: int | None = None
    is_first = True
    while True:
        letter = rest[position : position + 1]
        if not letter:
            return None
        if letter == b"]" and not is_first:
            break
        is_first = False
        following = rest[position + 1 : position + 2]
        if letter == b"-" and previous is not None and following and following != b"]":
            position += 1
            high = rest[position]
            if following == b"\\":
                position += 1
                if position >= len(rest):
                    return None
                high = rest[position]
            if previous <= high:
                items.append(_byte(previous) + b"-" + _byte(high))
            previous = None
            position += 1
        elif letter == b"[" and following == b":":
            found = _posix_class(rest, position)
            if found is None:
                return None
            piece, position, previous = found
            items.append(piece)
        else:
            if letter == b"\\":
                position += 1
                if position >= len(rest):
                    return None
            previous = rest[position]
            items.append(_byte(previous))
            position += 1
    no_slash = b"(?!/)" if in_paths else b""
    if not items:
        return (no_slash + b"." if is_inverted else b"(?!)"), position + 1
    return no_slash + b"[" + (b"^" if is_inverted else b"") + b"".join(items) + b"]", position + 1


def _posix_class(rest: bytes, start: int) -> tuple[bytes, int, int | None] | None:
    """`[:alpha:]` inside of brackets; None when git gives up on the whole pattern."""
    end = rest.find(b"]", start + 2)
    if end < 0:
        return None
    if end - 1 < start + 2 or rest[end - 1 : end] != b":":
        # No `:]`: the bracket is a letter like any other.
        return _byte(ord("[")), start + 1, ord("[")
    found = _CLASSES.get(rest[start + 2 : end - 1])
    return None if found is None else (found, end + 1, None)


def _byte(value: int) -> bytes:
    return b"\\x%02x" % value


# --- files ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scope:
    """The rules that one folder adds; `folder` is relative to the top, with a slash at its end."""

    folder: bytes
    rules: list[Rule]

    def verdict(self, path: bytes, name: bytes, *, is_folder: bool) -> bool | None:
        """Whether the last line that matches leaves it out; None when no line matches."""
        relative = path[len(self.folder) :]
        for rule in reversed(self.rules):
            if rule.matches(relative, name, is_folder=is_folder):
                return not rule.is_negated
        return None


@dataclass(frozen=True)
class Ignored:
    """The rules that hold in one folder: those of the folders above it and its own.

    Attributes:
        own: of `.homeportignore`, outermost first; asked first.
        git: of `.gitignore`, likewise.
        last: what holds when nobody says anything.
    """

    own: tuple[Scope, ...] = ()
    git: tuple[Scope, ...] = ()
    last: tuple[Scope, ...] = ()

    def leaves_out(self, path: bytes, *, is_folder: bool) -> bool:
        """Whether a path (relative to the top) is left out, its folder being taken in."""
        name = path.rpartition(b"/")[2]
        if name in NEVER:
            return True
        for scopes in (self.own, self.git, self.last):
            for scope in reversed(scopes):
                verdict = scope.verdict(path, name, is_folder=is_folder)
                if verdict is not None:
                    return verdict
        return False

    def inside(self, folder: Path, path: bytes) -> Ignored:
        """With the ignore files of a folder; `path` is its own, empty or with a slash at its end."""
        own, git = (read_rules(folder / name) for name in (OWN_FILE, GIT_FILE))
        return Ignored(
            (*self.own, Scope(path, own)) if own else self.own,
            (*self.git, Scope(path, git)) if git else self.git,
            self.last,
        )


def read_rules(path: Path) -> list[Rule]:
    """The rules of a file; none when there is no such plain file (git follows no link here)."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return []
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return []
        with open(handle, "rb", closefd=False) as file:
            return parse_rules(file.read(MAX_FILE_BYTES))
    finally:
        os.close(handle)


def find_top(folder: Path) -> Path:
    """The top of the git working tree that holds a folder, or the folder itself."""
    for candidate in (folder, *folder.parents):
        if (candidate / ".git").exists():
            return candidate
    return folder


def rules_above(folder: Path) -> tuple[Ignored, bytes]:
    """What holds in a folder before its own files are read, and its path below the top."""
    top = find_top(folder)
    last = [Scope(b"", parse_rules(DEFAULTS))]
    if exclude := read_rules(top / ".git" / "info" / "exclude"):
        last.append(Scope(b"", exclude))
    found = Ignored(last=tuple(last))
    path = b""
    if folder == top:
        return found, path
    found = found.inside(top, b"")
    parts = folder.relative_to(top).parts
    for number, part in enumerate(parts):
        path += os.fsencode(part) + b"/"
        if number < len(parts) - 1:
            found = found.inside(top.joinpath(*parts[: number + 1]), path)
    return found, path
