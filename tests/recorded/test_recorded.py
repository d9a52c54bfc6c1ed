"""Each recorded file is what the code says now."""

import difflib
import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.recorded import FILES, WRITE, bodies, browsers, commands, names, pods, trail

MOST_LINES = 150
WIDTH = 100
# What a recorder returns is written as it is where it is text, and as JSON otherwise.
RECORDERS: dict[str, Callable[[], Any]] = {
    "addresses.txt": browsers.addresses,
    "bodies.json": bodies.refusals,
    "browsers.json": browsers.kept_in_browsers,
    "catalogue.json": bodies.catalogue,
    "changes.json": trail.changes,
    "doors.json": pods.bodies,
    "homeport.json": commands.homeport,
    "logs.json": trail.logs,
    "manage.json": commands.manage,
    "manifests.yaml": bodies.previews,
    "names.json": names.names,
    "openapi.yaml": browsers.openapi,
    "pods.json": pods.doors,
    "secrets.json": pods.derived,
}


def written(found: Any, indent: int = 0) -> str:
    """JSON with sorted keys: on one line what is short, the parts of everything else on their own."""
    line = json.dumps(found, sort_keys=True, ensure_ascii=False)
    if len(line) + indent <= WIDTH or not found or not isinstance(found, dict | list):
        return line
    blanks = " " * (indent + 1)
    if isinstance(found, dict):
        parts = [f"{json.dumps(k)}: {written(found[k], indent + 1)}" for k in sorted(found)]
    else:
        parts = [written(part, indent + 1) for part in found]
    opening, closing = ("{", "}") if isinstance(found, dict) else ("[", "]")
    return f"{opening}\n{blanks}" + f",\n{blanks}".join(parts) + f"\n{' ' * indent}{closing}"


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(RECORDERS))
def test_it_is_as_recorded(name: str) -> None:
    found = RECORDERS[name]()
    if not isinstance(found, str):
        found = written(found) + "\n"
    if os.environ.get(WRITE):
        (FILES / name).write_text(found)
    recorded = (FILES / name).read_text()
    lines = list(
        difflib.unified_diff(
            recorded.splitlines(), found.splitlines(), "recorded", "now", n=2, lineterm=""
        )
    )
    if lines:
        shown = "\n".join(lines[:MOST_LINES])
        pytest.fail(f"{name}:\n{shown}\nIf meant: python -m tests.recorded", pytrace=False)


def test_every_file_is_compared() -> None:
    assert {path.name for path in FILES.iterdir()} == RECORDERS.keys()
