"""Manifests of trainings: whole documents against golden files, and what must hold for any input.

`HOMEPORT_WRITE_GOLDEN=1 pytest tests/manifests` rewrites the files; review the difference.
"""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.kinds.manifests import Grant, PodSecrets, PodSettings, named_secrets
from jobs.kinds.plan import Rescue
from jobs.kinds.state import ReplicaKey
from jobs.kinds.training.kind import TRAINING
from jobs.kinds.training.manifests import (
    completed,
    render_rescue,
    render_training,
    with_private,
)
from jobs.kinds.training.spec import RunPolicy
from jobs.models import Workload
from jobs.rules.amounts import Amount, ReplicaRequest
from jobs.rules.requests import requests_of
from portal.cluster import labels
from portal.cluster.manifests import Object, spec_hash
from portal.pools import Pool
from tests.manifests import HOSTILE, altered, check_restricted, shape, unsaved

DISK = "ephemeral-storage"
GOLDEN = Path(__file__).parent / "golden"
PODS = PodSettings(
    portal_url="http://10.244.0.1:8000",
    portal_image="ghcr.io/homeport/homeport:0.2.0",
    uid=1000,
    gid=100,
    log_archive_bytes=2 * 2**30,
    artifacts_bytes=5 * 2**30,
    bundle_bytes=512 * 2**20,
    disk="20Gi",
)
WORKER = {"count": 2, "cpu_millicores": 1500, "memory_bytes": 2 * 2**30, "gpu_count": 1}
PS = {"count": 2, "cpu_millicores": 500, "memory_bytes": 2**30, "gpu_count": 0}
TF_PS = unsaved(
    TRAINING,
    name="mnist: Größe 2",
    topology="tf-ps",
    image="tensorflow/tensorflow:2.21.0",
    command=("python", "train.py", "--ps={{ps_hosts}}"),
    source={"bundle": "9d3f8a52-0d3c-4a0e-b0a3-5f7c2f1d6e11"},
    replicas={"worker": WORKER, "ps": PS},
    env={"NOTE": "a: b\n- c"},
    cluster_flags=("ps_hosts", "worker_hosts", "job_name", "task_index"),
    run_policy=RunPolicy(retries=1, deadline_s=3600),
    shm_bytes=2**28,
)
CHIEF = altered(
    TF_PS,
    replicas={
        "chief": {**PS, "count": 1},
        "worker": WORKER,
        "ps": {**PS, "command": ("python", "ps.py"), "image": "lab/ps:1"},
        "evaluator": {**PS, "count": 1},
    },
)
SINGLE = altered(
    TF_PS,
    name="digits",
    topology="single",
    replicas={"worker": {**WORKER, "count": 1, "gpu_count": 0}},
    cluster_flags=(),
    run_policy=RunPolicy(retries=2),
    shm_bytes=None,
)


def golden(name: str, documents: list[Object]) -> None:
    """Compares with a file of `golden/`, or rewrites it when asked to."""
    text = yaml.safe_dump_all(documents, sort_keys=False, allow_unicode=True)
    path = GOLDEN / name
    if os.environ.get("HOMEPORT_WRITE_GOLDEN"):
        path.write_text(text)
    assert list(yaml.safe_load_all(path.read_text())) == documents


def test_a_single_training() -> None:
    golden("job-single.yaml", render_training(SINGLE, attempt=1, pods=PODS))


def test_parameter_servers_and_workers_in_their_second_attempt() -> None:
    golden(
        "job-tf-ps.yaml", render_training(TF_PS, attempt=2, pods=PODS, grant=Grant(deadline_s=3000))
    )


def test_a_chief_decides_and_workers_serve_it() -> None:
    golden("job-chief.yaml", render_training(CHIEF, attempt=1, pods=PODS))


def test_workers_of_mpi_run_our_daemon_and_are_not_replaced() -> None:
    training = altered(
        TF_PS, topology="mpi", replicas={"launcher": {**PS, "count": 1}, "worker": WORKER}
    )
    documents = render_training(training, attempt=1, pods=PODS)
    root, _service, config, _secret, workers = documents
    assert root["metadata"]["labels"][labels.ROLE] == "launcher"
    spec = workers["spec"]
    assert (spec["completions"], spec["backoffLimitPerIndex"]) == (2, 0)
    assert spec["podFailurePolicy"] == root["spec"]["podFailurePolicy"]
    assert spec["podFailurePolicy"]["rules"][0]["action"] == "FailJob"
    job = json.loads(config["data"]["job.json"])
    assert (job["programs"], job["slots"]) == ({"worker": "mpi_daemon"}, 1)


