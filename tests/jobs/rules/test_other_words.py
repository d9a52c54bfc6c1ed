"""Files of other systems are answered field by field with what to write here."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from jobs.kinds.training.export import FORMS, Export
from jobs.kinds.training.serializer import TrainingSerializer
from jobs.models import Workload
from jobs.rules import other_words
from jobs.rules.topologies import ROLES
from portal.cluster.manifests import to_yaml
from tests.browsing import client_of, page_of
from tests.factories import make_tenant
from tests.jobs.kinds.training.test_export import OPERATED
from tests.repository.test_documents import ROOT

TABLES = [fields for _topology, fields in other_words.KINDS.values()] + [other_words._VOLCANO]
CONTAINER = {"image": "a:1", "command": ["x"], "env": [{"name": "A", "value": "1"}]}
POD = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
VOLCANO = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "spec": {"minAvailable": 2, "tasks": [{"name": "w", "replicas": 2, "template": POD}]},
}
BATCH = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "sweep"},
    "spec": {"completions": 9, "parallelism": 3, "backoffLimit": 2, "template": POD},
}


def test_each_answer_begins_with_a_field_of_ours() -> None:
    known, of_role = TrainingSerializer().fields, "count cpu image command min gpu"
    for ours in {text for fields in TABLES for text in fields.values()}:
        if ours.startswith("leave it out; "):
            continue
        first = re.split(r"[:,; ]", ours.format(role="worker"), maxsplit=1)[0]
        name, *rest = first.split(".")
        assert name in known, ours
        assert not rest or (rest[0] in ROLES and rest[1] in of_role), ours


def test_the_document_has_the_same_table() -> None:
    text = (ROOT / "docs/training.md").read_text().partition("## From Kubeflow\n")[2]
    rows = dict(re.findall(r"^\| `(\S+)` \| (.*) \|$", text.partition("\n## ")[0], re.MULTILINE))
    fields = {
        path: ours.format(role="ROLE")
        for kind in ("TFJob", "PyTorchJob", "MPIJob")
        for path, ours in other_words.KINDS[kind][1].items()
        if path.removeprefix("spec.") not in other_words._RUN
    }
    kinds = {kind: topology for kind, (topology, _fields) in other_words.KINDS.items()}
    assert rows == {**kinds, **fields}


ROLE = {"replicas": 1, "template": {"spec": {"containers": [{**CONTAINER, "resources": {}}]}}}
NO_PS = {"tfReplicaSpecs": {"Chief": ROLE, "Worker": ROLE, "Evaluator": ROLE}}
WITH_PS = {"tfReplicaSpecs": {"Chief": ROLE, "PS": ROLE, "Evaluator": ROLE}}
MPI = {"mpiReplicaSpecs": {"Launcher": ROLE, "Worker": ROLE}}
SECRET = {"trainer": {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s"}}}]}}
_IN = "template.spec.containers.0"


@pytest.mark.parametrize(
    ("kind", "spec", "path", "says"),
    [
        ("TFJob", NO_PS, "tfReplicaSpecs.Chief.replicas", "Write replicas.worker.count; the Chief"),
        ("TFJob", NO_PS, "tfReplicaSpecs.Worker.replicas", "Write replicas.worker.count."),
        ("TFJob", NO_PS, f"tfReplicaSpecs.Chief.{_IN}.image", "replicas.worker.image"),
        ("TFJob", NO_PS, "tfReplicaSpecs.Evaluator.replicas", "a training of its own"),
        ("TFJob", NO_PS, f"tfReplicaSpecs.Evaluator.{_IN}.command", "a training of its own"),
        ("TFJob", WITH_PS, "tfReplicaSpecs.Chief.replicas", "Write replicas.chief.count."),
        ("TFJob", WITH_PS, "tfReplicaSpecs.Evaluator.replicas", "Write replicas.evaluator.count."),
        ("MPIJob", MPI, f"mpiReplicaSpecs.Worker.{_IN}.command", "Leave it out; mpirun"),
        ("MPIJob", MPI, f"mpiReplicaSpecs.Launcher.{_IN}.command", "replicas.launcher.command"),
        ("TrainJob", SECRET, "trainer.env.0.valueFrom.secretKeyRef", "Write secrets"),
    ],
)
def test_no_answer_leads_into_the_next_refusal(kind: str, spec: Any, path: str, says: str) -> None:
    told = other_words.answers({"apiVersion": "x/v1", "kind": kind, "spec": spec})
    assert says in told.get(f"spec.{path}", "")


@pytest.mark.parametrize(
    ("body", "path", "says"),
    [
        (VOLCANO, "spec.tasks.0.replicas", "replicas.worker.count"),
        (VOLCANO, "spec.minAvailable", "starts as a whole"),
        (BATCH, "spec.completions", "of the topology array"),
        (BATCH, "spec.template.spec.restartPolicy", "Always is on_failure"),
        (BATCH, "spec.template.spec.containers.0.env", "Write env"),
        ({"kind": "RayJob", "spec": {}}, "kind", "a scheduler of their own"),
        ({"kind": "SparkApplication", "spec": {}}, "kind", "a scheduler of their own"),
        ({"kind": "DaskCluster", "spec": {}}, "kind", "a scheduler of their own"),
        ({"kind": "Pod", "apiVersion": "v1"}, "kind", "TFJob, PyTorchJob"),
        ({"kind": ["TFJob"], "spec": 1}, "", ""),
        ({"kind": "TFJob", "spec": {"tfReplicaSpecs": []}}, "kind", "topology: tf-ps"),
    ],
)
def test_what_others_write_is_answered(body: Any, path: str, says: str) -> None:
    assert says in other_words.answers(body).get(path, "")


def _leaves(value: Any, path: str = "") -> Iterator[str]:
    """Paths of all that is neither an object nor a list, nor empty."""
    inner = dict(enumerate(value)) if isinstance(value, list) else value
    if not isinstance(inner, dict):
        if value is not None:
            yield path
        return
    for key, one in inner.items():
        yield from _leaves(one, f"{path}.{key}" if path else str(key))


def _unanswered(body: Any) -> list[str]:
    told = {path for path in other_words.answers(body) if path}
    return [
        leaf
        for leaf in _leaves(body)
        if not any(leaf == path or leaf.startswith(f"{path}.") for path in told)
    ]


# Each field that somebody's file was seen with, and the beginning of its answer.
OFTEN = {
    "initContainers": "Write source",
    "hostNetwork": "Leave it out; pods are kept apart",
    "priorityClassName": "Write priority",
    "securityContext": "Leave it out; pods run as the admin",
    "serviceAccountName": "Leave it out; programs have no account",
    "containers.0.imagePullPolicy": "Leave it out; the cluster's default",
    "containers.0.lifecycle": "Leave it out; a program gets SIGTERM",
    "containers.0.env.0.valueFrom.secretKeyRef": "Write secrets",
    "containers.0.livenessProbe": "Leave it out; there is nothing like it",
    "dnsPolicy": "Leave it out; there is nothing like it",
}
LARGE_POD: dict[str, Any] = {
    "initContainers": [{"name": "a"}],
    "hostNetwork": True,
    "priorityClassName": "high",
    "securityContext": {"runAsUser": 0},
    "serviceAccountName": "me",
    "dnsPolicy": "Default",
    "containers": [
        {
            "name": "tensorflow",
            "imagePullPolicy": "Always",
            "lifecycle": {"preStop": {}},
            "livenessProbe": {"exec": {"command": ["x"]}},
            "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
        }
    ],
}
SPECS: dict[str, Any] = {
    "TFJob": {"tfReplicaSpecs": {"Worker": {"template": {"spec": LARGE_POD}}}},
    "PyTorchJob": {
        "pytorchReplicaSpecs": {"Worker": {"template": {"spec": LARGE_POD}}},
        "elasticPolicy": {"rdzvBackend": "c10d", "maxRestarts": 3, "nProcPerNode": 2},
        "nprocPerNode": "2",
    },
    "MPIJob": {"mpiReplicaSpecs": {"Launcher": {"template": {"spec": LARGE_POD}}}},
    "JAXJob": {"jaxReplicaSpecs": {"Worker": {"template": {"spec": LARGE_POD}}}},
    "TrainJob": {"trainer": {"image": "a"}, "podSpecOverrides": [{"targetJobs": []}]},
    "Job": {"template": {"spec": LARGE_POD}, "podFailurePolicy": {"rules": [1]}},
}
META = {"generateName": "a-", "annotations": {"a": "b"}, "labels": {"c": "d"}, "namespace": "n"}


@pytest.mark.parametrize("kind", SPECS)
def test_every_field_of_a_large_file_is_answered(kind: str) -> None:
    body = {"apiVersion": "x/v1", "kind": kind, "metadata": META, "spec": SPECS[kind]}
    told = other_words.answers(body)
    assert _unanswered(body) == []
    assert "Write name" in told["metadata.generateName"]
    for field, begins in OFTEN.items() if kind != "TrainJob" else ():
        (found,) = [text for path, text in told.items() if path.endswith(f"spec.{field}")]
        assert found.startswith(begins), field


@pytest.mark.parametrize("count", [10, 400])
def test_no_field_of_a_very_large_file_ends_in_silence(count: int) -> None:
    spec = {f"field{number}": 1 for number in range(count)}
    told = other_words.answers({"apiVersion": "x/v1", "kind": "PyTorchJob", "spec": spec})
    more = int(told.pop("", "0 more").partition(" ")[0])
    assert len(told) + more == count + 2  # with apiVersion and kind


@pytest.mark.django_db
def test_a_very_large_file_says_last_what_is_not_shown() -> None:
    body = {"kind": "PyTorchJob", "spec": {f"field{number}": 1 for number in range(400)}}
    client = client_of(make_tenant("alice"))
    by_rest = client.post("/api/v1/jobs/", json.dumps(body), "application/json").json()
    asked = {"text": json.dumps(body), "changes": [], "has_code": False}
    of_file = client.post("/api/v1/jobs/document/", json.dumps(asked), "application/json").json()
    for answer in (by_rest, of_file):
        assert answer["errors"][0]["field"] == "kind"
        assert answer["errors"][-1]["text"] == "201 more are not shown."


WORDS = st.sampled_from(
    ["spec", "env", "template", "containers", "metadata", "x", "replicas", "name"]
)
VALUES = st.recursive(
    st.sampled_from([1, "a", True]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=20,
)


@given(st.sampled_from([*SPECS]), st.dictionaries(WORDS, VALUES), VALUES)
def test_no_field_of_any_file_is_left_unanswered(kind: str, spec: Any, other: Any) -> None:
    body = {
        "apiVersion": "x/v1",
        "kind": kind,
        "metadata": {"name": "a"},
        "spec": spec,
        "other": other,
    }
    assert _unanswered(body) == []


@pytest.mark.django_db
@pytest.mark.parametrize("number", range(len(OPERATED)))
def test_every_field_of_what_we_export_ourselves_is_answered(number: int) -> None:
    """Fields whose number of replicas and so on ours come from, by REST and at its line of the YAML tab."""
    training, form, _types, _fields = OPERATED[number]
    text = to_yaml(FORMS[form].build(Export(training, FORMS[form])))
    jobs = [one for one in yaml.safe_load_all(text) if one["kind"] in other_words.KINDS]
    client = client_of(make_tenant("alice"))
    for job in jobs:
        answer = client.post("/api/v1/jobs/", json.dumps(job), "application/json")
        told = {error["field"]: error["text"] for error in answer.json()["errors"]}
        assert answer.status_code == 400
        [roles] = [name for name in job["spec"] if name.endswith("ReplicaSpecs")]
        for role, asked in job["spec"][roles].items():
            at = f"spec.{roles}.{role}"
            name = {"Master": "worker"}.get(role, role.lower())
            assert told[f"{at}.replicas"].startswith(f"Write replicas.{name}.count"), told
            for field in asked["template"]["spec"]["containers"][0]:
                where = f"{at}.template.spec.containers.0.{field}"
                assert where in told
        _at_its_line(client, job)
    assert jobs
    assert not Workload.objects.exists()


def _at_its_line(client: Client, job: Any) -> None:
    typed = yaml.safe_dump(job, sort_keys=False)
    page = page_of(client.post("/trainings/new/", {"yaml": typed}))
    line = typed.splitlines().index(f"kind: {job['kind']}") + 1
    assert f"Line {line}, kind: A {job['kind']} is not read" in page.one(id="yaml-error").text
