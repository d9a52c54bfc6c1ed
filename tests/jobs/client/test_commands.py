"""The commands as a person or a script calls them, against a scripted portal.

What each asks for, prints and keeps is in tests/recorded.
"""

import errno
import io
import json

import click
import pytest
from click.shell_completion import get_completion_class

from homeport_client import trainings
from homeport_client.cli import COMPLETE_VARIABLE, cli
from homeport_client.exits import NOT_FOUND, USAGE, ClientError
from homeport_client.terminal import Terminal
from tenants import usage
from tests.jobs.client.world import (
    Answer,
    CommandLine,
    job,
    listed,
    parsed,
)

# --- who one is ---


def signing_in(homeport: CommandLine) -> None:
    homeport.answers["GET /healthz"] = Answer(data=b"ok\n")
    token = {"token": "hp_new_token", "expires_at": "2027-02-18T10:00:00Z"}
    homeport.answers["POST auth/token/"] = token
    homeport.answers["GET me/"] = {"username": "ada", "tenant": {"state": "active"}}


def test_this_machine_has_several_names(homeport: CommandLine) -> None:
    signing_in(homeport)
    other = homeport.url.replace("127.0.0.1", "localhost")
    answers = [Answer(None, 301, {"Location": f"{other}/healthz"}), Answer(data=b"ok")]
    homeport.answers["GET /healthz"] = answers
    assert homeport("login", homeport.url, "-u", "ada", stdin="secret\n").code == 0
    assert homeport("context", "list", "-o", "json").json[0]["url"] == homeport.url
    assert other in json.dumps(homeport("context", "list", "-o", "json").json)


def test_contexts_are_chosen(homeport: CommandLine) -> None:
    signing_in(homeport)
    homeport("login", homeport.url, "--token", "hp_second", "--context", "second")
    listing = homeport("context", "list", "-o", "json").json
    assert [(row["name"], row["is_current"]) for row in listing] == [
        ("here", False),
        ("second", True),
    ]
    assert "hp_" not in json.dumps(listing) + homeport("context", "list", "-o", "wide").out
    assert homeport("context", "use", "here").code == 0
    homeport.answers["GET jobs/"] = listed()
    homeport("list")
    assert homeport.asked[-1].headers["Authorization"] == "Token hp_token"
    homeport("list", "--context", "second")
    assert homeport.asked[-1].headers["Authorization"] == "Token hp_second"
    homeport("--context", "second", "list")
    assert homeport.asked[-1].headers["Authorization"] == "Token hp_second"
    assert homeport("context", "use", "none").code == NOT_FOUND


