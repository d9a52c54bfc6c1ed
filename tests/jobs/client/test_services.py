"""Notebooks and TensorBoards from the command line, against a scripted portal.

What each command asks for and prints is in tests/recorded.
"""

import webbrowser
from typing import Any

import pytest

from homeport_client import watching
from homeport_client.exits import NOT_FOUND, REFUSED, USAGE
from tests.jobs.client.world import Answer, CommandLine, listed

ID = "abcdef12-1234-4234-8234-123456789abc"
LINK = {"url": "http://127.0.0.1:30600/s/abcdef12/__gate#t=ticket", "expires_at": "x"}


def service(**changes: Any) -> dict[str, Any]:
    reason = {"code": "", "text": "", "next_step": ""}
    row = {"id": ID, "name": "ideas", "owner": "ada", "state": "running", "reason": reason}
    return row | changes


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at a service comes at once."""
    monkeypatch.setattr(watching.Changes, "wait", lambda self, identity: None)


@pytest.mark.parametrize("kind", ["notebook", "tensorboard"])
def test_one_that_waits_says_why(homeport: CommandLine, kind: str) -> None:
    homeport.answers[f"POST {kind}s/"] = Answer(service(state="queued"), 201)
    waits = {"code": "quota", "text": "needs 1 GPU \x1b[2J", "next_step": "Wait."}
    homeport.answers[f"GET {kind}s/{ID}/"] = [service(state="queued", reason=waits), service()]
    made = homeport(kind, "create", "--name", "ideas", "--wait")
    assert made.code == 0, made.err
    assert "queued: needs 1 GPU" in made.err
    assert "is running." in made.err
    assert "\x1b" not in made.err


def test_a_refused_notebook_says_which_field(homeport: CommandLine) -> None:
    errors = [{"field": "gpu", "code": "never_fits", "text": "Never."}]
    homeport.answers["POST notebooks/"] = Answer({"errors": errors}, 400)
    ran = homeport("notebook", "create", "--name", "n")
    assert ran.code == REFUSED
    assert "  gpu: Never." in ran.err


def test_what_ended_instead_of_running_says_why(homeport: CommandLine) -> None:
    why = {"code": "x", "text": "The image cannot be pulled.", "next_step": "Choose another."}
    homeport.answers["GET notebooks/"] = listed(service(state="starting"))
    homeport.answers[f"GET notebooks/{ID}/"] = service(state="failed", reason=why)
    ran = homeport("notebook", "open", "ideas")
    assert ran.code == REFUSED
    assert "is failed. The image cannot be pulled." in ran.err
    assert "Choose another." in ran.err


@pytest.mark.parametrize(
    "link", [{}, "text", {"url": 3}, {"url": "file:///etc/passwd"}, {"url": "javascript:alert(1)"}]
)
def test_only_web_addresses_are_opened(
    homeport: CommandLine, monkeypatch: pytest.MonkeyPatch, link: Any
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    homeport.answers["GET notebooks/"] = listed(service())
    homeport.answers[f"POST notebooks/{ID}/open/"] = link
    ran = homeport("notebook", "open", "ideas")
    assert ran.code == 1
    assert not opened
    assert "passwd" not in ran.out


def test_one_of_several_is_asked_for(homeport: CommandLine) -> None:
    other = service(id="abcdef99-1234-4234-8234-123456789abc", state="stopped")
    homeport.answers["GET notebooks/"] = listed(service(), other)
    ran = homeport("notebook", "stop", "ideas")
    assert ran.code == USAGE
    assert "abcdef12 (running), abcdef99 (stopped)" in ran.err
    homeport.answers[f"POST notebooks/{ID}/stop/"] = service()
    assert homeport("notebook", "stop", "abcdef12").code == 0
    for word in ("nothing", "", "abc", "\x1b[2J"):
        ran = homeport("notebook", "stop", word)
        assert ran.code == NOT_FOUND, word
        assert "\x1b" not in ran.err
