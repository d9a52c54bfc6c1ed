"""Notebooks and TensorBoards from the command line, against a scripted portal."""

import webbrowser
from typing import Any

import pytest

from homeport_client import watching
from homeport_client.exits import NOT_FOUND, REFUSED, USAGE
from tests.jobs.client.world import JOB_ID, Answer, CommandLine, Scripted, job, listed

ID = "abcdef12-1234-4234-8234-123456789abc"
LINK = {"url": "http://127.0.0.1:30600/s/abcdef12/__gate#t=ticket", "expires_at": "x"}


def service(**changes: Any) -> dict[str, Any]:
    reason = {"code": "", "text": "", "next_step": ""}
    return {
        "id": ID,
        "name": "ideas",
        "owner": "ada",
        "state": "running",
        "reason": reason,
    } | changes


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every look at a service comes at once."""
    monkeypatch.setattr(watching.Changes, "wait", lambda self, identity: None)


@pytest.mark.parametrize("kind", ["notebook", "tensorboard"])
def test_the_life_of_one(portal: Scripted, homeport: CommandLine, kind: str) -> None:
    portal.answers[f"POST {kind}s/"] = Answer(service(state="queued"), 201)
    waits = {"code": "quota", "text": "needs 1 GPU \x1b[2J", "next_step": "Wait."}
    portal.answers[f"GET {kind}s/{ID}/"] = [service(state="queued", reason=waits), service()]
    made = homeport(kind, "create", "--name", "ideas", "--wait")
    assert made.code == 0, made.err
    assert "queued: needs 1 GPU" in made.err
    assert "is running." in made.err
    assert "\x1b" not in made.err

    portal.answers[f"GET {kind}s/"] = listed(service())
    assert homeport(kind, "list").out.splitlines()[1].split()[:3] == [
        "abcdef12",
        "ideas",
        "running",
    ]
    for verb in ("stop", "start"):
        portal.answers[f"POST {kind}s/{ID}/{verb}/"] = service()
        assert homeport(kind, verb, "ideas", "-o", "name").out == ID + "\n"
        assert portal.paths()[-1] == f"POST {kind}s/{ID}/{verb}/"
    portal.answers[f"POST {kind}s/{ID}/open/"] = LINK
    assert homeport(kind, "open", "abcd", "--print").out == LINK["url"] + "\n"
    assert homeport(kind, "delete", "ideas").code == USAGE
    portal.answers[f"DELETE {kind}s/{ID}/"] = Answer(status=204)
    assert homeport(kind, "delete", "-y", "ideas").code == 0


def test_a_notebook_says_what_it_asks_for(portal: Scripted, homeport: CommandLine) -> None:
    portal.answers["POST notebooks/"] = Answer(service(), 201)
    words = "notebook create --name n --image i --size s --cpu 1 --memory 2Gi --gpu 1"
    assert homeport(*words.split()).code == 0
    assert portal.asked[-1].json == {
        "name": "n",
        "image": "i",
        "size": "s",
        "cpu": "1",
        "memory": "2Gi",
        "gpu": 1,
    }
    errors = [{"field": "gpu", "code": "never_fits", "text": "Never."}]
    portal.answers["POST notebooks/"] = Answer({"errors": errors}, 400)
    ran = homeport("notebook", "create", "--name", "n")
    assert ran.code == REFUSED
    assert "  gpu: Never." in ran.err


def test_a_tensorboard_shows_trainings_by_name(portal: Scripted, homeport: CommandLine) -> None:
    portal.answers["POST tensorboards/"] = Answer(service(), 201)
    portal.answers["GET jobs/"] = listed(job())
    assert homeport("tensorboard", "create", "--name", "t", "mnist").code == 0
    assert portal.asked[-1].json == {"name": "t", "jobs": [JOB_ID]}
    assert homeport("tensorboard", "create", "--name", "t").code == 0
    assert portal.asked[-1].json == {"name": "t"}


def test_what_ended_instead_of_running_says_why(portal: Scripted, homeport: CommandLine) -> None:
    why = {"code": "x", "text": "The image cannot be pulled.", "next_step": "Choose another."}
    portal.answers["GET notebooks/"] = listed(service(state="starting"))
    portal.answers[f"GET notebooks/{ID}/"] = service(state="failed", reason=why)
    ran = homeport("notebook", "open", "ideas")
    assert ran.code == REFUSED
    assert "is failed. The image cannot be pulled." in ran.err
    assert "Choose another." in ran.err


@pytest.mark.parametrize(
    "link", [{}, "text", {"url": 3}, {"url": "file:///etc/passwd"}, {"url": "javascript:alert(1)"}]
)
def test_only_web_addresses_are_opened(
    portal: Scripted, homeport: CommandLine, monkeypatch: pytest.MonkeyPatch, link: Any
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    portal.answers["GET notebooks/"] = listed(service())
    portal.answers[f"POST notebooks/{ID}/open/"] = link
    ran = homeport("notebook", "open", "ideas")
    assert ran.code == 1
    assert not opened
    assert "passwd" not in ran.out


def test_one_of_several_is_asked_for(portal: Scripted, homeport: CommandLine) -> None:
    other = service(id="abcdef99-1234-4234-8234-123456789abc", state="stopped")
    portal.answers["GET notebooks/"] = listed(service(), other)
    ran = homeport("notebook", "stop", "ideas")
    assert ran.code == USAGE
    assert "abcdef12 (running), abcdef99 (stopped)" in ran.err
    portal.answers[f"POST notebooks/{ID}/stop/"] = service()
    assert homeport("notebook", "stop", "abcdef12").code == 0
    for word in ("nothing", "", "abc", "\x1b[2J"):
        ran = homeport("notebook", "stop", word)
        assert ran.code == NOT_FOUND, word
        assert "\x1b" not in ran.err
