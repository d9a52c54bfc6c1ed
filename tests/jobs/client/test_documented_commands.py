"""Commands of the documents are commands of this command line, and what one names an earlier one has made so."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.jobs.client.world import parsed

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def commands(document: Path) -> Iterator[list[str]]:
    """The words of each `homeport ...` in a block of shell lines, without what is behind `--`."""
    text = document.read_text()
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.replace("\\\n", " ").splitlines():
            for part in line.removeprefix("$ ").split(" | "):
                if part.startswith("homeport "):
                    words = shlex.split(part, comments=True)[1:]
                    at = words.index("--") if "--" in words else len(words)
                    yield words[:at]


KNOWN = [(document, words) for document in DOCUMENTS for words in commands(document)]


@pytest.mark.parametrize(("document", "words"), KNOWN, ids=[" ".join(words) for _, words in KNOWN])
def test_a_command_of_a_document_is_one(
    document: Path, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        parsed(*words)
    except click.UsageError as error:
        raise AssertionError(f"{document.relative_to(ROOT)}: {error.format_message()}") from error


def test_what_is_exported_has_code_that_others_can_fetch() -> None:
    exported = 0
    for document in DOCUMENTS:
        of_git: set[str] = set()
        for words in commands(document):
            if words[0] == "submit" and "--git" in words:
                of_git.add(parsed(*words)["name"])
            if words[0] == "export":
                exported += 1
                assert words[1] in of_git, f"{document.relative_to(ROOT)}: {words}"
    assert exported
