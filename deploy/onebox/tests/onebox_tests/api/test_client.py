"""Every kind goes through the official Python client, whose models are strict."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes import client, config, watch
from kubernetes.client.rest import ApiException

from .bodies import CLAIM, DEPLOYMENT, INDEXED, JOB, LIMITS, QUOTA, SERVICE, VOLUME
from .conftest import DEADLINE_S, Obj, Process, pod


@pytest.fixture(scope="module")
def connection(process: Process) -> Iterator[client.ApiClient]:
    made = config.new_client_from_config(config_file=str(process.kubeconfig))
    core = client.CoreV1Api(made)
    core.create_namespace({"metadata": {"name": "lab"}})
    yield made
    made.close()


def named(body: Obj, name: str) -> Obj:
    return {**body, "metadata": {**body["metadata"], "name": name}}


STORAGE_CLASS = {"metadata": {"name": "fast"}, "provisioner": "x.io/y"}
ROLE = {"metadata": {"name": "r"}, "rules": [
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]}  # fmt: skip
BINDING = {
    "metadata": {"name": "r"},
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
    "subjects": [{"kind": "User", "name": "ada", "apiGroup": "rbac.authorization.k8s.io"}],
}
SLICE = {
    "metadata": {"name": "s"},
    "addressType": "IPv4",
    "endpoints": [{"addresses": ["10.244.0.5"], "conditions": {"ready": True}}],
    "ports": [{"port": 80}],
}
POLICY = {"metadata": {"name": "n"}, "spec": {"podSelector": {}, "ingress": [{"from": [
    {"podSelector": {}}]}]}}  # fmt: skip
LEASE = {"metadata": {"name": "l"}, "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15}}
EVENT = {
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "p", "namespace": "lab"},
    "reason": "R",
    "firstTimestamp": "2026-11-20T12:00:00Z",
}
NODE = {
    "metadata": {"name": "box"},
    "status": {"capacity": {"cpu": "8", "memory": "16Gi", "nvidia.com/gpu": "4"}},
}
PRIORITY = {"metadata": {"name": "high"}, "value": 1000}
SECRET = {"metadata": {"name": "s"}, "stringData": {"a": "b"}}

# API class, word in its methods, body; cluster-scoped kinds in the second list.
NAMESPACED = [
    ("CoreV1Api", "config_map", {"metadata": {"name": "c"}, "data": {"a": "b"}}),
    ("CoreV1Api", "secret", SECRET),
    ("CoreV1Api", "service_account", {"metadata": {"name": "sa"}}),
    ("CoreV1Api", "pod", pod("client")),
    ("CoreV1Api", "service", SERVICE),
    ("CoreV1Api", "persistent_volume_claim", CLAIM),
    ("CoreV1Api", "resource_quota", QUOTA),
    ("CoreV1Api", "limit_range", LIMITS),
    ("CoreV1Api", "event", EVENT),
    ("AppsV1Api", "deployment", DEPLOYMENT),
    ("AppsV1Api", "replica_set", DEPLOYMENT),
    ("BatchV1Api", "job", JOB),
    ("CoordinationV1Api", "lease", LEASE),
    ("DiscoveryV1Api", "endpoint_slice", SLICE),
    ("NetworkingV1Api", "network_policy", POLICY),
    ("RbacAuthorizationV1Api", "role", ROLE),
    ("RbacAuthorizationV1Api", "role_binding", BINDING),
]
CLUSTER = [
    ("CoreV1Api", "namespace", {"metadata": {"name": "fresh"}}),
    ("CoreV1Api", "node", NODE),
    ("CoreV1Api", "persistent_volume", VOLUME),
    ("StorageV1Api", "storage_class", STORAGE_CLASS),
    ("RbacAuthorizationV1Api", "cluster_role", ROLE),
    ("RbacAuthorizationV1Api", "cluster_role_binding", BINDING),
    ("SchedulingV1Api", "priority_class", PRIORITY),
]


def settled(read: Any, check: Any) -> Any:
    """Read until a condition holds: controllers work beside the test."""
    end = time.monotonic() + DEADLINE_S
    while True:
        found = read()
        if check(found):
            return found
        assert time.monotonic() < end, f"never happened: {found}"
        time.sleep(0.02)


def is_gone(read: Any) -> bool:
    try:
        read()
    except ApiException as error:
        return bool(error.status == 404)
    return False


@pytest.mark.parametrize(("group", "word", "body"), NAMESPACED, ids=[n[1] for n in NAMESPACED])
def test_namespaced_kinds_pass_the_clients_models(
    connection: client.ApiClient, group: str, word: str, body: Obj
) -> None:
    api = getattr(client, group)(connection)
    name = body["metadata"]["name"]

    def read() -> Any:
        return getattr(api, f"read_namespaced_{word}")(name, "lab")

    made = getattr(api, f"create_namespaced_{word}")("lab", body)
    assert made.metadata.uid
    assert read().metadata.uid == made.metadata.uid
    listed = getattr(api, f"list_namespaced_{word}")("lab")
    assert name in [item.metadata.name for item in listed.items]
    assert listed.metadata.resource_version
    getattr(api, f"list_{word}_for_all_namespaces")()
    patch = {"metadata": {"labels": {"seen": "yes"}}}
    patched = getattr(api, f"patch_namespaced_{word}")(name, "lab", patch)
    assert patched.metadata.labels["seen"] == "yes"
    # What the client writes from its models is read back as the same object.
    generation = read().metadata.generation

    def replace() -> Any:
        current = read()
        current.metadata.labels["again"] = "yes"
        try:
            return getattr(api, f"replace_namespaced_{word}")(name, "lab", current)
        except ApiException as error:
            if error.status == 409:  # a controller was faster
                return None
            raise

    replaced = settled(replace, lambda found: found is not None)
    assert replaced.metadata.labels["again"] == "yes"
    if group != "AppsV1Api":  # whose controllers write annotations, which count
        assert replaced.metadata.generation == generation
    options = client.V1DeleteOptions(propagation_policy="Background")
    gone = getattr(api, f"delete_namespaced_{word}")(name, "lab", body=options)
    assert gone is not None
    settled(lambda: is_gone(read), bool)


@pytest.mark.parametrize(("group", "word", "body"), CLUSTER, ids=[c[1] for c in CLUSTER])
def test_cluster_kinds_pass_the_clients_models(
    connection: client.ApiClient, group: str, word: str, body: Obj
) -> None:
    api = getattr(client, group)(connection)
    name = body["metadata"]["name"]
    made = getattr(api, f"create_{word}")(body)
    read = getattr(api, f"read_{word}")
    assert read(name).metadata.uid == made.metadata.uid
    assert name in [item.metadata.name for item in getattr(api, f"list_{word}")().items]
    patch = {"metadata": {"labels": {"seen": "yes"}}}
    assert getattr(api, f"patch_{word}")(name, patch).metadata.labels["seen"] == "yes"
    getattr(api, f"delete_{word}")(name)
    settled(lambda: is_gone(lambda: read(name)), bool)


def test_status_scale_and_log_pass_the_clients_models(connection: client.ApiClient) -> None:
    core, apps = client.CoreV1Api(connection), client.AppsV1Api(connection)
    batch = client.BatchV1Api(connection)
    core.create_namespaced_pod("lab", pod("status"))
    started = datetime(2026, 11, 20, 12, tzinfo=UTC)
    state = client.V1ContainerState(running=client.V1ContainerStateRunning(started_at=started))
    container = client.V1ContainerStatus(
        name="main", image="i", image_id="", ready=True, restart_count=0, state=state
    )
    status = client.V1PodStatus(
        phase="Running", pod_ip="10.244.0.9", container_statuses=[container]
    )
    body = client.V1Pod(status=status)
    done = core.patch_namespaced_pod_status("status", "lab", body)
    assert done.status.container_statuses[0].state.running.started_at == started
    assert core.read_namespaced_pod_status("status", "lab").status.pod_ip == "10.244.0.9"
    assert not core.read_namespaced_pod_log("status", "lab"), "no node, no log"
    core.delete_namespaced_pod("status", "lab", grace_period_seconds=0)

    apps.create_namespaced_deployment("lab", named(DEPLOYMENT, "scaled"))
    scale = apps.read_namespaced_deployment_scale("scaled", "lab")
    assert scale.spec.replicas == 1
    change = {"spec": {"replicas": 0}}
    apps.patch_namespaced_deployment_scale("scaled", "lab", change)
    settled(
        lambda: apps.read_namespaced_deployment_status("scaled", "lab"),
        lambda d: d.spec.replicas == 0 and d.status.observed_generation == d.metadata.generation,
    )
    apps.delete_namespaced_deployment("scaled", "lab")

    batch.create_namespaced_job("lab", named(INDEXED, "indexed"))
    settled(
        lambda: batch.read_namespaced_job_status("indexed", "lab").status,
        lambda s: s.active == 1 and s.start_time is not None,
    )
    batch.delete_namespaced_job("indexed", "lab", propagation_policy="Background")
    choice = "job-name=indexed"
    settled(lambda: core.list_namespaced_pod("lab", label_selector=choice).items, lambda p: not p)


def test_events_pass_the_models_of_both_groups(connection: client.ApiClient) -> None:
    core = client.CoreV1Api(connection)
    # The newer model wants an eventTime, which old events have neither here nor upstream; the
    # client writes no digits for whole seconds, which both refuse.
    event = {**named(EVENT, "both"), "eventTime": "2026-11-20T12:00:00.000001Z"}
    event |= {"reportingComponent": "test", "reportingInstance": "t", "action": "Try"}
    core.create_namespaced_event("lab", event)
    choice = "metadata.name=both"
    events = client.EventsV1Api(connection).list_namespaced_event("lab", field_selector=choice)
    found = {event.metadata.name: event for event in events.items}
    assert found["both"].reason == "R"
    assert found["both"].regarding.name == "p"


def test_binary_secrets_survive_the_round_trip(connection: client.ApiClient) -> None:
    core = client.CoreV1Api(connection)
    data = {"key": base64.b64encode(bytes(range(256))).decode()}
    core.create_namespaced_secret("lab", client.V1Secret(metadata={"name": "bin"}, data=data))
    assert core.read_namespaced_secret("bin", "lab").data == data


def test_refusals_reach_the_client_with_their_status(connection: client.ApiClient) -> None:
    core = client.CoreV1Api(connection)
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod("lab", named(pod(), "Bad Name"))
    assert (refused.value.status, refused.value.reason) == (422, "Unprocessable Entity")
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_config_map("nowhere", {"metadata": {"name": "c"}})
    assert refused.value.status == 404
    assert 'namespaces \\"nowhere\\" not found' in refused.value.body


def test_the_clients_watch_follows_a_namespace(connection: client.ApiClient) -> None:
    core = client.CoreV1Api(connection)
    listed = core.list_namespaced_config_map("lab")
    core.create_namespaced_config_map("lab", {"metadata": {"name": "w"}})
    core.patch_namespaced_config_map("w", "lab", {"data": {"a": "b"}})
    core.delete_namespaced_config_map("w", "lab")
    seen = [
        (event["type"], event["object"].metadata.name)
        for event in watch.Watch().stream(
            core.list_namespaced_config_map,
            "lab",
            resource_version=listed.metadata.resource_version,
            timeout_seconds=1,
        )
    ]
    assert seen == [("ADDED", "w"), ("MODIFIED", "w"), ("DELETED", "w")]


def test_collections_are_deleted_by_the_client(connection: client.ApiClient) -> None:
    core = client.CoreV1Api(connection)
    for i in range(3):
        body = {"metadata": {"name": f"many{i}", "labels": {"many": "yes"}}}
        core.create_namespaced_config_map("lab", body)
    core.delete_collection_namespaced_config_map("lab", label_selector="many=yes")
    assert core.list_namespaced_config_map("lab", label_selector="many=yes").items == []


def test_the_version_and_the_groups_pass_the_models(connection: client.ApiClient) -> None:
    assert client.VersionApi(connection).get_code().git_version == "v1.37.0+onebox"
    groups = client.ApisApi(connection).get_api_versions().groups
    assert "batch" in [group.name for group in groups]
    assert client.CoreApi(connection).get_api_versions().versions == ["v1"]
    resources = client.BatchV1Api(connection).get_api_resources().resources
    assert "jobs" in [resource.name for resource in resources]