@pytest.mark.parametrize(
    ("gpus", "millicores", "slots"),
    [(0, 500, 1), (0, 1000, 1), (0, 2500, 2), (0, 16000, 16), (1, 8000, 1), (3, 1000, 3)],
)
def test_slots_of_mpi_are_a_workers_gpus_or_else_its_cpus(
    gpus: int, millicores: int, slots: int
) -> None:
    worker = {**WORKER, "gpu_count": gpus, "cpu_millicores": millicores}
    roles = {"launcher": {**PS, "count": 1}, "worker": worker}
    documents = render_training(
        altered(TF_PS, topology="mpi", replicas=roles), attempt=1, pods=PODS
    )
    assert json.loads(documents[2]["data"]["job.json"])["slots"] == slots


def test_a_rescue_pod() -> None:
    lost = Rescue(ReplicaKey("worker", 1, 1), "7a6b", 2)
    golden("rescue.yaml", [render_rescue(TF_PS, lost, attempt=2, pods=PODS)])


def pod_specs(documents: list[Object]) -> list[Object]:
    return [
        document["spec"] if document["kind"] == "Pod" else document["spec"]["template"]["spec"]
        for document in documents
        if document["kind"] in {"Job", "Deployment", "Pod"}
    ]


def everything(pods: PodSettings = PODS) -> list[Object]:
    rescue = render_rescue(TF_PS, Rescue(ReplicaKey("ps", 0, 1), "", 1), attempt=1, pods=pods)
    return [*render_training(CHIEF, attempt=1, pods=pods), rescue]


@pytest.mark.parametrize("spec", pod_specs(everything()), ids=str)
def test_every_pod_passes_the_restricted_pod_security_standard(spec: dict[str, Any]) -> None:
    check_restricted(spec, {"emptyDir", "configMap", "secret", "persistentVolumeClaim"})
    for container in [*spec.get("initContainers", []), *spec["containers"]]:
        requests, limits = (dict(container["resources"][side]) for side in ("requests", "limits"))
        # Disk is bounded, and none is asked for: no queue of ours counts it, and the scheduler would wait.
        assert (requests.pop(DISK), limits.pop(DISK)) == ("0", PODS.disk)
        assert requests == limits
    for volume in spec["volumes"]:
        assert "emptyDir" not in volume or volume["emptyDir"]["sizeLimit"]


def test_the_init_container_never_makes_a_pod_need_more() -> None:
    for spec in pod_specs(render_training(TF_PS, attempt=1, pods=PODS)):
        fetch, main = spec["initContainers"][0], spec["containers"][0]
        for name, value in fetch["resources"]["requests"].items():
            assert main["resources"]["requests"][name] == value


def test_what_is_counted_is_what_is_rendered() -> None:
    assert requests_of(TF_PS.replicas) == (
        ReplicaRequest("worker", 2, Amount(1500, 2 * 2**30, 1, 1)),
        ReplicaRequest("ps", 2, Amount(500, 2**30, 0, 1)),
    )
    job = render_training(TF_PS, attempt=1, pods=PODS)[0]
    limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
    assert limits == {"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": "1", DISK: "20Gi"}


def test_creations_of_a_submit_are_five_and_one_per_parameter_server() -> None:
    # With the commit that makes 6 calls and one per parameter server, whatever the workers.
    assert len(render_training(TF_PS, attempt=1, pods=PODS)) == 4 + 2
    many = altered(TF_PS, replicas={"worker": {**WORKER, "count": 100}, "ps": PS})
    assert len(render_training(many, attempt=1, pods=PODS)) == 4 + 2


def test_all_attempts_share_the_folder_but_no_name() -> None:
    def config(attempt: int) -> dict[str, Any]:
        documents = render_training(TF_PS, attempt=attempt, pods=PODS)
        return json.loads(documents[2]["data"]["job.json"])

    first, second = config(1), config(2)
    assert first["folder"] == second["folder"] == f"/log/jobs/{first['kube_name']}"
    assert first["kube_name"] != second["kube_name"]
    assert not set(first["hosts"]["worker"]) & set(second["hosts"]["worker"])


def test_the_secret_value_is_only_in_what_is_sent() -> None:
    documents = render_training(TF_PS, attempt=1, pods=PODS)
    assert "canary-token" not in json.dumps(documents)
    root = {**documents[0], "metadata": {**documents[0]["metadata"], "uid": "root-uid"}}
    sent = [completed(d, root=root, token="canary-token") for d in documents[1:]]
    assert [d["kind"] for d in sent if "canary-token" in json.dumps(d)] == ["Secret"]
    assert "canary-token" not in json.dumps(documents)


