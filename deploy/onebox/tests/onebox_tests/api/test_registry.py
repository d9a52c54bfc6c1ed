"""The verbs in process: what is set, what is kept, what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from onebox.api.registry import Api
from onebox.api.status import StatusError
from onebox.api.store import clone

from .conftest import Clock, Obj, pod


def config(name: str = "c", **more: Any) -> Obj:
    return {"metadata": {"name": name}, "data": {"a": "1"}, **more}


def refusal(code: int, call: Any, *arguments: Any, **more: Any) -> str:
    with pytest.raises(StatusError) as refused:
        call(*arguments, **more)
    assert refused.value.code == code, refused.value.message
    return refused.value.message


def test_generated_names_keep_their_base_and_stay_within_63_characters(api: Api) -> None:
    made = {
        api.create("configmaps", "lab", {"metadata": {"generateName": "run-"}})["metadata"]["name"]
        for _ in range(20)
    }
    assert len(made) == 20
    assert all(name.startswith("run-") and len(name) == 9 for name in made)
    long = api.create("configmaps", "lab", {"metadata": {"generateName": "x" * 80}})
    assert len(long["metadata"]["name"]) == 63
    text = refusal(422, api.create, "configmaps", "lab", {"metadata": {}})
    assert "name or generateName is required" in text


def test_what_lives_in_a_namespace_has_to_name_one(api: Api) -> None:
    text = refusal(400, api.create, "configmaps", None, config())
    assert text == "ConfigMap lives in a namespace: name one"


def test_a_change_of_nothing_writes_nothing_and_tells_nobody(api: Api) -> None:
    made = api.create("pods", "lab", pod())
    seen: list[str] = []
    api.subscribe(lambda kind, plural, obj: seen.append(kind))
    version = api.store.resource_version
    assert api.update("pods", "lab", "p", clone(made)) is made
    assert api.patch("pods", "lab", "p", {"metadata": {"labels": {}}}) is made
    assert api.patch("pods", "lab", "p", {}, kind="strategic") is made
    api.patch("pods", "lab", "p", {"status": {"phase": "Pending"}}, subresource="status")
    assert api.store.resource_version == version
    assert seen == []


def test_the_generation_counts_changes_of_the_spec_alone(api: Api) -> None:
    body = {
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod()["spec"]},
        },
    }
    assert api.create("deployments", "lab", body)["metadata"]["generation"] == 1

    def after(patch: Obj, **more: Any) -> int:
        done = api.patch("deployments", "lab", "d", patch, **more)
        generation: int = done["metadata"]["generation"]
        return generation

    assert after({"metadata": {"labels": {"x": "y"}}}) == 1
    assert after({"status": {"replicas": 1}}, subresource="status") == 1
    assert after({"spec": {"replicas": 3}}) == 2
    assert after({"metadata": {"generation": 99}}) == 2
    assert after({"metadata": {"annotations": {"x": "y"}}}) == 3


def test_conditions_merge_by_type_in_a_strategic_patch_of_a_status(api: Api) -> None:
    api.create("pods", "lab", pod())

    def conditions(*changes: Obj) -> list[Obj]:
        body = {"status": {"conditions": list(changes)}}
        done = api.patch("pods", "lab", "p", body, kind="strategic", subresource="status")
        found: list[Obj] = done["status"]["conditions"]
        return found

    conditions({"type": "Ready", "status": "False", "reason": "Starting"})
    both = conditions({"type": "Initialized", "status": "True"})
    assert {c["type"] for c in both} == {"Ready", "Initialized"}
    changed = conditions({"type": "Ready", "status": "True", "reason": None})
    times = {"lastProbeTime": None, "lastTransitionTime": None}  # which Go always writes
    assert {"type": "Ready", "status": "True", **times} in changed


@pytest.mark.parametrize(
    ("plural", "policy", "finalizers"),
    [
        ("configmaps", None, None),
        ("configmaps", "Background", None),
        ("configmaps", "Foreground", ["foregroundDeletion"]),
        ("configmaps", "Orphan", ["orphan"]),
        ("jobs", None, ["orphan"]),
        ("jobs", "Background", None),
        ("jobs", "Foreground", ["foregroundDeletion"]),
    ],
)
def test_propagation_sets_the_finalizers_of_the_garbage_collector(
    api: Api, plural: str, policy: str | None, finalizers: list[str] | None
) -> None:
    body = config("x")
    if plural == "jobs":
        spec = {**pod()["spec"], "restartPolicy": "Never"}
        body = {"metadata": {"name": "x"}, "spec": {"template": {"spec": spec}}}
    api.create(plural, "lab", body)
    done = api.delete(plural, "lab", "x", propagation=policy)
    left = api.find(plural, "lab", "x")
    if finalizers is None:
        assert left is None
    else:
        assert left is done
        assert done["metadata"]["finalizers"] == finalizers


def test_a_pod_that_runs_gets_its_grace_and_another_goes_at_once(api: Api, clock: Clock) -> None:
    api.create("pods", "lab", pod("waits"))
    api.delete("pods", "lab", "waits")
    assert api.find("pods", "lab", "waits") is None

    api.create("pods", "lab", pod("runs", terminationGracePeriodSeconds=45))
    api.bind("lab", "runs", "box")
    marked = api.delete("pods", "lab", "runs")["metadata"]
    assert marked["deletionTimestamp"] == "2026-11-20T12:00:45Z"
    assert marked["deletionGracePeriodSeconds"] == 45
    assert marked["generation"] == 2
    clock.advance(5)
    assert api.delete("pods", "lab", "runs")["metadata"] == marked
    assert api.delete("pods", "lab", "runs", grace_s=60)["metadata"] == marked
    shorter = api.delete("pods", "lab", "runs", grace_s=10)["metadata"]
    assert shorter["deletionTimestamp"] == "2026-11-20T12:00:10Z"
    assert shorter["deletionGracePeriodSeconds"] == 10
    refusal(409, api.delete, "pods", "lab", "runs", grace_s=0, uid="another")
    api.delete("pods", "lab", "runs", grace_s=0, uid=marked["uid"])
    assert api.find("pods", "lab", "runs") is None

    api.create("pods", "lab", pod("ended"))
    api.bind("lab", "ended", "box")
    done = {"status": {"phase": "Succeeded"}}
    api.patch("pods", "lab", "ended", done, subresource="status")
    api.delete("pods", "lab", "ended")
    assert api.find("pods", "lab", "ended") is None


def test_a_pod_with_a_finalizer_outlives_its_grace(api: Api) -> None:
    body = pod()
    body["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
    api.create("pods", "lab", body)
    api.bind("lab", "p", "box")
    api.delete("pods", "lab", "p")
    left = api.delete("pods", "lab", "p", grace_s=0)["metadata"]
    assert left["deletionGracePeriodSeconds"] == 0
    api.patch("pods", "lab", "p", {"metadata": {"finalizers": None}})
    assert api.find("pods", "lab", "p") is None


def test_a_namespace_ends_in_two_steps(api: Api) -> None:
    made = api.get("namespaces", None, "lab")
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "lab"}
    ending = api.delete("namespaces", None, "lab")
    assert ending["status"]["phase"] == "Terminating"
    assert api.delete("namespaces", None, "lab") == ending
    text = refusal(403, api.create, "configmaps", "lab", config())
    assert text == (
        'configmaps "c" is forbidden: unable to create new content in namespace lab because '
        "it is being terminated"
    )
    emptied = {**ending, "spec": {}}
    api.update("namespaces", None, "lab", emptied, subresource="finalize")
    assert api.find("namespaces", None, "lab") is None
    text = refusal(403, api.delete, "namespaces", None, "default")
    assert text == 'namespaces "default" is forbidden: this namespace may not be deleted'


def test_events_count_up_and_fall_silent_in_an_ending_namespace(api: Api, clock: Clock) -> None:
    about = api.create("pods", "lab", pod())
    api.event(about, "Warning", "BackOff", "again", "kubelet")
    clock.advance(30)
    api.event(about, "Warning", "BackOff", "again", "kubelet")
    api.event(about, "Normal", "Started", "go", "kubelet")
    events = {e["reason"]: e for e in api.list("events", "lab")}
    assert events["BackOff"]["count"] == 2
    assert events["BackOff"]["firstTimestamp"] == "2026-11-20T12:00:00Z"
    assert events["BackOff"]["lastTimestamp"] == "2026-11-20T12:00:30Z"
    assert events["Started"]["involvedObject"]["uid"] == about["metadata"]["uid"]
    api.delete("namespaces", None, "lab")
    api.event(about, "Normal", "Killing", "end", "kubelet")
    assert len(api.list("events", "lab")) == 2


def test_lists_are_filtered_by_a_selector(api: Api) -> None:
    for name in ("a", "b"):
        api.create("configmaps", "lab", config(name))
    found = api.list("configmaps", "lab", lambda obj: obj["metadata"]["name"] == "b")
    assert [obj["metadata"]["name"] for obj in found] == ["b"]
    with pytest.raises(KeyError, match="no kind with the plural"):
        api.list("gadgets")


def test_what_a_client_sends_is_never_kept_by_reference(api: Api) -> None:
    sent = config()
    api.create("configmaps", "lab", sent)
    sent["data"]["a"] = "changed"
    assert api.get("configmaps", "lab", "c")["data"] == {"a": "1"}


def test_node_ports_and_addresses_are_free_again_with_their_service(api: Api) -> None:
    def service(name: str, **spec: Any) -> Obj:
        ports = [
            {"port": 80, **({"nodePort": spec.pop("node_port")} if "node_port" in spec else {})}
        ]
        return {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": ports, **spec}}

    first = api.create("services", "lab", service("one", node_port=30080, clusterIP="10.96.7.7"))
    assert first["spec"]["clusterIPs"] == ["10.96.7.7"]
    text = refusal(422, api.create, "services", "lab", service("two", node_port=30080))
    assert (
        "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated" in text
    )
    text = refusal(422, api.create, "services", "lab", service("two", node_port=80))
    assert "The range of valid ports is 30000-32767" in text
    text = refusal(422, api.create, "services", "lab", service("two", clusterIP="10.96.7.7"))
    assert "provided IP is already allocated" in text
    text = refusal(422, api.create, "services", "lab", service("two", clusterIP="192.168.0.1"))
    assert "The range of valid IPs is 10.96.0.0/16" in text
    again = api.patch("services", "lab", "one", {"metadata": {"labels": {"a": "b"}}})
    assert again["spec"] == first["spec"], "an update keeps address and port"
    inner = api.patch("services", "lab", "one", {"spec": {"type": "ClusterIP"}})
    assert "nodePort" not in inner["spec"]["ports"][0]
    assert "externalTrafficPolicy" not in inner["spec"]
    api.create("services", "lab", service("two", node_port=30080))
    api.delete("services", "lab", "one")
    api.create("services", "lab", service("three", clusterIP="10.96.7.7"))


def test_a_full_range_of_node_ports_is_said(clock: Clock) -> None:
    from onebox.api.allocate import Allocator
    from onebox.api.store import Store

    store = Store(None)
    api = Api(store, clock=clock, allocator=Allocator(store, node_ports=range(31000, 31002)))
    api.create("namespaces", None, {"metadata": {"name": "lab"}})
    ports = set()
    for name in ("a", "b"):
        body = {"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}}
        ports.add(api.create("services", "lab", body)["spec"]["ports"][0]["nodePort"])
    assert ports == {31000, 31001}
    body["metadata"]["name"] = "c"
    text = refusal(500, api.create, "services", "lab", body)
    assert text == "Internal error occurred: failed to allocate a nodePort: range is full"


def test_first_objects_are_there_and_the_storage_class_can_be_removed(api: Api) -> None:
    from onebox.api.bootstrap import ensure_first_objects

    found = api.get("storageclasses", None, "glusterfs")
    assert found["provisioner"] == "homeport.dev/folder"
    assert found["reclaimPolicy"] == "Retain"
    api.delete("storageclasses", None, "glusterfs")
    ensure_first_objects(api)
    assert api.find("storageclasses", None, "glusterfs") is None
    assert {n["metadata"]["name"] for n in api.list("namespaces")} == {
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "lab",
    }
