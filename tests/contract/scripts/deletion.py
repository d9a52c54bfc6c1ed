"""Deletion: what goes with an object, what stays, and in which order."""

from __future__ import annotations

from tests.contract.bodies import config_map, deployment, job, pod
from tests.contract.kube import Json
from tests.contract.script import script
from tests.contract.tape import CORE, Tape, conditions, is_ending, pick

BATCH, APPS = "batch/v1", "apps/v1"


def _owned(name: str, owner: Json, *, blocks: bool = False) -> Json:
    body = config_map(name)
    reference = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        **({"blockOwnerDeletion": True} if blocks else {}),
    }
    body["metadata"]["ownerReferences"] = [reference]
    return body


def _family(tape: Tape, *, blocks: bool = False) -> None:
    path = tape.path("configmaps")
    owner = tape.kube.must("POST", path, config_map("owner"))
    tape.kube.must("POST", path, _owned("owned", owner, blocks=blocks))


def _owners(obj: Json) -> list[Json]:
    return obj["metadata"].get("ownerReferences", [])


@script
def what_is_owned_goes_in_the_background(tape: Tape) -> None:
    _family(tape)
    options = {"propagationPolicy": "Background"}
    tape.delete(tape.path("configmaps", "owner"), options)
    tape.get(tape.path("configmaps", "owner"))
    tape.until_gone(tape.path("configmaps", "owned"))


@script
def an_owner_deleted_in_the_foreground_goes_last(tape: Tape) -> None:
    _family(tape, blocks=True)
    path = tape.path("configmaps")
    held = {"metadata": {"finalizers": ["example.com/hold"]}}
    tape.kube.must(
        "PATCH", tape.path("configmaps", "owned"), held, kind="application/merge-patch+json"
    )
    tape.delete(tape.path("configmaps", "owner"), {"propagationPolicy": "Foreground"})
    tape.until(tape.path("configmaps", "owned"), is_ending, show=pick("metadata.finalizers"))
    tape.get(tape.path("configmaps", "owner"))
    free = {"metadata": {"finalizers": None}}
    version = tape.kube.get(path).version
    with tape.watch(path, resourceVersion=version) as stream:
        tape.kube.must(
            "PATCH", tape.path("configmaps", "owned"), free, kind="application/merge-patch+json"
        )
        events = stream.until(
            lambda e: e["type"] == "DELETED" and e["object"]["metadata"]["name"] == "owner"
        )
    deleted = [e for e in events if e["type"] == "DELETED"]
    tape.events(path, deleted, show=pick("metadata.name"))


@script
def orphans_stay_and_forget_their_owner(tape: Tape) -> None:
    _family(tape)
    tape.delete(tape.path("configmaps", "owner"), {"propagationPolicy": "Orphan"})
    tape.until_gone(tape.path("configmaps", "owner"))
    tape.until(
        tape.path("configmaps", "owned"),
        lambda obj: not _owners(obj),
        show=pick("metadata", "data"),
    )


@script
def wrong_options_of_a_delete_are_refused(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("configmaps"), config_map())
    one = tape.path("configmaps", "c")
    tape.delete(one, {"propagationPolicy": "Sideways"})
    tape.delete(one, {"propagationPolicy": "Orphan", "orphanDependents": True})
    tape.delete(one, {"gracePeriodSeconds": "soon"})
    tape.delete(one, {"dryRun": ["Some"]})
    tape.delete(one, {"kind": "Pod", "apiVersion": "v1"})
    tape.delete(one, propagationPolicy="Background")


@script
def what_belongs_to_nobody_any_more_is_collected(tape: Tape) -> None:
    gone = {"metadata": {"name": "gone", "uid": "00000000-0000-0000-0000-000000000001"}}
    tape.post(tape.path("configmaps"), _owned("owned", gone))
    tape.until_gone(tape.path("configmaps", "owned"))


@script
def an_object_of_two_owners_goes_with_the_last(tape: Tape) -> None:
    path = tape.path("configmaps")
    first = tape.kube.must("POST", path, config_map("first"))
    second = tape.kube.must("POST", path, config_map("second"))
    body = _owned("owned", first)
    body["metadata"]["ownerReferences"] += _owned("x", second)["metadata"]["ownerReferences"]
    tape.kube.must("POST", path, body)
    tape.delete(tape.path("configmaps", "first"), show=pick("status"))
    tape.until(tape.path("configmaps", "owned"), lambda obj: len(_owners(obj)) == 1, show=_owners)
    tape.delete(tape.path("configmaps", "second"), show=pick("status"))
    tape.until_gone(tape.path("configmaps", "owned"))


def _a_job_with_a_pod(tape: Tape) -> str:
    tape.kube.must("POST", tape.path("jobs", group=BATCH), job())
    return tape.pods("job-name=j", 1)[0]["metadata"]["name"]


@script
def a_job_deleted_without_a_policy_leaves_its_pods(tape: Tape) -> None:
    name = _a_job_with_a_pod(tape)
    tape.delete(tape.path("jobs", "j", group=BATCH), show=_metadata)
    tape.until_gone(tape.path("jobs", "j", group=BATCH))
    tape.until(
        tape.path("pods", name),
        lambda obj: not _owners(obj) and "finalizers" not in obj["metadata"],
        show=pick("metadata.ownerReferences", "metadata.finalizers", "status.phase"),
    )


