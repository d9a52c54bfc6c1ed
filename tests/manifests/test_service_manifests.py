"""Manifests of notebooks and TensorBoards: whole documents against golden files, and what must hold."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes.client import ApiClient

from jobs.kinds import notebook, tensorboard
from jobs.kinds.interactive import tokens
from jobs.kinds.interactive.manifests import complete, render_served
from jobs.kinds.interactive.spec import GATE
from jobs.kinds.manifests import PodSecrets, kube_name
from jobs.kinds.notebook import NOTEBOOK as NOTEBOOKS
from jobs.kinds.registry import KINDS
from jobs.kinds.tensorboard import TENSORBOARD
from jobs.models import Workload
from jobs.rules.amounts import Amount
from portal import quantity
from portal.cluster import labels
from portal.cluster.manifests import Object
from tests.jobs.kinds.interactive.cases import row as served_row
from tests.manifests import HOSTILE, altered, check_restricted, shape, unsaved
from tests.manifests.test_job_manifests import PODS, everything, golden, pod_specs

SIZE = {"count": 1, "cpu_millicores": 2000, "memory_bytes": 4 * 2**30, "gpu_count": 1}
NOTEBOOK = unsaved(
    NOTEBOOKS,
    name="Ada's notes",
    image="quay.io/jupyter/tensorflow-notebook:2026-11-01",
    replicas={"notebook": SIZE},
)
BOARD = unsaved(
    TENSORBOARD,
    start=2,
    name="losses",
    image=NOTEBOOK.image,
    replicas={"tensorboard": {"count": 1, "cpu_millicores": 500, "memory_bytes": 2**30}},
    log_dirs=[{"title": "run 1", "path": "/log/jobs/run-1-abcdef", "job": "x"}],
)


def rendered(wanted: Workload, *, has_tls: bool = False) -> list[Object]:
    served = {"notebook": notebook.SERVED, "tensorboard": tensorboard.SERVED}[wanted.kind]
    own = PodSecrets(("user-hub-1",), ("user-wandb-2",), {"gcs": "user-gcs-1"})
    pods = replace(PODS, secrets=own) if wanted.kind == "notebook" else PODS
    return render_served(served, wanted, pods=pods, has_tls=has_tls)


def pod_of(documents: list[Object]) -> dict[str, Any]:
    spec: dict[str, Any] = documents[0]["spec"]["template"]["spec"]
    return spec


def container(wanted: Workload, name: str, **more: Any) -> dict[str, Any]:
    pod = pod_of(rendered(wanted, **more))
    every = [*pod["initContainers"], *pod["containers"]]
    return next(one for one in every if one["name"] == name)


def test_a_notebook() -> None:
    golden("notebook.yaml", rendered(NOTEBOOK))


def test_a_tensorboard_in_its_second_start_behind_tls() -> None:
    golden("tensorboard.yaml", rendered(BOARD, has_tls=True))


def test_all_pods_run_on_the_nodes_that_are_selected_and_off_those_that_are_kept() -> None:
    selector = {"homeport.dev/gluster": "ready"}
    pods = replace(PODS, node_selector=selector, avoided_nodes=("a", "b"))
    served = render_served(notebook.SERVED, NOTEBOOK, pods=pods, has_tls=False)
    specs = pod_specs([*everything(pods), *served])
    assert [spec.get("nodeSelector") for spec in specs] == [selector] * len(specs)
    off = [{"key": "metadata.name", "operator": "NotIn", "values": [name]} for name in "ab"]
    terms = {"nodeSelectorTerms": [{"matchFields": off}]}
    kept_off = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    rescues = [spec for spec in specs if "affinity" not in spec]
    assert [spec["affinity"] for spec in specs if spec not in rescues] == [kept_off] * (
        len(specs) - len(rescues)
    )
    assert [len(spec["containers"]) for spec in rescues] == [1]
    assert not [spec for spec in pod_specs(everything()) if "nodeSelector" in spec]


def test_pods_are_given_authorities_and_nothing_else_changes() -> None:
    """Our own programs by the variable that OpenSSL knows, people's by one that none takes for its own."""

    def specs(authorities: str) -> list[Object]:
        pods = replace(PODS, authorities=authorities)
        served = [
            render_served(one, wanted, pods=pods, has_tls=False)[0]
            for one, wanted in ((notebook.SERVED, NOTEBOOK), (tensorboard.SERVED, BOARD))
        ]
        return pod_specs([*everything(pods), *served])

    given = {"name": "authorities", "configMap": {"name": "homeport-authorities"}}
    mount = {"name": "authorities", "mountPath": "/run/authorities", "readOnly": True}
    variables = {
        **dict.fromkeys(("fetch", "rescue", "gate"), "SSL_CERT_FILE"),
        **dict.fromkeys(("main", "app"), "HOMEPORT_AUTHORITIES"),
    }
    found = set()
    for spec, plain in zip(specs("homeport-authorities"), specs(""), strict=True):
        spec["volumes"].remove(given)
        for container in (*spec.get("initContainers", ()), *spec["containers"]):
            if container["name"] == "prepare":  # speaks to nobody
                continue
            value = "/run/authorities/authorities.pem"
            container["env"].remove({"name": variables[container["name"]], "value": value})
            container["volumeMounts"].remove(mount)
            found.add(container["name"])
        assert spec == plain
    assert found == variables.keys()


