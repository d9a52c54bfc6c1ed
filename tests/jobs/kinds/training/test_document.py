"""A training as a YAML document gives the same training again, and no document can do harm."""

import io
import tracemalloc
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeport_client import body as client_body
from homeport_client.output import Output
from jobs.kinds.spec import columns_of
from jobs.kinds.training.answers import JobSerializer
from jobs.kinds.training.document import (
    MAX_FILE_BYTES,
    MOST_SHOWN_ERRORS,
    as_body,
    read_document,
    write_document,
)
from jobs.kinds.training.form import TrainingForm
from jobs.kinds.training.serializer import TrainingSerializer
from jobs.kinds.training.spec import TrainingSpec
from jobs.models import Workload
from jobs.pod.protocol.placeholders import FLAGS
from jobs.rules.topologies import TOPOLOGIES
from portal.web.rest import read
from tenants.models import Tenant, User
from tests.jobs.client.world import parsed

LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
TYPED = st.sampled_from(["", "print('a \"b\" $c')", "a = 1\nprint(a)", " two  words "]) | st.text(
    st.characters(exclude_categories=["C", "Z"], exclude_characters="\\")
)
SOURCES: list[dict[str, str] | None] = [
    None,
    {"path": "/data/src"},
    {"url": "https://host/a.py", "sha256": "a" * 64},
    {"git": "https://host/r.git", "ref": "main", "path": "sub"},
]
OWN: dict[str, Any] = {"image": "python:3.12", "command": ["sh", "-c", "x\ty"]}  # of a role
OPTIONS: dict[str, st.SearchStrategy[Any]] = {  # fields that only some topologies have
    "cluster_flags": st.lists(st.sampled_from(FLAGS), unique=True),
    "parallelism": st.sampled_from([None, 2]),
    "max_failed": st.sampled_from([None, 0, 1]),
    "indexes": st.sampled_from([None, "0"]),
}


def spec_of(body: Any) -> TrainingSpec:
    found: TrainingSpec = read(TrainingSerializer(data=body))
    return found


