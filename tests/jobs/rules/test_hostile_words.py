"""No text makes a look at a command take the square of its length (`hostile_words.py`)."""

import re
import subprocess
import sys

import pytest

from jobs import command_line
from jobs.kinds.training import commands
from jobs.pod.protocol import placeholders
from jobs.rules import shell_signs, shell_words, typography
from tests.jobs.rules import hostile_words
from tests.repository.test_documents import ROOT

PATTERNS = {
    f"{module.__name__}.{name}": value
    for module in (shell_words, shell_signs, typography, commands, placeholders, command_line)
    for name, value in vars(module).items()
    if isinstance(value, re.Pattern)
}
# Which look at the beginning of a word only.
AT_BEGIN = {
    *(f"jobs.rules.shell_words.{name}" for name in ("ASSIGNMENT", "_ACTIVATION", "_PYTHON")),
    *(f"jobs.rules.shell_words.{name}" for name in ("_OF_NOTEBOOKS", "_PROMPT_END", "_SCRIPT")),
    *(f"jobs.rules.shell_signs.{name}" for name in ("ASSIGNMENT", "_ASSIGNED", "_HOME")),
    *(f"jobs.rules.typography.{name}" for name in ("_DASHED", "_OPTION", "_RANGE")),
}


def _ends(*arguments: str) -> bool:
    """Whether it does; what it was at is printed."""
    command = [sys.executable, "-m", hostile_words.__name__, *arguments]
    run = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    print("at", run.stdout.splitlines()[-1:])
    return run.returncode == 0


@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern(name: str) -> None:
    pattern = PATTERNS[name]
    how = "begin" if name in AT_BEGIN else "anywhere"
    assert _ends(how, pattern.pattern, str(pattern.flags))


@pytest.mark.parametrize("given", ["words", "lines"])
def test_all_hints_of_a_command(given: str) -> None:
    assert PATTERNS.keys() >= AT_BEGIN
    assert _ends(given)
