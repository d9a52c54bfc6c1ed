"""Files of other systems are answered field by field with what to write here."""

import json
import re
from typing import Any

import pytest
import yaml
from django.test import Client

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

LEFT = ("name", "securityContext", "imagePullPolicy", "terminationMessagePath")
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
                assert where in told or field in LEFT
        _at_its_line(client, job)
    assert jobs
    assert not Workload.objects.exists()


def _at_its_line(client: Client, job: Any) -> None:
    typed = yaml.safe_dump(job, sort_keys=False)
    page = page_of(client.post("/trainings/new/", {"yaml": typed}))
    line = typed.splitlines().index(f"kind: {job['kind']}") + 1
    assert f"Line {line}, kind: A {job['kind']} is not read" in page.one(id="yaml-error").text
