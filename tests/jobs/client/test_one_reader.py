"""A file that describes a training is read by one reader: tab, `-f` and REST say the same of it, in the same words."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client

from homeport_client.exits import REFUSED
from jobs.models import Workload
from jobs.pod.protocol.placeholders import DEFAULT_FLAGS
from tenants.models import Team, Tenant
from tests.browsing import client_of, page_of, tenant_with_a_node
from tests.jobs.client.world import Answer, CommandLine, Scripted, job

pytestmark = pytest.mark.django_db

FEATURES = {"Homeport-Features": "idempotency-key, dry-run, document"}
GOOD = "name: a\nimage: python:3.11-slim\ncommand: [x]\n"
NUMBERS = (
    "env:\n  EPOCHS: 10\n  DEBUG: yes\n  OCTAL: 010\n  DAY: 2026-11-24\n  LR: 1e-3\n  NONE:\n"
    "command: [python, t.py, --epochs, 10, --at, 12:30:45]\nname: a\nimage: python:3.11-slim\n"
)
MANY = "".join(f"  V{number}: {number}\n" for number in range(20))
# Text -> line, field and the words of each thing wrong with it; no line: the text has none for it.
WRONG: dict[str, list[tuple[int | None, str, str]]] = {
    "name: b\n" + GOOD: [(2, "name", "name is given twice; keep one.")],
    GOOD + "env: {A: x, A: y}\n": [(4, "env.A", "A is given twice")],
    GOOD + "---\n" + GOOD: [(4, "", "one document only")],
    GOOD + "imgae: x\nreplicas: {worker: {gpus: 1}}\n": [
        (4, "imgae", "There is no such field."),
        (5, "replicas.worker.gpus", "There is no such field."),
    ],
    GOOD + "retries: many\nsource: [a]\nenv: text\n": [
        (4, "retries", "whole number"),
        (5, "source", "object with bundle, url, git or path"),
        (6, "env", "object of names and values"),
    ],
    NUMBERS: [
        (2, "env.EPOCHS", 'write EPOCHS: "10".'),
        (3, "env.DEBUG", 'write DEBUG: "yes".'),
        (4, "env.OCTAL", 'write OCTAL: "010".'),
        (7, "env.NONE", 'write NONE: "" for an empty one.'),
        (8, "command.3", 'write "10".'),
        (None, "", "1 more are not shown."),
    ],
    GOOD + "deadline_s: 8:00\nreplicas: {worker: {count: 010, cpu: -0_17}}\nttl_s: 2h30\n": [
        (4, "deadline_s", "YAML takes 8:00 for 480; write that, or the text in quotes."),
        (5, "replicas.worker.count", "YAML takes 010 for 8;"),
        (5, "replicas.worker.cpu", "YAML takes -0_17 for -15;"),
        (6, "ttl_s", "Enter a time with its unit"),
    ],
    GOOD + "retries: 07\nttl_s: +1_0\nstarting_deadline_s: 0x20\nindexes: 1:30.5\n": [
        (7, "indexes", "YAML takes 1:30.5 for 90.5;")
    ],
    "apiVersion: v1\nkind: TFJob\nspec: {mode: 0644}\n": [
        (2, "kind", ""),
        (1, "apiVersion", ""),
        (3, "spec.mode", "Leave it out"),
    ],
    GOOD + "env:\n" + MANY: [(5 + n, f"env.V{n}", f'write V{n}: "{n}".') for n in range(5)],
    "image: python:3.11-slim\ncommand: [x]\n": [(None, "name", "needed")],
    GOOD + "env: &a {A: x}\nsecrets: *a\nretries: !!int 3\n": [
        (4, "env", "& and *"),
        (5, "secrets", "& and *"),
        (6, "retries", "tags (!)"),
    ],
    GOOD + "env: {A: b\n": [(4, "", "this is not YAML")],
    **{
        GOOD + f"source: {empty}\n": [(4, "source", "object with bundle, url, git or path")]
        for empty in ("''", "false", "0", "[]")
    },
    **{
        f"name: {empty}\nimage: python:3.11-slim\ncommand: [x]\nsource: {{dir: src}}\n": [
            (1, "name", "text")
        ]
        for empty in ("0", "false", "[]")
    },
    "id: x\nresources: {worker: {}}\n" + GOOD + "source: {git: https://host/…}\nenv: {A: null}\n": [
        (6, "source.git", "Its owner alone sees this address; write it out."),
        (7, "env.A", "Its owner alone sees this value; write it out."),
    ],
    GOOD + "source: {url: https://host/…}\n": [(4, "source.url", "Its owner alone sees this")],
    GOOD + "source: {git: ssh://host/…}\n": [(4, "source.git", "Its owner alone sees this")],
    GOOD + "source: {dir: 3}\n": [(4, "source.dir", "")],
    GOOD + "x: " + "[" * 20 + "]" * 20: [(4, "x", "nested too deeply")],
}


@pytest.fixture
def tenant() -> Tenant:
    return tenant_with_a_node("alice", team=Team.objects.create(name="vision"))


@pytest.fixture
def client(tenant: Tenant) -> Client:
    return client_of(tenant)


def asked(client: Client, body: Any, path: str = "jobs/document/") -> Any:
    text = body if isinstance(body, str) else json.dumps(body)
    return client.post(f"/api/v1/{path}", text, content_type="application/json")


def line_by_line(
    homeport: CommandLine, portal: Scripted, client: Client, *words: str
) -> tuple[int, list[str]]:
    """What the command line says, of what the real portal answers to what it sends."""
    portal.answers["POST jobs/document/"] = Answer({}, 400, FEATURES)
    homeport(*words)
    answer = asked(client, portal.asked[-1].json)
    portal.answers["POST jobs/document/"] = Answer(answer.json(), answer.status_code, FEATURES)
    ran = homeport(*words)
    return ran.code, [line.strip() for line in ran.err.splitlines()]


@pytest.mark.parametrize("text", WRONG)
def test_tab_file_and_rest_say_the_same(
    client: Client,
    homeport: CommandLine,
    portal: Scripted,
    tmp_path: Path,
    text: str,
) -> None:
    answer = asked(client, {"text": text})
    assert answer.status_code == 400
    told = answer.json()["errors"]
    seen = [(row.get("line"), row["field"]) for row in told]
    assert seen == [(line, field) for line, field, _words in WRONG[text]]
    for row, (line, field, words) in zip(told, WRONG[text], strict=True):
        assert words in row["text"]
        assert line is None or row["text"].startswith(f"Line {line}"), field
    page = page_of(client.post("/trainings/new/", {"yaml": text}))
    for row in told:
        if row["field"] != "source.dir":  # which only a file can have
            assert page.text.count(row["text"]) == 1, row
    file = tmp_path / "job.yaml"
    file.write_text(text)
    code, lines = line_by_line(homeport, portal, client, "submit", "-f", str(file))
    words_of = [
        row["text"] if row.get("line") or not row["field"] else f"name: {row['text']}"
        for row in told
    ]
    assert (code, lines[1 : 1 + len(told)]) == (REFUSED, words_of)
    assert not Workload.objects.exists()


def test_json_is_refused_for_the_same_by_field(client: Client) -> None:
    for path in ("jobs/", "jobs/preview/"):
        twice = '{"name": "b", "name": "a", "env": {"A": "x", "A": "y"}, "command": ["x"]}'
        told = asked(client, twice, path).json()["errors"]
        assert [(row["field"], row["text"]) for row in told] == [
            ("name", "name is given twice; keep one."),
            ("env.A", "A is given twice; keep one."),
        ]
        numbers = {"name": "a", "image": "python:3.11-slim", "env": {"N": 10, "D": True, "L": [1]}}
        told = asked(client, {**numbers, "command": ["x", 1e-3, None]}, path).json()["errors"]
        assert [(row["field"], row["text"].partition("; ")[2]) for row in told] == [
            ("command.1", 'write "0.001".'),
            ("command.2", 'write "" for an empty one.'),
            ("env.N", 'write N: "10".'),
            ("env.D", 'write D: "true".'),
            ("env.L", ""),
        ]
    assert not Workload.objects.exists()


def test_what_flags_say_is_named_by_the_flag_and_said(
    client: Client, homeport: CommandLine, portal: Scripted, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(GOOD + "replicas: {worker: {cpu: 1, count: none}}\nsource: {dir: src}\n")
    words = ["submit", "-f", str(file), "--cpu", "many", "--name", "b", "--env", "A=x", "--ps", "1"]
    code, lines = line_by_line(homeport, portal, client, *words)
    assert code == REFUSED
    assert lines[1].startswith("Line 4, replicas.worker.count: ")
    assert lines[2].startswith("--cpu: ")
    # Put right, it is what counts, and said; a folder is code, which is still to be sent.
    words = [
        *words,
        "--set",
        "replicas.worker.count=2",
        "--cpu",
        "2",
        "--bundle",
        "0" * 32,
        "-o",
        "name",
    ]
    homeport.answers["POST jobs/"] = Answer(job(), 201)
    code, lines = line_by_line(homeport, portal, client, *words)
    assert lines[1:] == ["--bundle: You have no such upload."], lines
    words[words.index("--bundle") : words.index("-o")] = ["--source-path", "/data/x"]
    code, lines = line_by_line(homeport, portal, client, *words)
    assert code == 0, lines
    changed = "replicas.worker.cpu, name, replicas.worker.count, source"
    assert lines[0] == f"Said otherwise than in the file: {', '.join(sorted(changed.split(', ')))}."
    body = portal.asked[-1].json
    assert body["name"] == "b"
    assert body["env"] == {"A": "x"}
    assert body["source"] == {"path": "/data/x"}
    assert body["replicas"] == {"worker": {"cpu": "2", "count": 2}, "ps": {"count": 1}}
    made = asked(client, body, "jobs/")
    assert (made.status_code, made.json()["topology"]) == (201, "tf-ps")


def test_what_homeport_get_writes_is_taken_and_what_is_left_out_is_said(client: Client) -> None:
    flags = {"cluster_flags": True, "env": {"N": "10"}}
    one = asked(client, {**yaml.safe_load(GOOD), **flags}, "jobs/").json()
    shown = client.get(f"/api/v1/jobs/{one['id']}/").json()
    for text in (yaml.safe_dump(shown), json.dumps(shown)):
        found = asked(client, {"text": text})
        assert found.status_code == 200, found.content
        (note,) = found.json()["notes"]
        assert "conditions" in note
        assert "state" in note
        body = found.json()["body"]
        assert body["cluster_flags"] == list(DEFAULT_FLAGS)
        again = asked(client, body, "jobs/").json()
        assert again["resources"] == one["resources"]
    # What it never has is refused, and named as it stands there.
    shown["resources"]["worker"]["cpus"] = 1
    told = asked(client, {"text": yaml.safe_dump({**shown, "imgae": 1})}).json()["errors"]
    assert [row["field"] for row in told] == ["imgae", "resources.worker.cpus"]


def test_code_beside_a_file_names_the_training(
    client: Client, homeport: CommandLine, portal: Scripted, tmp_path: Path
) -> None:
    (tmp_path / "my code").mkdir()
    (tmp_path / "my code" / "a.py").write_text("1")
    file = tmp_path / "job.yaml"
    file.write_text("image: python:3.11-slim\ncommand: [x]\nsource: {dir: my code}\n")
    words = ["submit", "-f", str(file), "--dry-run"]
    homeport.answers["GET bundles/"] = {"count": 0, "next": None, "previous": None, "results": []}
    homeport.answers["POST jobs/preview/"] = {"fit": {"kind": "now", "text": ""}, "manifests": "x"}
    code, lines = line_by_line(homeport, portal, client, *words)
    assert code == 0, lines
    assert portal.asked[-1].json["name"] == "my code"
    page = page_of(client.post("/trainings/new/", {"yaml": file.read_text()}))
    assert "homeport submit -f" in page.one(id="yaml-error").text


@pytest.mark.parametrize("size_bytes", [600 * 1024, 10 * 1024**2])
def test_a_file_that_is_too_large_is_refused_in_words(
    client: Client,
    homeport: CommandLine,
    portal: Scripted,
    tmp_path: Path,
    size_bytes: int,
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("a: b\n" * (size_bytes // 5))
    portal.answers["POST jobs/document/"] = Answer({}, 400, FEATURES)
    for words in (["submit", "-f", str(file)], ["submit", "-f", "-"]):
        ran = homeport(*words, stdin=file.read_text())
        told = ran.err
        if portal.asked:
            told = asked(client, portal.asked[-1].json).json()["errors"][0]["text"]
        assert "too l" in told


def test_an_older_portal_is_sent_what_it_knows(
    homeport: CommandLine, portal: Scripted, tmp_path: Path
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(GOOD + "source: {path: /data}\n")
    old = {"Homeport-Features": "idempotency-key, dry-run"}
    told = {"errors": [{"field": "", "code": "not_found", "text": "no such address"}]}
    portal.answers["POST jobs/document/"] = Answer(told, 404, old)
    portal.answers["POST jobs/"] = Answer(job(), 201, old)
    assert homeport("submit", "-f", str(file), "--name", "b").code == 0
    assert portal.asked[-1].json == {**yaml.safe_load(file.read_text()), "name": "b"}
    # One that has it means what it says.
    portal.answers["POST jobs/document/"] = Answer(told, 404, FEATURES)
    assert homeport("submit", "-f", str(file)).code != 0