@pytest.mark.parametrize("wanted", [NOTEBOOK, BOARD], ids=lambda wanted: wanted.kind)
def test_the_official_client_knows_every_field(wanted: Workload) -> None:
    client = ApiClient()
    types = {"Deployment": "V1Deployment", "Secret": "V1Secret", "Service": "V1Service"}
    for document in rendered(wanted):
        model = client.deserialize(
            json.dumps(document), types[document["kind"]], "application/json"
        )
        again = client.sanitize_for_serialization(model)
        assert again == document


@pytest.mark.parametrize("wanted", [NOTEBOOK, BOARD], ids=lambda wanted: wanted.kind)
def test_every_pod_passes_the_restricted_pod_security_standard(wanted: Workload) -> None:
    check_restricted(pod_of(rendered(wanted)), {"emptyDir", "secret", "persistentVolumeClaim"})


def test_what_is_counted_is_what_is_rendered() -> None:
    for wanted in (NOTEBOOK, BOARD):
        [need] = KINDS[wanted.kind].requests(wanted.replicas)
        app, gate = container(wanted, "app"), container(wanted, "gate")
        prepare = container(wanted, "prepare")
        asked = [one["resources"]["requests"] for one in (app, gate)]
        cpu = sum(quantity.cpu_millicores(one["cpu"]) for one in asked)
        memory = sum(quantity.memory_bytes(one["memory"]) for one in asked)
        assert Amount(cpu, memory, need.each.gpu, 1, 1) == need.each
        # The pod needs the larger of what runs and of what prepares it.
        assert quantity.cpu_millicores(prepare["resources"]["requests"]["cpu"]) <= (100 + GATE.cpu)
        assert quantity.memory_bytes(prepare["resources"]["requests"]["memory"]) <= (
            2**28 + GATE.memory
        )


def test_secrets_are_only_in_what_is_sent_and_only_the_gate_gets_the_key() -> None:
    documents = rendered(NOTEBOOK)
    root = {**documents[0], "metadata": {**documents[0]["metadata"], "uid": "root-uid"}}
    row = served_row(id=str(NOTEBOOK.pk))
    sent = [complete(row, document, root) for document in documents[1:]]
    [secret] = [document for document in sent if document["kind"] == "Secret"]
    assert secret["stringData"] == tokens.gate_secrets(NOTEBOOK.pk, row.observed_generation)
    for value in secret["stringData"].values():
        assert [d["kind"] for d in sent if value in json.dumps(d)] == ["Secret"]
        assert value not in json.dumps(documents)
    assert all(d["metadata"]["ownerReferences"][0]["uid"] == "root-uid" for d in sent)
    volumes = {volume["name"]: volume for volume in pod_of(documents)["volumes"]}
    assert [item["key"] for item in volumes["app"]["secret"]["items"]] == [
        "app_token",
        "usage_token",
    ]
    mounts = {mount["name"] for mount in container(NOTEBOOK, "app")["volumeMounts"]}
    assert "gate" not in mounts
    assert "token" not in json.dumps(container(NOTEBOOK, "app")["env"])


def test_a_tensorboard_can_read_the_log_volume_and_nothing_else() -> None:
    pod = pod_of(rendered(BOARD))
    for one in [*pod["initContainers"], *pod["containers"]]:
        mounts = {mount["name"]: mount for mount in one["volumeMounts"]}
        assert "data" not in mounts
        assert mounts.get("log", {"readOnly": True})["readOnly"] is True
    assert not [v for v in pod["volumes"] if v["name"] == "data"]


def test_each_start_has_names_and_a_selector_of_its_own() -> None:
    first = rendered(NOTEBOOK)
    second = rendered(altered(NOTEBOOK, start=2))
    for one, other in zip(first, second, strict=True):
        assert one["metadata"]["name"] != other["metadata"]["name"]
    assert first[2]["spec"]["selector"] != second[2]["spec"]["selector"]
    assert first[2]["spec"]["selector"][labels.OWNER] == str(NOTEBOOK.pk)


@given(st.integers(1, 10**6))
def test_any_number_of_starts_has_a_valid_name(start: int) -> None:
    name = kube_name("x" * 80, NOTEBOOK.pk, start)
    # The Deployment's pods append up to 17 characters.
    assert len(name) + 17 <= 63
    assert name != kube_name("x" * 80, NOTEBOOK.pk, start + 1)


@given(HOSTILE, HOSTILE, HOSTILE)
@settings(max_examples=60, deadline=None)
def test_no_input_changes_the_shape_of_a_manifest(name: str, image: str, title: str) -> None:
    rows = ({"title": title, "path": "/log/jobs/x", "job": "y"},)
    wanted = altered(BOARD, start=2, name=name, image=image, log_dirs=rows)
    assert [shape(d) for d in rendered(wanted)] == [shape(d) for d in rendered(BOARD)]
    assert container(wanted, "app")["image"] == image
    told = next(e for e in container(wanted, "app")["env"] if e["name"] == "APP_LOG_DIRS")
    assert json.loads(told["value"]) == list(rows)