def test_code_from_git_is_named_in_the_secret_with_the_commit_that_is_known() -> None:
    source = {"git": "https://host/canary.git", "ref": "main"}
    for commit, more in (("", {}), ("ab" * 20, {"commit": "ab" * 20})):
        training = altered(TF_PS, source=source)
        training.source_commit = commit
        documents = render_training(training, attempt=2, pods=PODS)
        assert "canary" not in json.dumps(documents)
        [secret] = [with_private(training, d) for d in documents if d["kind"] == "Secret"]
        assert json.loads(secret["stringData"]["private.json"])["source"] == {**source, **more}


def test_children_of_another_root_are_never_taken_for_ours() -> None:
    documents = render_training(TF_PS, attempt=1, pods=PODS)

    def hashes(uid: str) -> list[str]:
        root = {**documents[0], "metadata": {**documents[0]["metadata"], "uid": uid}}
        sent = [completed(d, root=root, token="x") for d in documents[1:]]
        assert all(d["metadata"]["ownerReferences"][0]["uid"] == uid for d in sent)
        return [d["metadata"]["annotations"][labels.SPEC_HASH] for d in sent]

    assert not set(hashes("one")) & set(hashes("two"))
    assert hashes("one") == hashes("one")
    stored = documents[0]["metadata"]["annotations"][labels.SPEC_HASH]
    assert stored == spec_hash(completed(documents[0], root=None, token="x"))


@given(
    st.builds(
        lambda name, words, env, image, url: altered(
            TF_PS, name=name, command=words, env=env, image=image, source={"url": url}
        ),
        HOSTILE,
        st.lists(HOSTILE, min_size=1, max_size=4),
        st.dictionaries(HOSTILE, HOSTILE, max_size=4),
        HOSTILE,
        HOSTILE,
    ),
    st.integers(1, 999),
)
@settings(max_examples=60, deadline=None)
def test_no_input_changes_the_shape_of_a_manifest(training: Workload, attempt: int) -> None:
    documents = render_training(training, attempt=attempt, pods=PODS)
    plain = render_training(TF_PS, attempt=attempt, pods=PODS)
    assert [shape(d) for d in documents] == [shape(d) for d in plain]
    main = documents[0]["spec"]["template"]["spec"]["containers"][0]
    assert main["image"] == training.image
    config = json.loads(documents[2]["data"]["job.json"])
    assert config["command"] == list(training.spec["command"])
    assert config["name"] == training.name
    [secret] = [with_private(training, d) for d in documents if d["kind"] == "Secret"]
    private = json.loads(secret["stringData"][config["private"]])
    assert private == {name: training.spec[name] for name in ("env", "source")}
    for document in documents:
        assert len(document["metadata"]["name"]) <= 63


@pytest.mark.parametrize("training", [SINGLE, TF_PS], ids=["single", "tf-ps"])
def test_each_container_is_given_the_secrets_that_it_needs(training: Workload) -> None:
    own = PodSecrets(
        ("user-hub-1",), ("user-wandb-2",), {"gcs": "user-gcs-1"}, "user-key-3", ("KEY",)
    )
    documents = render_training(training, attempt=1, pods=replace(PODS, secrets=own))
    pods = [
        one["spec"]["template"]["spec"] for one in documents if "template" in one.get("spec", {})
    ]
    assert pods
    for pod in pods:
        check_restricted(pod, {"emptyDir", "configMap", "secret", "persistentVolumeClaim"})
        [fetch], [main] = pod["initContainers"], pod["containers"]
        assert pod["imagePullSecrets"] == [{"name": "user-hub-1"}]
        assert main["envFrom"] == [{"secretRef": {"name": "user-wandb-2"}}]
        mounts = [{one["name"]: one for one in each["volumeMounts"]} for each in (fetch, main)]
        assert mounts[1].keys() - mounts[0].keys() == {"secret-gcs"}
        assert mounts[0].keys() - mounts[1].keys() == {"git-secret"}
        gcs = {"name": "secret-gcs", "mountPath": "/secrets/gcs", "readOnly": True}
        assert (mounts[1]["secret-gcs"], "envFrom" in fetch) == (gcs, False)
        named = {one["name"]: one["secret"] for one in pod["volumes"] if "secret" in one}
        assert named["git-secret"]["secretName"] == "user-key-3"
    name = documents[1]["metadata"]["name"]
    assert named_secrets(documents, besides=name) == {"user-wandb-2", "user-gcs-1", "user-key-3"}
    # So that the runner can take their values out of what it tells.
    assert json.loads(documents[2]["data"]["job.json"])["secret_env"] == ["KEY"]


