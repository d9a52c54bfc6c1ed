"""The pictures of the documents: there, small, and taken by a test."""

import re

from tests.e2e.portal import ROOT

PICTURES = ROOT / "docs" / "pictures"
MAX_BYTES = 170_000


def named_in_documents() -> set[str]:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return {
        name for page in pages for name in re.findall(r"pictures/([\w-]+)\.png", page.read_text())
    }


def test_documents_show_the_pictures_that_there_are() -> None:
    assert named_in_documents() == {path.stem for path in PICTURES.glob("*.png")}


def test_every_picture_is_taken_by_a_test() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests" / "e2e").glob("test_*.py"))
    taken = set(re.findall(r'picture\(\w+, "([\w-]+)"', tests))
    taken |= set(re.findall(r'/ "([\w-]+)\.png"', tests))
    assert named_in_documents() == taken


def test_no_picture_is_large() -> None:
    large = {
        p.name: p.stat().st_size for p in PICTURES.glob("*.png") if p.stat().st_size > MAX_BYTES
    }
    assert not large
