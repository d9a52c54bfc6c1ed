"""The commands as a person or a script calls them, against a scripted portal."""

import errno
import io
import json
import stat
from typing import Any
from urllib.parse import parse_qs, urlsplit

import click
import pytest
import yaml
from click.shell_completion import get_completion_class

from homeport_client import trainings
from homeport_client.cli import COMPLETE_VARIABLE, cli
from homeport_client.exits import NOT_FOUND, NOT_SIGNED_IN, REFUSED, USAGE, ClientError
from homeport_client.terminal import Terminal
from tests.jobs.client.world import (
    JOB_ID,
    Answer,
    Asked,
    CommandLine,
    job,
    listed,
    parsed,
    refusal,
)

OTHER_ID = "99999999-1234-4234-8234-123456789abc"


# --- who one is ---


def signing_in(homeport: CommandLine) -> None:
    homeport.answers["GET /healthz"] = Answer(data=b"ok\n")
    token = {"token": "hp_new_token", "expires_at": "2027-02-18T10:00:00Z"}
    homeport.answers["POST auth/token/"] = token
    homeport.answers["GET me/"] = {"username": "ada", "tenant": {"state": "active"}}


def test_signing_in_keeps_a_token_and_no_password(homeport: CommandLine) -> None:
    signing_in(homeport)
    ran = homeport("login", homeport.url, "--user", "ada", "--context", "lab", stdin="secret\n")
    assert ran.code == 0, ran.err
    assert "as ada, until 18 Feb 2027" in ran.err
    (asked,) = [asked for asked in homeport.asked if asked.method == "POST"]
    assert (asked.json["username"], asked.json["password"]) == ("ada", "secret")
    assert asked.json["name"].startswith("homeport on ")
    path = homeport.folder / "contexts.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    saved = path.read_text()
    assert "secret" not in saved
    assert json.loads(saved)["current"] == "lab"
    assert json.loads(saved)["contexts"]["lab"]["token"] == "hp_new_token"
    assert "hp_new_token" not in ran.out + ran.err


def test_signing_in_with_a_token_asks_whose_it_is(homeport: CommandLine) -> None:
    signing_in(homeport)
    by_word, asked, asked_first = ["--token", "hp_by_word"], ["--token"], ["--token", homeport.url]
    for words in ([homeport.url, *by_word], asked_first, [homeport.url, *asked]):
        ran = homeport("login", *words, stdin="hp_by_stdin\n")
        assert ran.code == 0, ran.err
        assert "as ada" in ran.err
        assert homeport.asked[-1].headers["Authorization"].startswith("Token hp_by_")
    assert not [asked for asked in homeport.asked if asked.method == "POST"]


@pytest.mark.parametrize(
    "token", ["", "x", "hp_with blank", "hp_\x1b[31mred", "hp_\r\nX: y", "é" * 9]
)
def test_what_is_no_token_is_not_sent(homeport: CommandLine, token: str) -> None:
    signing_in(homeport)
    assert homeport("login", homeport.url, "--token", stdin=token + "\n").code == USAGE
    assert all("Authorization" not in asked.headers for asked in homeport.asked)


def test_a_wrong_password_is_said_once(homeport: CommandLine) -> None:
    signing_in(homeport)
    homeport.answers["POST auth/token/"] = refusal(401, "wrong_credentials", "The name is wrong.")
    before = (homeport.folder / "contexts.json").read_text()
    ran = homeport("login", homeport.url, "-u", "ada", stdin="no\n")
    assert ran.code == NOT_SIGNED_IN
    assert ran.err.startswith("error: The name is wrong.")
    assert (homeport.folder / "contexts.json").read_text() == before
    busy = refusal(429, "throttled", "Too many tries; wait 10 minutes.")
    homeport.answers["POST auth/token/"] = busy
    count = len(homeport.asked)
    assert homeport("login", homeport.url, "-u", "ada", stdin="no\n").code == REFUSED
    assert len(homeport.asked) == count + 2, "guessing again would only make it worse"


def test_signing_in_elsewhere_than_typed_is_asked_for(homeport: CommandLine) -> None:
    signing_in(homeport)
    elsewhere = Answer(None, 301, {"Location": "https://evil.example/healthz"})
    homeport.answers["GET /healthz"] = elsewhere
    ran = homeport("login", homeport.url, "-u", "ada", stdin="secret\n")
    assert ran.code == 1
    assert "sends you to https://evil.example" in ran.err
    assert len(homeport.asked) == 1, "no password was sent"
    unencrypted = Answer(None, 301, {"Location": "http://evil.example/healthz"})
    homeport.answers["GET /healthz"] = unencrypted
    assert homeport("login", homeport.url, "-u", "ada", stdin="secret\n").code == USAGE