def test_tasks_of_an_array_are_counted_by_place_and_fail_alone() -> None:
    policy = RunPolicy(retries=2, restart_policy="exit_code")
    asked = {"topology": "array", "indexes": "3,17-20", "max_failed": None, "run_policy": policy}
    for changes, expected in (
        ({}, {"completions": 5, "parallelism": 5}),
        ({"parallelism": 2, "max_failed": 1}, {"parallelism": 2, "maxFailedIndexes": 1}),
        ({"indexes": None}, {"completions": 200, "parallelism": 10}),
    ):
        workers = {"worker": {**WORKER, "count": 200}}
        training = altered(SINGLE, replicas=workers, **{**asked, **changes})
        documents = render_training(training, attempt=1, pods=PODS)
        spec = documents[0]["spec"]
        assert expected.items() <= spec.items()
        assert (spec["backoffLimitPerIndex"], "maxFailedIndexes" in spec) == (
            2,
            "max_failed" in changes,
        )
        lost, failed = spec["podFailurePolicy"]["rules"]
        assert (lost["action"], failed["action"]) == ("Ignore", "FailIndex")
        codes = failed["onExitCodes"]["values"]
        assert codes == [n for n in range(1, 128) if n not in {64, 65, 69, 126, 127}]
        config = json.loads(documents[2]["data"]["job.json"])
        chosen = None if "indexes" in changes else [3, 17, 18, 19, 20]
        assert (config["counts"], config["indexes"], config["hosts"]) == (
            {"worker": 200},
            chosen,
            {},
        )
        [counted] = requests_of(training.replicas)
        assert counted.count == spec["parallelism"]


POOLS = msgspec.convert(
    [
        {
            "name": "a100",
            "node_selector": {"gpu": "a100", "zone": "b"},
            "tolerations": [{"key": "team", "value": "vision", "effect": "NoSchedule"}],
            "scheduler_name": "second",
            "topology_key": "rack",
        },
        {"name": "t4", "node_selector": {"gpu": "t4"}},
    ],
    tuple[Pool, ...],
)
OWN = [
    {"key": "gpu", "operator": "In", "values": ["a100"]},
    {"key": "zone", "operator": "In", "values": ["b"]},
]
OTHERS = [
    [
        {"key": key, "operator": "NotIn", "values": [value]},
        {"key": "gpu", "operator": "NotIn", "values": ["t4"]},
    ]
    for key, value in (("gpu", "a100"), ("zone", "b"))
]


def test_pods_go_to_the_nodes_of_their_pool_beside_each_other_or_apart() -> None:
    pods = replace(
        PODS,
        known_pools=POOLS,
        pools={"worker": "a100"},
        avoided_nodes=("n1",),
        preferred_nodes=("n2", "n3"),
    )
    off = [{"key": "metadata.name", "operator": "NotIn", "values": ["n1"]}]
    found = {}
    for placement in ("any", "pack", "spread"):
        training = altered(TF_PS, placement=placement)
        for document in render_training(training, attempt=1, pods=pods):
            if template := document.get("spec", {}).get("template"):
                role = template["metadata"]["labels"][labels.ROLE]
                found[placement, role] = template["spec"]
                marks = template["metadata"]["labels"]
    workers, servers = found["any", "worker"], found["any", "ps"]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = workers["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": OWN, "matchFields": off}]
    terms = servers["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert terms == [{"matchExpressions": each, "matchFields": off} for each in OTHERS]
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    for spec in found.values():
        terms = spec["affinity"]["nodeAffinity"][preferred]
        fields = [term["preference"]["matchFields"] for term in terms]
        assert [[one["values"] for one in each] for each in fields] == [[["n2"]], [["n3"]]]
        assert {term["weight"] for term in terms} == {100}
    assert [one["key"] for one in workers["tolerations"]] == ["nvidia.com/gpu", "team"]
    assert workers["tolerations"][1] == {
        "key": "team",
        "operator": "Equal",
        "value": "vision",
        "effect": "NoSchedule",
    }
    assert "tolerations" not in servers
    assert (workers["schedulerName"], servers.get("schedulerName")) == ("second", None)
    for role, key in (("worker", "rack"), ("ps", "kubernetes.io/hostname")):
        packed, spread = found["pack", role], found["spread", role]
        [near] = packed["affinity"]["podAffinity"][preferred]
        [apart] = spread["topologySpreadConstraints"]
        for term in (near["podAffinityTerm"], apart):
            assert term["topologyKey"] == key
            assert term["labelSelector"]["matchLabels"].items() <= marks.items()
        assert apart["whenUnsatisfiable"] == "ScheduleAnyway"
        assert not {"podAffinity"} & found["any", role]["affinity"].keys()
    # Without pools in the catalog, and where it does not matter, nothing is said.
    [plain] = [
        document["spec"]["template"]["spec"]
        for document in render_training(
            SINGLE, attempt=1, pods=replace(PODS, pools={"worker": "a"})
        )
        if document["kind"] == "Job"
    ]
    assert not {"affinity", "tolerations", "schedulerName"} & plain.keys()
