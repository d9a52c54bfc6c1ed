"""What counts as a line of code."""

from tests.tools.sizes import Size, by_folder, size_of

PROGRAM = '''"""What it is for.

More of it.
"""

import os
from sys import (
    argv,
)


# why
def act(x: int) -> str:  # a comment beside
    """What it does."""
    text = """two
lines"""

    return text
'''


def test_comments_docstrings_imports_and_blank_lines_are_no_code():
    assert size_of(PROGRAM, is_python=True) == Size(18, 4)
    assert size_of("a\n\n# b\n", is_python=False) == Size(3, 2)


def test_folders_are_summed():
    sizes = {"a/b/c/x.py": Size(10, 5), "a/b/y.py": Size(1, 1), "z": Size(2, 2)}
    assert by_folder(sizes) == {".": Size(13, 8), "a": Size(11, 6), "a/b": Size(11, 6)}
