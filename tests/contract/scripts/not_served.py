"""What a whole cluster has and onebox leaves out: what upstream answers there.

onebox differs in all of these; `exceptions.toml` says why, and what a user sees in place of it.
"""

from __future__ import annotations

from tests.contract.bodies import SAFE, config_map, container, deployment, pod
from tests.contract.kube import STRATEGIC, Json
from tests.contract.script import script
from tests.contract.tape import Tape, pick

# What a plain control plane serves; extensions of a cluster are its own.
VERSIONS = (
    "v1",
    "admissionregistration.k8s.io/v1",
    "apiextensions.k8s.io/v1",
    "apiregistration.k8s.io/v1",
    "apps/v1",
    "authentication.k8s.io/v1",
    "authorization.k8s.io/v1",
    "autoscaling/v1",
    "autoscaling/v2",
    "batch/v1",
    "certificates.k8s.io/v1",
    "coordination.k8s.io/v1",
    "discovery.k8s.io/v1",
    "events.k8s.io/v1",
    "flowcontrol.apiserver.k8s.io/v1",
    "networking.k8s.io/v1",
    "node.k8s.io/v1",
    "policy/v1",
    "rbac.authorization.k8s.io/v1",
    "resource.k8s.io/v1",
    "scheduling.k8s.io/v1",
    "storage.k8s.io/v1",
)


@script
def each_resource_has_its_verbs(tape: Tape) -> None:
    for version in VERSIONS:
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        reply = tape.kube.get(root)
        found = reply.body["resources"] if reply.code == 200 else []
        tape.note(version, {item["name"]: " ".join(item["verbs"]) for item in found})


@script
def a_pod_without_a_node_has_nothing_to_attach_to(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod(node=None))
    one = tape.path("pods", "p")
    tape.send("POST", f"{one}/exec?command=true&stdout=true")
    tape.send("POST", f"{one}/attach?stdout=true")
    tape.send("POST", f"{one}/portforward?ports=80")


@script
def a_pod_is_evicted(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod())
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    tape.post(tape.path("pods", "p") + "/eviction", eviction)


@script
def a_container_to_look_around_joins_a_pod(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("pods"), pod())
    debug = {"name": "debug", "image": "i", "securityContext": SAFE}
    tape.send(
        "PATCH",
        tape.path("pods", "p") + "/ephemeralcontainers",
        {"spec": {"ephemeralContainers": [debug]}},
        kind=STRATEGIC,
        show=lambda obj: [item["name"] for item in obj["spec"]["ephemeralContainers"]],
    )


@script
def a_pod_is_resized_in_place(tape: Tape) -> None:
    less, more = ({"requests": {"cpu": cpu}} for cpu in ("1", "2"))
    tape.kube.must("POST", tape.path("pods"), pod("p", container(resources=less)))
    tape.send(
        "PATCH",
        tape.path("pods", "p") + "/resize",
        {"spec": {"containers": [{"name": "main", "resources": more}]}},
        kind=STRATEGIC,
        show=lambda obj: [item["resources"] for item in obj["spec"]["containers"]],
    )


@script
def an_account_is_given_a_token(tape: Tape) -> None:
    path = tape.path("serviceaccounts", "default") + "/token"
    tape.post(path, {"spec": {"expirationSeconds": 600}}, show=pick("kind", "spec"))


@script
def workloads_of_other_kinds_are_made(tape: Tape) -> None:
    template = deployment()["spec"]
    sets = {key: template[key] for key in ("selector", "template")}
    show = pick("kind", "metadata.name")
    for kind, spec in (("StatefulSet", {**sets, "serviceName": "s"}), ("DaemonSet", sets)):
        body = {"metadata": {"name": "w"}, "spec": spec}
        tape.post(tape.path(f"{kind.lower()}s", group="apps/v1", dryRun="All"), body, show=show)
    pods = {**template["template"]["spec"], "restartPolicy": "Never"}
    cron: Json = {"schedule": "@daily", "jobTemplate": {"spec": {"template": {"spec": pods}}}}
    path = tape.path("cronjobs", group="batch/v1", dryRun="All")
    tape.post(path, {"metadata": {"name": "w"}, "spec": cron}, show=show)


@script
def what_another_user_may_do_is_told(tape: Tape) -> None:
    asked = {"namespace": tape.ns, "verb": "get", "resource": "secrets"}
    spec = {"user": f"system:serviceaccount:{tape.ns}:default", "resourceAttributes": asked}
    path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
    tape.post(path, {"spec": spec}, show=pick("status.allowed"))
    path = tape.path("localsubjectaccessreviews", group="authorization.k8s.io/v1")
    tape.post(path, {"spec": spec, "metadata": {}}, show=pick("status.allowed"))