def test_a_program_signs_in_by_its_environment(
    homeport: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    (homeport.folder / "contexts.json").unlink()
    monkeypatch.setenv("HOMEPORT_URL", homeport.url)
    monkeypatch.setenv("HOMEPORT_TOKEN", "hp_ci")
    homeport.answers["GET me/"] = {"username": "robot", "role": "researcher", "tenant": None}
    assert homeport("whoami", "-o", "name").out == "robot\n"
    assert homeport.asked[-1].headers["Authorization"] == "Token hp_ci"


def test_amounts_have_the_names_that_pages_have(homeport: CommandLine) -> None:
    tenant = {
        "namespace": "u-ada",
        "state": "active",
        "quota": {"cpu": "8", "memory": "16Gi", "gpu": 2, "pods": 20, "nodeports": 4, "tpu": 1},
        "used": {"cpu": "1500m", "nodeports": 1},
    }
    homeport.answers["GET me/"] = {"username": "ada", "role": "researcher", "tenant": tenant}
    titles = [f"{title} " for title in usage.TITLES.values()]
    [line] = [line for line in homeport("whoami").out.splitlines() if line.startswith("Used:")]
    parts = line.removeprefix("Used:").strip().split(", ")
    assert parts == [
        "CPU 1500m of 8",
        "Memory 0 of 16Gi",
        "GPU 0 of 2",
        "Pods 0 of 20",
        "Notebooks and TensorBoards 1 of 4",
        "tpu 0 of 1",  # of a later portal
    ]
    assert all(part.startswith(title) for part, title in zip(parts, titles, strict=False))


# --- words and faults ---


def test_who_says_always_has_colours(
    homeport: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    homeport.answers["GET jobs/"] = listed(job())
    assert "\x1b[36mrunning\x1b[0m" in homeport("list", "--color", "always").out


def test_no_command_is_usage(homeport: CommandLine) -> None:
    assert homeport().code == USAGE


def test_words_may_stand_before_and_behind_options() -> None:
    for words in (["stop", "a", "-o", "json", "b"], ["stop", "-o", "json", "a", "b"]):
        assert parsed(*words)["jobs"] == ("a", "b")
    found = parsed("artifacts", "list", "a", "-o", "json", "*.x", "y")
    assert found["patterns"] == ("*.x", "y")
    assert parsed("tensorboard", "create", "--name", "t", "a", "b")["jobs"] == ("a", "b")
    assert parsed("submit", "--image", "i", ".")["path"] == "."
    assert parsed("list", "-n=5")["limit"] == parsed("list", "-n5")["limit"] == 5
    assert parsed("stop", "-5", "--reason", "-x", "-a b", "-.5")["jobs"] == ("-5", "-a b", "-.5")
    assert parsed("submit", "-w", "-5")["path"] == "-5"
    for words in (["--token=-x"], ["--token", "-5"], ["--token", "-x y"], ["--token", "-"]):
        assert parsed("login", *words)["token"] == words[-1].removeprefix("--token=")


def test_names_on_tab_are_quoted_for_bash(homeport: CommandLine) -> None:
    names = ["my run", "my $(reboot)", "my\x1b[2J,x", "other"]
    homeport.answers["GET jobs/"] = listed(*(job(name=name) for name in names))
    made = get_completion_class("bash")
    assert made is not None
    asked = made(cli, {}, "homeport", COMPLETE_VARIABLE)
    found = [asked.format_completion(item) for item in asked.get_completions(["get"], "my")]
    assert found == ["plain,'my $(reboot)'", "plain,'my run'", "plain,my,x"]
    homeport.answers["GET jobs/"] = Answer(status=500)
    assert asked.get_completions(["get"], "my") == []


def test_a_fault_of_ours_is_said_without_a_trace(
    homeport: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainings, "list_jobs", click.Command("list", callback=lambda: 1 / 0))
    ran = homeport("list")
    assert ran.code == 1
    assert "has a fault: ZeroDivisionError" in ran.err
    assert "Traceback" not in ran.err
    monkeypatch.setenv("HOMEPORT_DEBUG", "1")
    assert "Traceback" in homeport("list").err


class Full(io.StringIO):
    """An output on a disk that is full."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_said() -> None:
    with pytest.raises(ClientError, match="cannot be written: No space left"):
        Terminal(Full(), io.StringIO()).write("x")


# --- prune ---
HELD = {"logs_bytes": 2048, "artifacts_bytes": 0}


def pruned(count: int, remaining: int) -> dict[str, object]:
    states = [{"state": "failed", "count": count, **HELD}] if count else []
    held = {"before": f"so that {remaining} remain", **HELD}
    more = {"note": "Folders stay."} if count else {}
    return {"states": states, "count": count, **held, "remaining": remaining, **more}


def test_prune_shows_asks_and_goes_on_until_nothing_remains(
    homeport: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = pruned(700, 700)
    homeport.answers["POST jobs/prune/"] = found
    assert homeport("prune").code == USAGE
    shown = homeport("prune", "--since", "30d", "--state", "failed", "--dry-run")
    assert (shown.code, "700" in shown.out, "Folders stay." in shown.err) == (0, True, True)
    # Into a pipe: shown, and nothing more is asked of the portal.
    assert homeport("prune", "--since", "30d").code == USAGE
    assert {asked.json["dry_run"] for asked in homeport.asked} == {True}
    assert homeport.asked[0].json["states"] == ["failed"]
    monkeypatch.setattr(Terminal, "can_ask", True)
    refused = homeport("prune", "--since", "30d", stdin="no\n")
    assert "Not deleted." in refused.err
    assert {asked.json["dry_run"] for asked in homeport.asked} == {True}
    homeport.asked.clear()
    homeport.answers["POST jobs/prune/"] = [found, pruned(500, 200), pruned(200, 0)]
    done = homeport("prune", "--since", "30d", stdin="y\n")
    assert [asked.json["dry_run"] for asked in homeport.asked] == [True, False, False]
    seen = [asked.json.get("before") for asked in homeport.asked]
    assert seen == [None, *["so that 700 remain"] * 2], "what was shown, and no more"
    assert "Delete 700 trainings, 2.0 KiB? [y/N]" in done.err
    assert "Deleted 500 trainings, 2.0 KiB; 200 remain." in done.err
    # Whoever runs a prune at the same time leaves nothing to this one.
    homeport.answers["POST jobs/prune/"] = [found, pruned(0, 5)]
    assert homeport("prune", "--since", "30d", "--yes", "-o", "json").json[0]["count"] == 0
    homeport.answers["POST jobs/prune/"] = pruned(0, 0)
    assert "No finished trainings older than 30d" in homeport("prune", "--since", "30d").err
