"""ConfigMaps, Secrets, claims, accounts, policies: their own rules."""

from __future__ import annotations

from tests.contract.bodies import claim, config_map, pod
from tests.contract.kube import Json
from tests.contract.script import script
from tests.contract.tape import CORE, Tape, pick

MIB = 1024 * 1024


@script
def an_immutable_config_map_or_secret_does_not_change(tape: Tape) -> None:
    for plural, body in (
        ("configmaps", config_map("x", immutable=True)),
        ("secrets", {"metadata": {"name": "x"}, "data": {"a": "YQ=="}, "immutable": True}),
    ):
        tape.post(tape.path(plural), body, show=pick("immutable"))
        one = tape.path(plural, "x")
        tape.merge(one, {"data": {"a": "Yg=="}})
        tape.merge(one, {"immutable": False})
        tape.merge(one, {"metadata": {"labels": {"a": "b"}}}, show=pick("metadata.labels"))
        tape.delete(one, show=pick("status"))


@script
def the_size_of_a_config_map_and_a_secret_has_an_end(tape: Tape) -> None:
    for size in (MIB - 1, MIB, MIB + 1):
        body = config_map(f"c{size}", {"a": "x" * (size - 1)})
        reply = tape.kube.send("POST", tape.path("configmaps"), body)
        tape.note(f"configmap of {size}", _short(reply.body, reply.code))
        body = {"metadata": {"name": f"s{size}"}, "stringData": {"a": "x" * size}}
        reply = tape.kube.send("POST", tape.path("secrets"), body)
        tape.note(f"secret of {size}", _short(reply.body, reply.code))
    big = config_map("huge", {"a": "x" * (4 * MIB)})
    reply = tape.kube.send("POST", tape.path("configmaps"), big)
    tape.note("a body of 4 MiB", [reply.code, reply.body.get("reason")])


def _short(body: Json, code: int) -> list:
    if code < 300:
        return [code]
    causes = body.get("details", {}).get("causes", [])
    message = body.get("message", "")
    return [code, message if len(message) < 400 else "(long)", [c["field"] for c in causes]]


@script
def keys_of_configuration_follow_rules(tape: Tape) -> None:
    for key in ("a/b", "", "..", "a" * 254, ".hidden", "A_b-c.d"):
        tape.post(
            tape.path("configmaps"), config_map(data={key: "x"}), dryRun="All", show=pick("data")
        )
    both = {"metadata": {"name": "c"}, "data": {"a": "1"}, "binaryData": {"a": "MQ=="}}
    tape.post(tape.path("configmaps"), both)
    tape.post(tape.path("secrets"), {"metadata": {"name": "s"}, "data": {"a": "no base64!"}})
    tape.post(tape.path("secrets"), {"metadata": {"name": "s"}, "data": {"a/b": "YQ=="}})


@script
def secrets_of_known_types_have_their_keys(tape: Tape) -> None:
    path = tape.path("secrets")
    for kind, data in (
        ("kubernetes.io/tls", {"tls.crt": "YQ=="}),
        ("kubernetes.io/tls", {"tls.crt": "YQ==", "tls.key": "YQ=="}),
        ("kubernetes.io/basic-auth", {}),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": "YQ=="}),
        ("kubernetes.io/dockerconfigjson", {".dockerconfigjson": "e30="}),
        ("example.com/own", {}),
    ):
        body = {"metadata": {"name": "s"}, "type": kind, "data": data}
        tape.post(path, body, dryRun="All", show=pick("type"))
    tape.post(path, {"metadata": {"name": "s"}, "data": {"a": "YQ=="}, "stringData": {"a": "b"}})
    tape.merge(tape.path("secrets", "s"), {"type": "example.com/own"})
    tape.merge(tape.path("secrets", "s"), {"stringData": {"c": "d"}})


@script
def what_a_claim_may_not_be_is_refused(tape: Tape) -> None:
    path = tape.path("persistentvolumeclaims")
    for spec in (
        {"accessModes": []},
        {"accessModes": ["Sometimes"]},
        {"accessModes": ["ReadWriteOncePod", "ReadWriteMany"]},
        {"resources": {}},
        {"resources": {"requests": {"storage": "0"}}},
        {"resources": {"requests": {"storage": "-1Gi"}}},
        {"storageClassName": "Not_A_Name"},
        {"volumeMode": "Tape"},
    ):
        tape.post(
            path,
            claim(**{"storageClassName": "contract-none", **spec}),
            dryRun="All",
            show=pick("metadata.name"),
        )