@script
def the_kinds_that_extend_a_cluster_are_there(tape: Tape) -> None:
    show = pick("kind")
    for path in (
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        tape.path("horizontalpodautoscalers", group="autoscaling/v2"),
        tape.path("poddisruptionbudgets", group="policy/v1"),
        tape.path("ingresses", group="networking.k8s.io/v1"),
    ):
        tape.get(path, show=show)


@script
def an_object_comes_as_yaml(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("configmaps"), config_map())
    path = tape.path("configmaps", "c")
    tape.send("GET", path, accept="application/yaml", show=lambda text: "kind: ConfigMap" in text)


@script
def a_pod_gets_a_volume_with_the_token_of_its_account(tape: Tape) -> None:
    body = pod(automountServiceAccountToken=True)
    tape.post(tape.path("pods"), body, show=pick("spec.volumes"))
    tape.get(
        tape.path("pods", "p"),
        show=lambda obj: [c.get("volumeMounts") for c in obj["spec"]["containers"]],
    )


@script
def a_pod_may_share_its_node_where_pod_security_lets_it(tape: Tape) -> None:
    enforced = "pod-security.kubernetes.io/enforce"
    changed = {enforced: "privileged", "pod-security.kubernetes.io/warn": "privileged"}
    tape.merge(
        f"/api/v1/namespaces/{tape.ns}",
        {"metadata": {"labels": changed}},
        show=lambda obj: obj["metadata"]["labels"][enforced],
    )
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        body = pod(**{field: True})
        tape.post(tape.path("pods", dryRun="All"), body, show=pick(f"spec.{field}"))


@script
def a_role_is_made_and_what_it_lets_be_done_is_told(tape: Tape) -> None:
    path = tape.path("roles", group="rbac.authorization.k8s.io/v1")
    tape.post(path, {"metadata": {"name": "r"}, "rules": []}, show=pick("kind"))
    asked = {"verb": "get", "resource": "pods", "namespace": tape.ns}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    tape.post(path, {"spec": {"resourceAttributes": asked}}, show=pick("status"))


@script
def the_fields_of_a_pod_are_explained(tape: Tape) -> None:
    schemas = tape.kube.must("GET", "/openapi/v3/api/v1")["components"]["schemas"]
    field = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["restartPolicy"]
    tape.note("restartPolicy", field["description"])


@script
def the_pods_of_a_template_are_named_by_its_hash(tape: Tape) -> None:
    tape.kube.must("POST", tape.path("deployments", group="apps/v1"), deployment(replicas=0))
    path = tape.path("replicasets", group="apps/v1")
    found = tape.kube.until(path, lambda body: body["items"]).body["items"][0]
    # Spelled out: as a word it would pass for something that chance chose.
    tape.note("hash", list(found["metadata"]["labels"]["pod-template-hash"]))


@script
def a_pod_of_higher_priority_takes_the_place_of_a_lower_one(tape: Tape) -> None:
    classes, nodes = "/apis/scheduling.k8s.io/v1/priorityclasses", "/api/v1/nodes"
    amounts = {"cpu": "2", "memory": "1Gi", "pods": "9"}
    node = {
        "metadata": {"name": tape.ns, "labels": {"contract": tape.ns}},
        "spec": {"taints": [{"key": "contract", "effect": "NoSchedule"}]},
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Contract"}],
        },
    }
    tape.kube.must("POST", nodes, node)
    tape.kube.must("POST", classes, {"metadata": {"name": tape.ns}, "value": 1000})
    try:
        _fill(tape, "low")
        low = tape.path("pods", "low")
        tape.until(low, lambda obj: obj["spec"].get("nodeName"), show=pick("spec.nodeName"))
        tape.kube.until(f"{classes}/{tape.ns}", bool)
        _fill(tape, "high", priorityClassName=tape.ns)
        high = tape.path("pods", "high")
        shown = pick("status.nominatedNodeName", "spec.nodeName")
        tape.until(high, lambda obj: obj["status"].get("conditions"), show=shown)
        tape.note("the lower pod has to go", _goes(tape, low))
    finally:
        tape.kube.send("DELETE", f"{nodes}/{tape.ns}")
        tape.kube.send("DELETE", f"{classes}/{tape.ns}")


def _fill(tape: Tape, name: str, **spec: object) -> None:
    main = container(resources={"requests": {"cpu": "2"}})
    place = {"nodeSelector": {"contract": tape.ns}, "tolerations": [{"operator": "Exists"}]}
    tape.kube.must("POST", tape.path("pods"), pod(name, main, node=None, **place, **spec))


def _goes(tape: Tape, path: str) -> bool:
    try:
        tape.kube.until(path, lambda obj: "deletionTimestamp" in obj["metadata"], timeout_s=5)
    except AssertionError:
        return False
    return True
