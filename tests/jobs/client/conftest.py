"""The scripted portal and a command line that is signed in there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from homeport_client import rest
from tests.jobs.client.world import CommandLine, Scripted, scripted


@pytest.fixture
def portal() -> Iterator[Scripted]:
    with scripted() as running:
        yield running


@pytest.fixture
def homeport(portal: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Signed in at the scripted portal; pauses between tries are short."""
    monkeypatch.setattr(rest, "FIRST_PAUSE_S", 0.001)
    return CommandLine(tmp_path, monkeypatch, portal)
