"""A name that has given way to a term of the field does not come back to its room; see `words.toml`.

Whole identifiers and names of modules, as they are written. Left out: migrations, strings (stored keys),
names of the files that stored manifests start, and the embedded cluster, which is a package of its own.
"""

import io
import tokenize
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.repository.test_documents import ROOT, SOURCES, tracked

# Their names are those of files that pods of older versions were started with.
KEPT_FILE_NAMES = Path("jobs/pod")
WORDS: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_name("words.toml").read_text())


@cache
def names_below(room: str) -> dict[str, list[str]]:
    """Identifier -> the modules of a room that have it."""
    found: dict[str, list[str]] = {}
    for path in tracked():
        name = path.relative_to(ROOT)
        if path.suffix != ".py" or not name.is_relative_to(room) or "migrations" in name.parts:
            continue
        for word in _names_in(path):
            found.setdefault(word, []).append(str(name))
    return found


@cache
def _names_in(path: Path) -> frozenset[str]:
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    names = {token.string for token in tokens if token.type == tokenize.NAME}
    is_kept = path.is_relative_to(ROOT / KEPT_FILE_NAMES)
    return frozenset(names if is_kept else {*names, path.stem, path.parent.name})


@pytest.mark.parametrize("room", WORDS)
def test_old_names_stay_away(room: str) -> None:
    assert room.split("/")[0] in SOURCES
    assert (ROOT / room).is_dir(), f"{room} has moved: its names go with it"
    names = names_below(room)
    back = {f"{old} ({new})": names[old] for old, new in WORDS[room].items() if old in names}
    assert not back, f"in {room} these are called as in brackets: {back}"
