"""From flags, files and folders to the body of a submit."""

import hashlib
import io
import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeport_client import body, yaml_values
from homeport_client.body import FIELDS, duration_s, name_of
from homeport_client.exits import REFUSED, USAGE, ClientError
from homeport_client.pack import pack, select
from jobs.kinds.training.serializer import TrainingSerializer
from portal.web.fields import NAME
from tests.jobs.client.world import (
    JOB_ID,
    Answer,
    Asked,
    CommandLine,
    Ran,
    Scripted,
    job,
    listed,
    parsed,
)

FITS = {"fit": {"kind": "now", "text": "Fits now."}, "manifests": "kind: Job\n"}


def wanted(*words: str) -> body.SubmitRequest:
    at = words.index("--") if "--" in words else len(words)
    return body.make(parsed("submit", *words[:at]), list(words[at + 1 :]))


def made(*words: str) -> dict[str, Any]:
    return wanted(*words).body


def test_every_field_of_the_body_has_a_flag() -> None:
    """What REST takes can be said on the command line; a new field fails here until it can."""
    by_flag = {path.partition(".")[0] for path in FIELDS}
    assert by_flag | body.WITHOUT_FLAG == set(TrainingSerializer().fields)


def test_a_switch_takes_nothing_of_what_follows() -> None:
    assert made("a.py", "--sparse-spec", "--ps", "1")["sparse_spec"] is True
    assert "sparse_spec" not in made("a.py")


# What each flag puts into the body is in tests/recorded, beside the lines of a job file.


def test_code_by_a_flag_takes_the_place_of_the_files(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("replicas: {worker: {count: 4, cpu: 2}}\nsource: {dir: src}\n")
    assert wanted("-f", str(path)).path == tmp_path / "src"
    other = wanted("-f", str(path), "--bundle", JOB_ID, "--cpu", "1")
    assert other.path is None
    assert other.body["source"] == {"bundle": JOB_ID}
    assert other.body["replicas"] == {"worker": {"count": 4, "cpu": "1"}}
    assert made("--set", "replicas.ps.cpu=2", "--topology", "other")["topology"] == "other"


NO_OBJECTS = ["", "- a\n- b", "just text", "{", "1: x", "? [a, b]\n: c", "&a [*a]", "[" * 5000]
NO_JSON = ["a: !!python/object/apply:os.system [id]", "a: !!binary aGVsbG8=", "a: !!set {b, c}"]
NO_CODE = ["source: {dir: x, url: y}", "source: {dir: 3}"]
BOMB = "\n".join(f"{b}: &{b} [{','.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefghi"))


@pytest.mark.parametrize("text", [*NO_OBJECTS, *NO_JSON, *NO_CODE, f"a: &a x\n{BOMB}", "a\x00b: c"])
def test_a_file_that_is_no_training_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(ClientError):
        wanted("-f", str(path))