def test_this_machine_has_several_names(homeport: CommandLine) -> None:
    signing_in(homeport)
    other = homeport.url.replace("127.0.0.1", "localhost")
    answers = [Answer(None, 301, {"Location": f"{other}/healthz"}), Answer(data=b"ok")]
    homeport.answers["GET /healthz"] = answers
    assert homeport("login", homeport.url, "-u", "ada", stdin="secret\n").code == 0
    assert homeport("context", "list", "-o", "json").json[0]["url"] == homeport.url
    assert other in json.dumps(homeport("context", "list", "-o", "json").json)


def test_signing_out_revokes_and_forgets(homeport: CommandLine) -> None:
    homeport.answers["DELETE auth/token/"] = Answer(status=204)
    assert homeport("logout").code == 0
    assert homeport.asked[-1].headers["Authorization"] == "Token hp_token"
    assert "hp_token" not in (homeport.folder / "contexts.json").read_text()
    ran = homeport("list")
    assert ran.code == NOT_SIGNED_IN
    assert "homeport login" in ran.err
    homeport.sign_in("http://127.0.0.1:9")
    ran = homeport("logout")
    assert ran.code == 0
    assert "has not revoked it" in ran.err
    assert homeport("list").code == NOT_SIGNED_IN


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


# --- trainings ---


# What lists ask for and print is in tests/recorded.


def test_names_in_a_list_do_nothing(homeport: CommandLine) -> None:
    homeport.answers["GET jobs/"] = listed(job(), job(id=OTHER_ID, name="\x1b[31mevil\nname"))
    ran = homeport("list")
    assert ran.out.splitlines()[2].split()[:3] == ["99999999", "evil", "name"]
    assert len(ran.out.splitlines()) == 3
    assert "\x1b" not in ran.out
    assert yaml.safe_load(homeport("list", "-o", "yaml").out)[1]["id"] == OTHER_ID


