"""A text that has given way to a plainer one does not come back; the two are in `texts.toml`.

Texts of pages and of Python are compared as whole messages (`tests/tools/texts.py`), so that a word
like "made" is free wherever it is not the whole message. Documents are held to phrases of three
words or more. Every entry was there once, which is tried where git has the commit.
"""

import io
import subprocess
import tarfile
import tomllib
from functools import cache
from pathlib import Path

from tests.repository.test_documents import ROOT, tracked
from tests.tools.missing import is_missing
from tests.tools.texts import message, paths_by_message

BEFORE = "0d1432e"
TABLE = tomllib.loads((Path(__file__).parent / "texts.toml").read_text())
MESSAGES: dict[str, str] = {message(old): new for old, new in TABLE["messages"].items()}
PHRASES: dict[str, str] = TABLE["documents"]


@cache
def files_before() -> dict[str, str]:
    """Path -> text of the files of the commit."""
    git = ["git", "archive", BEFORE]
    done = subprocess.run(git, cwd=ROOT, capture_output=True, check=False)
    if done.returncode:
        is_missing(f"the history does not reach back to {BEFORE}")
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        files = {one.name: archive.extractfile(one) for one in archive if one.isfile()}
        return {
            name: file.read().decode()
            for name, file in files.items()
            if file and name.endswith((".py", ".html", ".md"))
        }


def files_now() -> dict[str, str]:
    return {
        str(path.relative_to(ROOT)): path.read_text()
        for path in tracked()
        if path.suffix in {".py", ".html", ".md"}
    }


def documents(files: dict[str, str]) -> dict[str, str]:
    """Path -> text in one line, of what people read; what happened once stays as it was called."""
    return {
        path: " ".join(text.split())
        for path, text in files.items()
        if path == "README.md" or (path.startswith("docs/") and path.endswith(".md"))
    }


def test_old_texts_stay_away() -> None:
    found = paths_by_message(files_now())
    back = {f"{old} ({new})": found[old] for old, new in MESSAGES.items() if old in found}
    assert not back, f"these read as in brackets by now: {back}"


def test_old_phrases_stay_away_from_documents() -> None:
    assert all(len(phrase.split()) >= 3 for phrase in PHRASES)
    back = {
        f"{old} ({new})": path
        for path, text in documents(files_now()).items()
        for old, new in PHRASES.items()
        if old in text
    }
    assert not back, f"these read as in brackets by now: {back}"


def test_every_old_text_was_there() -> None:
    there = paths_by_message(files_before())
    assert not [old for old in MESSAGES if old not in there]
    texts = " ".join(documents(files_before()).values())
    assert not [old for old in PHRASES if old not in texts]
