"""A browser is found, else fetched by Playwright's installer, else installed by apt; else none."""

from pathlib import Path

import pytest

from tests.tools import browsers

PLACE = Path("/there/chrome")


@pytest.mark.parametrize(
    ("found_after", "root", "steps"),
    [
        (0, [], []),
        (1, [], ["playwright"]),
        (3, [], ["playwright", "update", "install"]),
        (3, ["sudo", "-n"], ["playwright", "update", "install"]),
        (9, [], ["playwright", "update", "install"]),
        (9, None, ["playwright"]),
    ],
)
def test_the_ways_are_tried_in_turn(
    monkeypatch: pytest.MonkeyPatch, found_after: int, root: list[str] | None, steps: list[str]
):
    ran: list[list[str]] = []

    def run(command: list[str]) -> str:
        ran.append(command)
        return "Error: no way there\n}\n"

    monkeypatch.setattr(browsers, "find", lambda: PLACE if len(ran) >= found_after else None)
    monkeypatch.setattr(browsers, "_run", run)
    monkeypatch.setattr(browsers, "_as_root", lambda: root)
    monkeypatch.setattr(browsers.shutil, "which", lambda name, **_: f"/usr/bin/{name}")
    said: list[str] = []
    assert browsers.ensure(said.append) == (PLACE if found_after < 9 else None)
    assert len(ran) == len(steps)
    assert all(step in command for step, command in zip(steps, ran, strict=True))
    if "install" in steps:
        line = " ".join([*(root or []), "apt-get", "install", "-y", "--no-install-recommends"])
        assert any(line in words for words in said)
        assert "Error: no way there" in " ".join(said)