def test_colours_are_for_terminals_and_for_who_wants_them(
    homeport: CommandLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    homeport.answers["GET jobs/"] = listed(job())
    assert "\x1b[" not in homeport("list").out
    assert "\x1b[36mrunning\x1b[0m" in homeport("list", "--color", "always").out
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[36mrunning\x1b[0m" in homeport("list", "--color", "always").out


def test_a_training_is_meant_by_id_beginning_or_name(homeport: CommandLine) -> None:
    def answer(asked: Asked) -> Any:
        if "name=mnist" in asked.path or "id=1234" in asked.path:
            return listed(job())
        return listed()

    homeport.answers["GET jobs/"] = answer
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job()
    homeport.answers[f"GET jobs/{JOB_ID}/events/"] = listed()
    for word in ("mnist", JOB_ID, "1234", JOB_ID.upper()):
        homeport.answers[f"GET jobs/{word}/"] = job()
        assert homeport("get", word, "-o", "name").out.strip() == JOB_ID, word
    for word in ("mni", "nothing", "abcd", "", " ", "..", "a/b", "\x1b[2J", "é" * 100):
        ran = homeport("get", word)
        assert ran.code == NOT_FOUND, word
        assert "\x1b" not in ran.err


def test_of_several_with_one_name_the_right_one_is_meant(homeport: CommandLine) -> None:
    newest, older = job(id=OTHER_ID, state="failed"), job()
    homeport.answers["GET jobs/"] = listed(newest, older)
    homeport.answers[f"POST jobs/{JOB_ID}/stop/"] = job(state="stopping")
    assert homeport("get", "mnist", "-o", "name").out.strip() == OTHER_ID
    ran = homeport("stop", "mnist", "--reason", "enough")
    assert ran.code == 0, ran.err
    assert homeport.asked[-1].json == {"reason": "enough"}
    ran = homeport("delete", "-y", "mnist")
    assert ran.code == USAGE
    assert "99999999 (failed), 12345678 (running)" in ran.err
    assert not [asked for asked in homeport.asked if asked.method == "DELETE"]


def test_get_shows_reason_next_step_replicas_and_events(homeport: CommandLine) -> None:
    replica = {"role": "worker", "index": 0, "attempt": 1, "state": "failed", "exit_code": 7}
    reason = {"code": "exit_code", "text": "worker-0 ended \x1b[2J", "next_step": "Read the end."}
    seen = job(state="failed", reason=reason, replicas=[{**replica, "reason": "why"}])
    homeport.answers[f"GET jobs/{JOB_ID}/"] = seen
    events = [
        {"at": "2026-11-20T10:00:00Z", "reason": "Pulled", "message": str(number), "count": 2}
        for number in range(30)
    ]
    homeport.answers[f"GET jobs/{JOB_ID}/events/"] = listed(*events)
    ran = homeport("get", JOB_ID)
    assert ran.code == 0, ran.err
    for text in ("Reason:     worker-0 ended", "Next step:  Read the end.", "worker-0", "29 (x2)"):
        assert text in ran.out
    assert "\x1b" not in ran.out
    assert "The last 10 of 30 events" in ran.err
    assert len(homeport("get", JOB_ID, "-o", "json", "--events").json["events"]) == 30


def test_nothing_is_deleted_without_a_yes(homeport: CommandLine) -> None:
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job(state="failed")
    homeport.answers[f"DELETE jobs/{JOB_ID}/"] = Answer(status=204)
    ran = homeport("delete", JOB_ID, stdin="y\n")
    assert ran.code == USAGE, "a pipe is nobody who could say yes"
    assert "--yes" in ran.err
    assert homeport.paths() == [f"GET jobs/{JOB_ID}/"]
    assert homeport("delete", "-y", JOB_ID, JOB_ID).code == 0
    assert homeport.paths().count(f"DELETE jobs/{JOB_ID}/") == 1


def test_all_are_found_before_one_is_stopped(homeport: CommandLine) -> None:
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job()
    homeport.answers["GET jobs/"] = listed()
    assert homeport("stop", JOB_ID, "nothing").code == NOT_FOUND
    assert not [asked for asked in homeport.asked if asked.method == "POST"]


def test_a_finished_log_is_read_from_the_archive(homeport: CommandLine) -> None:
    text = "worker-0 | \x1b[31mone\x1b[0m\nps-0 | \x1b]0;x\x07two\nno prefix\nworker-0 | end"
    both = {"worker": {"count": 1}, "ps": {"count": 1}}
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job(state="failed", resources=both)
    homeport.answers[f"GET jobs/{JOB_ID}/logs/"] = Answer(data=text.encode())
    ran = homeport("logs", "-f", JOB_ID)
    shown = ["worker-0 | one", "ps-0     | two", "no prefix", "worker-0 | end"]
    assert ran.out.splitlines() == shown
    assert homeport.asked[-1].path.endswith("download=1")
    homeport("logs", JOB_ID, "--tail", "5", "--replica", "ps-0")
    assert homeport.asked[-1].path.endswith("replica=ps-0&tail=5")
    assert homeport("logs", JOB_ID, "--replica", "ps-1").code == USAGE
    assert "\x1b[31mone" in homeport("logs", JOB_ID, "--raw").out


# Words, the attempt that is asked for, and the exit code; with -f there is nothing to follow.
ATTEMPTS = [("", "", 0), ("--attempt latest", "", 0), ("--attempt 1", "1", 0)]
ATTEMPTS += [("--attempt 02", "2", 0), ("--attempt all", "all", 0), ("--previous", "2", 0)]
ATTEMPTS += [("-f -p", "2", 0), ("--attempt 4", None, NOT_FOUND), ("--attempt 0", None, USAGE)]
ATTEMPTS += [("--attempt first", None, USAGE), ("--attempt 1 --previous", None, USAGE)]


@pytest.mark.parametrize(("words", "asked", "code"), ATTEMPTS)
def test_the_log_of_an_earlier_attempt(
    homeport: CommandLine, words: str, asked: str | None, code: int
) -> None:
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job(attempt=3)
    homeport.answers[f"GET jobs/{JOB_ID}/logs/"] = Answer(data=b"one\n")
    ran = homeport("logs", JOB_ID, *words.split())
    assert ran.code == code, ran.err
    if asked is None:
        assert not [path for path in homeport.paths() if "/logs/" in path]
        assert code == USAGE or "this training has had 3 attempts" in ran.err
        return
    assert ran.out == "one\n"
    query = parse_qs(urlsplit(homeport.asked[-1].path).query)
    assert query.get("attempt", [""]) == [asked]


def test_before_the_first_attempt_there_is_none(homeport: CommandLine) -> None:
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job()
    ran = homeport("logs", "--previous", JOB_ID)
    assert ran.code == NOT_FOUND
    assert "no earlier attempt: this training has had 1 attempt." in ran.err
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job(attempt=2)
    homeport.answers[f"GET jobs/{JOB_ID}/logs/"] = Answer(data=b"")
    assert "Nothing of attempt 1 is kept." in homeport("logs", "--previous", JOB_ID).err


def test_a_log_that_breaks_off_is_no_whole_log(homeport: CommandLine) -> None:
    homeport.answers[f"GET jobs/{JOB_ID}/"] = job(state="failed")
    homeport.answers[f"GET jobs/{JOB_ID}/logs/"] = Answer(data=b"one\ntwo\n", cut=4)
    ran = homeport("logs", JOB_ID)
    assert ran.code == 6
    assert "was interrupted" in ran.err


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
