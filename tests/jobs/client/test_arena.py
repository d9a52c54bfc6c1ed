"""Arena's words come to bodies that the portal takes: the command lines of its pages, and its flags."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from homeport_client import arena
from homeport_client.exits import USAGE
from homeport_client.submit import ARENA_WORDS
from tests.factories import make_tenant
from tests.jobs.client.test_documents import PAGE
from tests.jobs.client.world import JOB_ID, Answer, CommandLine, Ran, job
from tests.jobs.test_submission import accepted

GIVEN = yaml.safe_load(Path(__file__).with_name("arena.yaml").read_text())


def submit(homeport: CommandLine, line: str) -> tuple[dict[str, Any], Ran]:
    """What the portal is asked for, and what is said."""
    homeport.answers["POST jobs/"] = Answer(job(), 201)
    homeport.answers["POST tensorboards/"] = Answer(job(id="abcdef12", name="curves"), 201)
    ran = homeport("submit", *shlex.split(line))
    return (homeport.asked[0].json if homeport.asked else {}), ran


@pytest.mark.django_db
@pytest.mark.parametrize("page", GIVEN["pages"])
def test_the_command_lines_of_its_pages_run(homeport: CommandLine, page: str) -> None:
    wanted = GIVEN["pages"][page]
    asked, ran = submit(homeport, wanted["line"])
    assert asked == {**wanted["body"], "command": ["sh", "-c", wanted["command"]]}
    accepted(make_tenant("alice"), **asked)
    assert homeport.paths()[1:] == ["POST tensorboards/"]
    assert homeport.asked[1].json == {"name": "mnist", "jobs": [JOB_ID]}
    assert "homeport tensorboard open abcdef12" in ran.err
    assert ("log folder here" in ran.err) == ("{{log_dir}}" in wanted["command"])


@pytest.mark.parametrize("line", GIVEN["flags"])
def test_a_flag_is_a_field(homeport: CommandLine, line: str) -> None:
    assert submit(homeport, line)[0] == GIVEN["flags"][line]


@pytest.mark.parametrize("line", GIVEN["answers"])
def test_what_has_no_field_is_answered(homeport: CommandLine, line: str) -> None:
    asked, ran = submit(homeport, line)
    assert (asked, ran.code) == ({}, USAGE)
    assert GIVEN["answers"][line] in ran.err


def test_a_refusal_names_the_flags_and_a_folder_of_the_name_gives_way(
    homeport: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tf").mkdir()
    errors = [{"field": f"replicas.{role}.gpu", "text": "Many."} for role in ("worker", "ps")]
    homeport.answers["POST jobs/preview/"] = Answer({"errors": errors}, 400)
    ran = homeport("submit", "tf", "--ps", "1", "--dry-run", "python a.py")
    assert "the folder is ./tf" in ran.err
    assert "--gpus: Many.\n  --ps-gpus: Many." in ran.err


def test_the_page_has_every_word_and_flag() -> None:
    said = set(re.findall(r"`(-*\w[\w-]*)", PAGE.partition("## Arena")[2]))
    answered = {flag for flag in arena.ANSWERS if flag.startswith("--")}
    of_roles = {f"{flag}{end}" for flag in arena.AMOUNTS for end in ("", "-limit")}
    assert {*ARENA_WORDS, *arena.FLAGS, *answered} - of_roles <= said


def test_every_word_of_arena_is_answered_as_one(
    homeport: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for word in ("etjob", "et", "rayjob", "rj", "sparkjob", "volcanojob", "vj"):
        ran = homeport("submit", word, "--name", "a")
        assert (ran.code, f"There is no homeport submit {word}" in ran.err) == (2, True), ran.err
    for word in ("horovodjob", "hj", "mj", "deepspeedjob", "dp"):
        assert "Usage: homeport submit" in homeport("submit", word, "--help").out
    # A file of that name is code, as it was.
    (tmp_path / "ray").mkdir()
    (tmp_path / "dp").mkdir()
    assert "There is no homeport submit" not in homeport("submit", "ray").err
    assert "(pytorch)" in homeport("submit", "deepspeedjob", "--help").out
    assert "(pytorch)" not in homeport("submit", "dp", "--help").out