def _metadata(body: Json) -> Json:
    return {key: value for key, value in body.items() if key not in {"spec", "status"}}


@script
def a_job_deleted_in_the_background_takes_its_pods(tape: Tape) -> None:
    name = _a_job_with_a_pod(tape)
    options = {"propagationPolicy": "Background"}
    tape.delete(tape.path("jobs", "j", group=BATCH), options, show=_metadata)
    tape.until_gone(tape.path("jobs", "j", group=BATCH))
    tape.until_ending(name, show=pick("metadata.deletionGracePeriodSeconds"))
    tape.until(
        tape.path("pods", name),
        lambda obj: "finalizers" not in obj["metadata"],
        show=lambda obj: "no finalizers",
    )
    tape.let_go(name)
    tape.until_gone(tape.path("pods", name))


@script
def a_job_deleted_in_the_foreground_waits_for_its_pods(tape: Tape) -> None:
    name = _a_job_with_a_pod(tape)
    options = {"propagationPolicy": "Foreground"}
    tape.delete(
        tape.path("jobs", "j", group=BATCH), options, show=pick("metadata.finalizers", "kind")
    )
    tape.until_ending(name)
    tape.get(tape.path("jobs", "j", group=BATCH), show=pick("metadata.finalizers"))
    tape.let_go(name)
    tape.until_gone(tape.path("jobs", "j", group=BATCH))
    tape.until_gone(tape.path("pods", name))


@script
def a_deployment_takes_its_replica_sets_and_pods(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("deployments", group=APPS), deployment())
    name = tape.pods("app=d", 1)[0]["metadata"]["name"]
    tape.delete(tape.path("deployments", "d", group=APPS))
    tape.until_gone(tape.path("deployments", "d", group=APPS))
    tape.until(
        tape.path("replicasets", group=APPS, labelSelector="app=d"),
        lambda body: not body["items"],
        show=lambda body: body["items"],
    )
    tape.until_ending(name)
    tape.let_go(name)
    tape.until_gone(tape.path("pods", name))


@script
def a_pod_of_a_node_waits_for_its_kubelet(tape: Tape) -> None:
    made = tape.kube.must("POST", tape.path("pods"), pod(terminationGracePeriodSeconds=60))
    tape.runs("p")
    version = made["metadata"]["resourceVersion"]
    with tape.watch(tape.path("pods"), resourceVersion=version) as stream:
        tape.delete(tape.path("pods", "p"))
        tape.delete(tape.path("pods", "p"), {"gracePeriodSeconds": 5}, show=pick("metadata"))
        tape.delete(tape.path("pods", "p"), {"gracePeriodSeconds": 50}, show=pick("metadata"))
        tape.delete(tape.path("pods", "p"), {"gracePeriodSeconds": 0}, show=pick("metadata"))
        events = stream.until(lambda event: event["type"] == "DELETED")
    tape.events("pods", events, show=pick("metadata", "status.phase"))
    tape.get(tape.path("pods", "p"))


@script
def a_pod_without_a_node_goes_at_once(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod(node=None))
    tape.kube.until(tape.path("pods", "p"), conditions)  # the scheduler has said its word
    tape.delete(tape.path("pods", "p"), show=pick("metadata", "status.phase"))
    tape.get(tape.path("pods", "p"))


@script
def a_finished_pod_goes_at_once(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod())
    tape.succeeds("p")
    tape.delete(tape.path("pods", "p"), show=pick("metadata", "status.phase"))
    tape.get(tape.path("pods", "p"))


@script
def a_namespace_that_ends_refuses_what_is_new(tape: Tape) -> None:
    body = config_map("held")
    body["metadata"]["finalizers"] = ["example.com/hold"]
    tape.kube.must("POST", tape.path("configmaps"), body)
    own = f"{CORE}/namespaces/{tape.ns}"
    tape.delete(own)
    tape.post(tape.path("configmaps"), config_map("late"))
    tape.post(tape.path("pods"), pod("late"))
    tape.post(tape.path("jobs", group=BATCH), job("late"))
    tape.merge(tape.path("configmaps", "held"), {"data": {"a": "2"}}, show=pick("data"))
    tape.delete(own, show=pick("status.phase", "spec"))
    kinds = "NamespaceFinalizersRemaining"
    tape.until(
        own,
        lambda obj: any(found[:2] == (kinds, "True") for found in conditions(obj)),
        show=lambda obj: {
            **obj["status"],
            "conditions": sorted(
                (c["type"], c["status"], c["reason"], c["message"])
                for c in obj["status"]["conditions"]
            ),
        },
        timeout_s=150,
    )
    tape.merge(
        tape.path("configmaps", "held"), {"metadata": {"finalizers": None}}, show=pick("data")
    )
    tape.until_gone(own, timeout_s=150)  # asked again after up to a minute


@script
def a_namespace_is_deleted_for_its_uid_only(tape: Tape) -> None:
    own = f"{CORE}/namespaces/{tape.ns}"
    other = "00000000-0000-0000-0000-000000000000"
    tape.delete(own, {"preconditions": {"uid": other}})
    tape.get(own)
    tape.delete(f"{CORE}/namespaces/kube-system", dryRun="All")
