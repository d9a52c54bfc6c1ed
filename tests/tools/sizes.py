"""How long the tracked files are, counted twice: `make sizes` prints folders, `--files` every file.

The second count leaves out blank lines, comments, docstrings and imports.
"""

import ast
import io
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[2]
DEPTH = 2  # folders of the table


@dataclass(frozen=True)
class Size:
    """Lines of one file.

    Attributes:
        lines: all of them.
        code: those of a Python file that do something; of another file those that are not blank.
    """

    lines: int
    code: int


def size_of(text: str, *, is_python: bool) -> Size:
    """The size of a file's text.

    Raises:
        SyntaxError: it is no Python.
    """
    lines = text.count("\n")
    if not is_python:
        return Size(lines, sum(1 for line in text.splitlines() if line.strip()))
    counted = {
        number
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in _NOTHING
        for number in range(token.start[0], token.end[0] + 1)
    }
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import | ast.ImportFrom) or _is_docstring(node):
            counted -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return Size(lines, len(counted))


_NOTHING = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def _is_docstring(node: ast.AST) -> bool:
    """Whether it is a string that stands alone, as docstrings do."""
    alone = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return alone and isinstance(node.value.value, str)


def measured() -> dict[str, Size]:
    """The size of each tracked file that is text, by its path."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = {}
    for name in filter(None, listed.stdout.split("\0")):
        try:
            text = (ROOT / name).read_text()
        except (UnicodeDecodeError, FileNotFoundError):  # a picture, or not committed to be gone
            continue
        found[name] = size_of(text, is_python=name.endswith(".py"))
    return found


def by_folder(sizes: dict[str, Size]) -> dict[str, Size]:
    """The sums of folders, down to `DEPTH`, and of everything as "."."""
    sums: dict[str, list[Size]] = defaultdict(list)
    for name, size in sizes.items():
        folders = [str(folder) for folder in PurePosixPath(name).parents]
        for folder in folders[-DEPTH - 1 :]:
            sums[folder].append(size)
    return {
        folder: Size(sum(s.lines for s in found), sum(s.code for s in found))
        for folder, found in sorted(sums.items())
    }


def table(sizes: dict[str, Size]) -> Iterable[str]:
    """One line for each, after a heading."""
    yield f"{'lines':>8} {'code':>8}"
    for name, size in sizes.items():
        yield f"{size.lines:8,} {size.code:8,}  {name}"


def main() -> None:
    sizes = measured()
    shown = sizes if "--files" in sys.argv[1:] else by_folder(sizes)
    print("\n".join(table(shown)))


if __name__ == "__main__":
    main()
