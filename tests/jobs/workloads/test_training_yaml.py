"""The form of a new training and its YAML: two tabs over one request."""

import pytest
from django.test import Client

from jobs.kinds.spec import spec_of
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Workload
from tests.browsing import HTMX, page_of
from tests.jobs.workloads.typed import fields
from tests.portal.markup import Markup

pytestmark = pytest.mark.django_db


YAML = "name: mnist\nimage: python:3.11-slim\ncommand:\n- python\n- train.py\n"


def test_form_and_yaml_are_two_tabs_over_one_request(client: Client) -> None:
    typed = fields(
        topology="tf-ps", env_name="LR", env_value="1e-3", deadline="8h", flags="job_name"
    )
    typed |= {"replicas.worker.count": "2", "replicas.ps.memory": "1Gi", "show": "kept"}
    page = page_of(client.post("/trainings/new/", {**typed, "view": "yaml"}))
    text = page.value("yaml") or ""
    assert text.startswith("name: mnist\ntopology: tf-ps\nimage: python:3.11-slim\ncommand:\n")
    assert "worker:\n    count: 2\n    memory: 2Gi\n  ps: {}" in text
    assert "deadline_s: 28800" in text
    assert "retries" not in text
    back = page_of(client.post("/trainings/new/", {"yaml": text, "view": "form"}))
    for name in ("name", "topology", "command", "deadline", "replicas.worker.count", "flags"):
        assert back.value(name) == typed[name], name
    assert back.value("env_value") == "1e-3"
    assert not Workload.objects.exists()
    client.post("/trainings/new/", {"yaml": text})
    spec = spec_of(Workload.objects.get(), TrainingSpec)
    assert (spec.replicas["worker"].count, spec.run_policy.deadline_s) == (2, 28_800)


def test_what_is_not_typed_yet_is_not_there_in_the_other_tab(client: Client) -> None:
    page = page_of(
        client.post("/trainings/new/", {"image": "a", "source_kind": "bundle", "view": "yaml"})
    )
    text = page.value("yaml") or ""
    assert "name: ''\nimage: a\ncommand: []\nsource:\n  bundle: ''\n" in text
    back = page_of(client.post("/trainings/new/", {"yaml": text, "view": "form"}))
    assert (back.value("name"), back.value("command"), back.value("source_kind")) == (
        "",
        "",
        "bundle",
    )
    errors = page_of(client.post("/trainings/new/", {"yaml": text})).text
    assert all(f"Line {n}, {name}:" in errors for n, name in [(1, "name"), (5, "source.bundle")])


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("env: {LR: 3\n", "Line 6 (“env: {LR: 3”): this is not YAML"),
        ("env: &x {A: b}\n", "Line 6 (“env: &x {A: b}”): write the value out"),
        ("gpus: 1\nreplicas:\n  worker: {gpu: 99}\n", "Line 8, replicas.worker.gpu:"),
        ('env:\n  KEY: "two\\r\\nlines"\n', "The form has no place for all of this"),
    ],
)
def test_yaml_that_cannot_be_used_stays_and_says_its_line(
    client: Client, more: str, words: str
) -> None:
    page = page_of(client.post("/trainings/new/", {"yaml": YAML + more, "view": "form"}))
    assert page.value("yaml") == YAML + more
    assert words in page.text
    if "KEY" not in more:
        assert page.one(id="yaml").get("aria-invalid") == "true"
        page_of(client.post("/trainings/new/", {"yaml": YAML + more}))
        told = client.post("/trainings/new/fit/", {"yaml": YAML + more}, headers=HTMX)
        assert words in Markup(told.content.decode()).text
        assert not Workload.objects.exists()


def test_a_form_that_cannot_be_read_does_not_turn_into_yaml(client: Client) -> None:
    typed = fields(command="python 'x", env_name=["A", "A"], env_value=["1", "2"], view="yaml")
    page = page_of(client.post("/trainings/new/", typed))
    assert page.value("command") == "python 'x"
    assert page.one(id="env-1").get("aria-invalid") == "true"