@pytest.mark.parametrize(
    "text", ["# " + "x" * 10 * 2**20, "a: b\n" * 2 * 2**20], ids=["comment", "fields"]
)
def test_a_file_of_10_mb_is_refused_before_it_is_parsed(
    tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    monkeypatch.setattr(yaml_values, "read", lambda *_: pytest.fail("it is parsed"))
    with pytest.raises(ClientError, match=r"job\.yaml is too large for a training's description"):
        wanted("-f", str(path))
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    with pytest.raises(ClientError, match="too large"):
        wanted("-f", "-")


def test_variables_of_a_file_and_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "env"
    path.write_text("# comment\n\nA=1\n B = two words \nC=x=y\n")
    monkeypatch.setenv("MINE", "own")
    found = body.read_env([str(path)], ["A=2", "MINE"])
    assert found == {"A": "2", "B": " two words", "C": "x=y", "MINE": "own"}
    path.write_text("A=1\nno equals\n")
    with pytest.raises(ClientError, match="line 2"):
        body.read_env([str(path)], [])


@pytest.mark.parametrize("value", ["8:00", "010", "[1, -0_17]", "{a: 1:30.5}"])
def test_what_yaml_takes_for_another_number_is_refused(value: str) -> None:
    with pytest.raises(ClientError, match=r"--set deadline_s.* takes .* for "):
        body.set_values([f"deadline_s={value}"])
    for said, taken in (("07", 7), ("1_0", 10), ("0x3", 3), ("'8:00'", "8:00"), ("2h", "2h")):
        assert body.set_values([f"deadline_s={said}"]) == [("deadline_s", taken)]


# What is typed -> all that is said of it.
NO_TEXT = {
    ("--set", "env.DEBUG=yes"): [
        """--set env.DEBUG: this must be text, not yes; write --set 'env.DEBUG="yes"'."""
    ],
    ("--set", "env.A=010", "--set", "retries=2", "--set", "env.B="): [
        """--set env.A: this must be text, not 010; write --set 'env.A="010"'.""",
        """--set env.B: this must be text, not nothing; write --set 'env.B=""'.""",
    ],
    ("--set", "env={A: 1e-3, B: x, C: true, D: 1.0}"): [
        "--set env:",
        'C must be text, not true; write "true".',
        'D must be text, not 1.0; write "1.0".',
    ],
    ("--set", "replicas.ps.command=[python, t.py, --n, 10]"): [
        '--set replicas.ps.command: 3 must be text, not 10; write "10".'
    ],
}


@pytest.mark.parametrize("words", NO_TEXT, ids=" ".join)
def test_a_number_where_text_belongs_is_named_by_set_as_it_is_written(
    homeport: CommandLine, words: tuple[str, ...]
) -> None:
    ran = homeport("submit", "--image", "a:1", *words, "--", "true")
    assert ran.code == USAGE
    assert [line.strip() for line in ran.err.removeprefix("error: ").splitlines()] == NO_TEXT[words]


def test_what_set_says_is_taken_as_it_is_written() -> None:
    assert made("a.py", "--set", "env.AT=2026-11-24 10:00:00", "--set", 'env.B="yes"')["env"] == {
        "AT": "2026-11-24 10:00:00",
        "B": "yes",
    }


def test_a_refused_field_is_named_by_the_flag_that_said_it(
    homeport: CommandLine, portal: Scripted
) -> None:
    fields = ("env.A", "retries", "replicas.worker.cpu", "secrets.a", "command")
    errors = [{"field": name, "text": "No."} for name in fields]
    portal.answers["POST jobs/preview/"] = Answer({"errors": errors}, 400)
    said = ["env.A=x", "replicas.worker={cpu: 1}", "command=[b]", "secrets.a=env"]
    options = [word for one in said for word in ("--set", one)]
    ran = homeport("submit", "--retries", "1", *options, "--dry-run", "--", "a")
    assert [line.strip() for line in ran.err.splitlines()][1:6] == [
        "--set env.A: No.",
        "--retries: No.",
        "--set replicas.worker, cpu: No.",
        "--set secrets.a: No.",
        "the words behind --: No.",
    ]


# What a file says -> what --list-files says of it, which sends nothing to the portal.
LISTED_WRONG = {
    "source: {dir: a}\nsource: {dir: b}\n": "line 2 (“source: {dir: b}”): source is given twice; keep one.",
    "source: {dir: a, dir: b}\nname: x\n": "line 1 (“source: {dir: a, dir: b}”): dir is given twice; keep one.",
    "source: {dir: a}\n---\nsource: {dir: b}\n": "one document only",
    "source: &a {dir: a}\nname: x\n": "& and *",
    "source: !!map {dir: a}\nname: x\n": "tags (!) are not taken",
    "source: {dir: a, ref: x}\nname: x\n": "stands alone",
}


@pytest.mark.parametrize("text", LISTED_WRONG)
def test_files_of_what_no_document_may_be_are_not_listed(
    homeport: CommandLine, portal: Scripted, tmp_path: Path, text: str
) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.py").write_text("")
    file = tmp_path / "job.yaml"
    file.write_text(text)
    ran = homeport("submit", "-f", str(file), "--list-files")
    assert (ran.code, ran.out) == (USAGE, "")
    assert LISTED_WRONG[text] in ran.err
    assert not portal.asked


TIMES = {
    "90": 90,
    "90s": 90,
    "15m": 900,
    "2h30m": 9000,
    "1d": 86400,
    "1d1s": 86401,
    "30min": 1800,
    "2h30min": 9000,
}


@pytest.mark.parametrize("text", TIMES)
def test_times_are_said_as_people_do(text: str) -> None:
    assert duration_s(text) == TIMES[text]


@pytest.mark.parametrize(
    "text", ["", " ", "-1", "1.5h", "m", "1w", "1h2d", "2h30", "1d12", "٣", "1 h"]
)
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        duration_s(text)


@given(st.text(st.characters(blacklist_characters="/\0", blacklist_categories=["Cs"]), min_size=1))
def test_the_name_of_a_folder_makes_a_name(name: str) -> None:
    assert NAME.fullmatch(name_of(Path("/x") / name))


# --- code ---


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "my project"
    made.mkdir()
    (made / "train.py").write_text("print(1)")
    return made


Submit = Callable[..., Ran]


@pytest.fixture
def submit(homeport: CommandLine, folder: Path) -> Submit:
    """Submits the folder, or something in it."""

    def run(*options: str, path: str = "") -> Ran:
        return homeport("submit", str(folder / path), "--image", "i", *options, "--", "x")

    return run


@pytest.fixture
def taking(portal: Scripted) -> Scripted:
    """A portal that takes code and keeps it."""
    kept: dict[str, Any] = {}

    def upload(asked: Asked) -> Any:
        kind = asked.headers["Content-Type"]
        boundary = kind.partition("boundary=")[2].encode()
        assert asked.body.endswith(b"\r\n--" + boundary + b"--\r\n")
        head, _, rest = asked.body.partition(b"\r\n\r\n")
        assert b'name="file"; filename=' in head
        data = rest[: -len(b"\r\n--" + boundary + b"--\r\n")]
        row = {"id": JOB_ID, "sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
        kept[row["sha256"]] = row  # type: ignore[index]
        return Answer(row, 201)

    def look(asked: Asked) -> Any:
        found = [row for digest, row in kept.items() if digest in asked.path]
        return listed(*found)

    portal.answers.update(
        {
            "POST bundles/": upload,
            "GET bundles/": look,
            "POST jobs/": lambda asked: Answer(job(name=asked.json["name"]), 201),
            "POST jobs/preview/": FITS,
        }
    )
    return portal


def test_code_is_sent_once(taking: Scripted, submit: Submit, folder: Path) -> None:
    first = submit()
    assert first.code == 0, first.err
    body = {"name": "my project", "image": "i", "command": ["x"], "source": {"bundle": JOB_ID}}
    assert taking.asked[-1].json == body
    assert "Submitted my project (12345678)" in first.err
    second = submit("--retries", "2")
    assert second.code == 0
    assert "has this code already" in second.err
    uploads = [asked for asked in taking.asked if asked.path.endswith("bundles/")]
    assert [asked.method for asked in uploads] == ["POST"]
    sha256, _size = pack(select(folder), io.BytesIO())
    assert f"GET bundles/?sha256={sha256}&page_size=1" in taking.paths()


def test_an_upload_that_meets_a_busy_portal_is_sent_again_whole(
    taking: Scripted, submit: Submit, folder: Path
) -> None:
    (folder / "large.bin").write_bytes(b"\x00\xff" * 300_000)
    upload = taking.answers["POST bundles/"]
    busy = Answer({"errors": []}, 503)
    taking.answers["POST bundles/"] = [busy, busy, upload]
    ran = submit("-o", "name")
    assert (ran.code, ran.out) == (0, JOB_ID + "\n"), ran.err


def test_one_file_is_sent_as_it_is(taking: Scripted, submit: Submit) -> None:
    ran = submit(path="train.py")
    assert ran.code == 0
    upload = next(asked for asked in taking.asked if asked.path.endswith("bundles/"))
    assert b'filename="train.py"' in upload.body
    assert b"print(1)" in upload.body
    assert taking.asked[-1].json["name"] == "train"
    assert submit(path="/nowhere").code == USAGE


# --- what the cluster says ---
def tried(state: str) -> dict[str, Any]:
    text = "exceeded quota: team" if state == "queued" else "violates PodSecurity"
    pod = {
        "kind": "Pod",
        "name": "a-0",
        "state": state,
        "text": "" if state == "accepted" else text,
    }
    job = {"kind": "Job", "name": "a", "state": "accepted", "text": ""}
    return {"state": state, "fit": FITS["fit"], "objects": [job, pod]}


@pytest.mark.parametrize(
    ("state", "code", "said"),
    [
        ("accepted", 0, "The cluster accepts it. Fits now."),
        ("queued", 0, "its quota is used up: it will be queued."),
        ("refused", REFUSED, "The cluster refuses it."),
    ],
)
def test_the_cluster_is_asked_and_nothing_is_submitted(
    taking: Scripted, submit: Submit, state: str, code: int, said: str
) -> None:
    features = {"Homeport-Features": "idempotency-key, dry-run"}
    taking.answers |= {
        "GET me/": Answer({}, headers=features),
        "POST jobs/": Answer(tried(state), headers=features),
    }
    ran = submit("--dry-run=server")
    assert (ran.code, said in ran.err) == (code, True), ran.err
    assert [line.split()[:3] for line in ran.out.splitlines()[1:]] == [
        ["Job", "a", "accepted"],
        ["Pod", "a-0", state],
    ]
    assert [path for path in taking.paths() if "jobs/" in path] == ["POST jobs/?dry_run=All"]
    assert json.loads(submit("--dry-run=server", "-o", "json").out) == tried(state)


def test_a_portal_that_would_submit_is_not_asked(
    taking: Scripted, homeport: CommandLine, folder: Path
) -> None:
    taking.answers["GET me/"] = Answer({}, headers={"Homeport-Features": "idempotency-key"})
    ran = homeport("submit", "--dry-run=server", str(folder), "--image", "i", "--", "x")
    assert (ran.code, "older than this command line" in ran.err) == (1, True)
    # By itself it takes no value from the word behind it.
    ran = homeport("submit", "--dry-run", str(folder), "--image", "i", "--", "x", "--dry-run")
    assert (ran.code, ran.out) == (0, "kind: Job\n"), ran.err
    assert taking.asked[-1].json["command"] == ["x", "--dry-run"]
    assert "POST jobs/" not in " ".join(taking.paths()).replace("jobs/preview", "")