@script
def a_claim_of_a_class_that_is_not_there_waits(tape: Tape) -> None:
    path = tape.path("persistentvolumeclaims")
    tape.kube.must("POST", path, claim(storageClassName="contract-none"))
    tape.until(
        tape.path("events", fieldSelector="involvedObject.kind=PersistentVolumeClaim"),
        lambda body: body["items"],
        show=lambda body: [
            [e["reason"], e["type"], e["message"], e["source"]["component"]]
            for e in body["items"][:1]
        ],
    )
    tape.get(
        tape.path("persistentvolumeclaims", "data"), show=pick("status", "metadata.finalizers")
    )
    one = tape.path("persistentvolumeclaims", "data")
    tape.merge(one, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}})
    tape.merge(one, {"spec": {"accessModes": ["ReadWriteOnce"]}}, show=pick("spec"))
    tape.delete(one, show=pick("metadata.finalizers", "status"))
    tape.until_gone(one)


@script
def a_claim_binds_to_the_volume_that_fits(tape: Tape) -> None:
    volume = tape.ns
    body = {
        "metadata": {"name": volume},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "contract-static",
            "hostPath": {"path": "/tmp/contract"},
            "claimRef": {"namespace": tape.ns, "name": "data"},
        },
    }
    one = f"{CORE}/persistentvolumes/{volume}"
    try:
        tape.post(f"{CORE}/persistentvolumes", body)
        tape.until(
            one, lambda obj: obj["status"].get("phase") == "Available", show=pick("status.phase")
        )
        tape.post(
            tape.path("persistentvolumeclaims"),
            claim(storageClassName="contract-static"),
            show=pick("status"),
        )
        tape.until(
            tape.path("persistentvolumeclaims", "data"),
            lambda obj: obj["status"]["phase"] == "Bound",
            # Without its conditions: a moment later one says that no pod uses it.
            show=pick("metadata.annotations", "metadata.finalizers", "spec", "status.phase"),
        )
        tape.until(
            one,
            lambda obj: obj["status"]["phase"] == "Bound",
            show=pick("spec.claimRef.name", "status.phase", "metadata.finalizers"),
        )
        tape.delete(tape.path("persistentvolumeclaims", "data"), show=pick("metadata.finalizers"))
        tape.until_gone(tape.path("persistentvolumeclaims", "data"))
        tape.until(one, lambda obj: obj["status"]["phase"] == "Released", show=pick("status.phase"))
        free = {"spec": {"claimRef": None}, "metadata": {"labels": {"a": "b"}}}
        tape.merge(one, free, show=pick("metadata.labels"))
        tape.until(
            one, lambda obj: obj["status"]["phase"] == "Available", show=pick("status.phase")
        )
    finally:
        tape.delete(one, show=pick("status"))


@script
def a_claim_in_use_waits_for_its_pod(tape: Tape) -> None:
    tape.kube.must(
        "POST", tape.path("persistentvolumeclaims"), claim(storageClassName="contract-none")
    )
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    tape.kube.must("POST", tape.path("pods"), pod("p", volumes=volumes))
    tape.runs("p")
    one = tape.path("persistentvolumeclaims", "data")
    tape.delete(one, show=pick("metadata.finalizers"))
    tape.holds(
        one,
        lambda obj: "deletionTimestamp" in obj["metadata"],
        for_s=1,
        show=pick("metadata.finalizers", "status.phase"),
    )
    tape.let_go("p")
    tape.until_gone(one)


@script
def what_a_network_policy_may_not_be_is_refused(tape: Tape) -> None:
    path = tape.path("networkpolicies", group="networking.k8s.io/v1")
    for spec in (
        {},
        {"podSelector": {}, "policyTypes": ["Sideways"]},
        {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "nonsense"}}]}]},
        {"podSelector": {}, "ingress": [{"from": [{}]}]},
        {"podSelector": {}, "egress": [{"ports": [{"port": 0}]}]},
        {
            "podSelector": {},
            "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/8"]}}]}],
        },
    ):
        tape.post(path, {"metadata": {"name": "n"}, "spec": spec}, dryRun="All", show=pick("spec"))


@script
def each_namespace_has_an_account_and_the_certificate_of_the_cluster(tape: Tape) -> None:
    tape.get(tape.path("serviceaccounts", "default"))
    tape.until(
        tape.path("configmaps", "kube-root-ca.crt"),
        bool,
        show=lambda obj: [sorted(obj["data"]), obj["metadata"].get("annotations")],
    )
    tape.delete(tape.path("serviceaccounts", "default"), show=pick("metadata.name"))
    tape.until(tape.path("serviceaccounts", "default"), bool, show=pick("metadata.name"))


@script
def a_storage_class_keeps_what_it_was_made_with(tape: Tape) -> None:
    path = "/apis/storage.k8s.io/v1/storageclasses"
    try:
        tape.post(path, {"metadata": {"name": tape.ns}, "provisioner": "example.com/none"})
        tape.merge(f"{path}/{tape.ns}", {"reclaimPolicy": "Retain"})
        tape.merge(f"{path}/{tape.ns}", {"provisioner": "example.com/other"})
        tape.merge(
            f"{path}/{tape.ns}", {"allowVolumeExpansion": True}, show=pick("allowVolumeExpansion")
        )
        tape.post(path, {"metadata": {"name": tape.ns + "-2"}})
    finally:
        tape.delete(f"{path}/{tape.ns}")