@st.composite
def specs(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> TrainingSpec:
    """Anything that a body can ask for, but for uploads."""
    topology = draw(st.sampled_from(list(TOPOLOGIES.values())))
    some = st.integers(1, 3)
    roles = {
        role.name: {
            "count": draw(some) if role.most is None else 1,
            "cpu": draw(some),
            "memory": f"{draw(some)}Gi",
            "gpu": draw(some) - 1,
            **({} if role.program else draw(st.sampled_from([{}, OWN]))),
        }
        for role in topology.roles
        if role.least or draw(st.booleans())
    }
    retries = draw(st.integers(0, 2))
    may_be_sparse = topology.name == "tf-ps" and not roles.keys() & {"chief", "evaluator"}
    unlimited = [] if topology.deciding(roles).program else [None]
    return spec_of(
        {
            "name": draw(st.from_regex("[A-Za-z0-9]([ ._-]{0,3}[0-9a-z])?", fullmatch=True)),
            "topology": topology.name,
            "image": draw(st.sampled_from(["python:3.11-slim", "tensorflow/tensorflow:2.21.0"])),
            "command": [draw(st.sampled_from(["true", "on", "1e3"])), *draw(st.lists(texts))],
            "source": draw(st.sampled_from(SOURCES)),
            "replicas": roles,
            "env": draw(st.dictionaries(st.from_regex("MY_[A-Z]{1,3}", fullmatch=True), texts)),
            **{name: draw(choice) for name, choice in OPTIONS.items() if name in topology.options},
            "sparse_spec": may_be_sparse and draw(st.booleans()),
            "restart_policy": "exit_code" if retries else draw(st.sampled_from(["never", ""])),
            "retries": retries,
            "deadline_s": draw(st.sampled_from([10, 28_800, *unlimited])),
            "starting_deadline_s": draw(st.sampled_from([61, 300])),
            "clean_policy": draw(st.sampled_from(["running", "none"])),
            "success_policy": draw(st.sampled_from([None, topology.success_policies(roles)[-1]])),
            "ttl_s": draw(st.integers(0, 100_000)),
            "shm": draw(st.sampled_from([None, "1Gi"])),
        }
    )


@given(specs(st.text(LETTERS)))
def test_the_document_of_a_training_asks_for_the_same(spec: TrainingSpec) -> None:
    assert spec_of(read_document(write_document(as_body(spec))).body) == spec


@given(specs(TYPED))
def test_the_form_of_a_body_asks_for_the_same(spec: TrainingSpec) -> None:
    assert spec_of(TrainingForm.of_body(as_body(spec)).body()) == spec


@given(specs(st.text(LETTERS)))
def test_what_homeport_get_writes_is_submitted_as_the_same(spec: TrainingSpec) -> None:
    owner = User(username="ada")
    job = Workload(tenant=Tenant(owner=owner), owner=owner, **columns_of(spec))
    job.shown_replicas = []
    context = {"request": SimpleNamespace(user=owner), "suspended_s": {job.pk: 0}}
    answer = JobSerializer(context=context).to_representation(job)
    written: list[str] = []
    output = Output(SimpleNamespace(write=written.append))  # type: ignore[arg-type]
    output.form = "yaml"
    output.data({**answer, "attempts": [], "events": []})
    with patch("sys.stdin", io.StringIO(written[0])):
        asked = client_body.make(parsed("submit", "-f", "-"), [])
    assert spec_of(asked.body) == spec


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"
REFUSED = {
    BOMB: "Line 1 (“a: &a [x, x]”): write the value out",
    "name: a\nenv: *x\n": "Line 2 (“env: *x”): write the value out",
    "name: !!python/object/apply:os.system [id]": "Line 1 (“name: !!python/object",
    "name: a\nname: b": "Line 2 (“name: b”): name is given twice",
    "env:\n  A: x\n  A: y\n": "Line 3 (“A: y”): A is given twice",
    "name: a\nenv: {A: b\n": "Line 2 (“env: {A: b”): this is not YAML",
    "name: a\n\tenv: x\n": "Line 2 (“env: x”): this is not YAML",
    "name: a\n---\nname: b": "one document only",
    "[" * 60_000: "Line 1",
    "- name": "write fields such as",
    "? [a]\n: b": "a field's name must be text",
    "name: a\nimage: \x01": "Line 2",
    "name: " + "é" * 32_768: "at most 64 KiB",
}


@pytest.mark.parametrize("text", REFUSED)
def test_a_document_that_is_refused_says_the_line(text: str) -> None:
    found = read_document(text)
    assert REFUSED[text] in found.find_errors()[0].text
    assert len(found.find_errors()) <= MOST_SHOWN_ERRORS + 1


@pytest.mark.parametrize(
    "text",
    [
        f"? {'k' * 100_000}\n: [{'0,' * 20_000}]\nname: a",
        "".join(f"{' ' * depth}{'k' * 1000}:\n" for depth in range(14))
        + (" " * 14 + "- 0\n") * 3000,
        f"name: a\nx: [{'0,' * 200_000}]",
    ],
    ids=["one long name", "long names in long names", "items"],
)
def test_a_document_takes_memory_as_its_text_is_long(text: str) -> None:
    tracemalloc.start()
    try:
        found = read_document(text, MAX_FILE_BYTES)
        taken_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (problem,) = found.problems
    assert "too many values" in problem.text
    assert taken_bytes < 32 * 2**20


def test_values_are_read_as_json_has_them() -> None:
    document = "a: 2026-11-24\nb: 7\nc: [yes, ~, 'yes', 0b_, 1.5]\nd: <<\n"
    assert read_document(document).body == {
        "a": "2026-11-24",
        "b": 7,
        "c": [True, None, "yes", "0b_", 1.5],
        "d": "<<",
    }
