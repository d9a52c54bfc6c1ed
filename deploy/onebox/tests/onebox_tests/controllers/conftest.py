"""Worlds with the controllers that a test is about."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from onebox_tests.controllers.world import Make, World


@pytest.fixture
def make_world(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> Iterator[Callable[[Make], World]]:
    """Make a world with the given controllers; it is closed at the end.

    A controller that fails or writes what the API does not know only logs it, so the log of a
    test must hold no warning that the test did not ask for (`caplog.clear()`).
    """
    worlds: list[World] = []

    def make(controllers: Make) -> World:
        home = tmp_path / str(len(worlds))
        home.mkdir()
        worlds.append(World(home, controllers))
        return worlds[-1]

    yield make
    for world in worlds:
        world.close()
    records = caplog.get_records("setup") + caplog.get_records("call")
    assert [r.getMessage() for r in records if r.levelno >= logging.WARNING] == []
