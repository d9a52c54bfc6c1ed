"""Pod Security and policies of a person's namespace, as upstream enforces them.

All that Homeport renders passes; what could take over a node, a neighbour or the network does not,
whoever asks for it.
"""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from jobs.kinds.plan import Rescue
from jobs.kinds.state import ReplicaKey
from jobs.kinds.training.manifests import render_rescue, render_training
from tenants.manifests import POD_SECURITY_VERSION
from tests.manifests import altered
from tests.manifests.test_job_manifests import PODS, PS, SINGLE, TF_PS, WORKER
from tests.manifests.test_service_manifests import BOARD, NOTEBOOK, SIZE, rendered
from tests.upstream.powerhouse import OURS, POD_SPEC, Scene, core, obj, pod, scene

pytestmark = pytest.mark.upstream

Object = dict[str, Any]
DRY = "?dryRun=All"
SECURE: Object = POD_SPEC["containers"][0]["securityContext"]


@pytest.fixture(scope="module")
def stage() -> Iterator[Scene]:
    with scene() as made:
        yield made


# --- what Homeport renders ---
def with_gpus(gpu_count: int, **topology: Any) -> Any:
    worker = {**WORKER, "gpu_count": gpu_count}
    replicas = {"worker": worker, **topology.pop("others", {})}
    return altered(TF_PS, replicas=replicas, **topology)


TRAININGS = {
    "single": SINGLE,
    "single with a GPU": with_gpus(1, topology="single", cluster_flags=()),
    "workers and servers": with_gpus(0, others={"ps": PS}),
    "workers and servers with GPUs": with_gpus(2, others={"ps": PS}),
}
SERVICES = {
    "notebook": rendered(altered(NOTEBOOK, replicas={"notebook": {**SIZE, "gpu_count": 0}})),
    "notebook with a GPU, behind TLS": rendered(NOTEBOOK, has_tls=True),
    "tensorboard": rendered(BOARD),
}
RENDERED: dict[str, list[Object]] = {
    **{
        name: render_training(training, attempt=1, pods=PODS)
        for name, training in TRAININGS.items()
    },
    **SERVICES,
    "rescue": [render_rescue(TF_PS, Rescue(ReplicaKey("ps", 0, 1), "", 1), attempt=1, pods=PODS)],
}
_PATHS = {
    "Job": "/apis/batch/v1/namespaces/{}/jobs",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "Pod": "/api/v1/namespaces/{}/pods",
}


@pytest.mark.parametrize("version", [POD_SECURITY_VERSION, "latest"])
@pytest.mark.parametrize("name", RENDERED)
def test_what_homeport_renders_passes(stage: Scene, name: str, version: str) -> None:
    place = f"passes-{version.replace('.', '-')}"
    _make_strict(stage, place, version)
    admin = stage.callers["admin"]
    tried = [document for document in RENDERED[name] if document["kind"] in _PATHS]
    assert tried
    for document in tried:
        sent = copy.deepcopy(document)
        sent["metadata"]["namespace"] = place
        whole = admin.call("POST", _PATHS[sent["kind"]].format(place) + DRY, sent)
        # Of a Job's or Deployment's template, Pod Security only warns.
        assert (whole.status, whole.warnings) == (201, ""), whole.text
        if sent["kind"] != "Pod":
            template = sent["spec"]["template"]
            meta = {**template["metadata"], "name": "one"}
            spec = template["spec"]
            alone = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
            reply = admin.call("POST", core("pods", place) + DRY, alone)
            assert reply.status == 201, reply.text


def _make_strict(stage: Scene, name: str, version: str) -> None:
    labels = {
        f"pod-security.kubernetes.io/{mode}{suffix}": value
        for mode in ("enforce", "warn")
        for suffix, value in (("", "restricted"), ("-version", version))
    }
    body = {**obj("v1", "Namespace", name), "metadata": {"name": name, "labels": labels}}
    admin = stage.callers["admin"]
    if admin.call("POST", core("namespaces"), body).status == 201:
        account = obj("v1", "ServiceAccount", PODS.account)
        assert admin.call("POST", core("serviceaccounts", name), account).status == 201


def test_every_sort_of_container_was_among_them() -> None:
    specs = [
        document["spec"] if document["kind"] == "Pod" else document["spec"]["template"]["spec"]
        for documents in RENDERED.values()
        for document in documents
        if document["kind"] in _PATHS
    ]
    containers = [c for s in specs for c in [*s.get("initContainers", ()), *s["containers"]]]
    assert {c["name"] for c in containers} >= {"fetch", "gate", "prepare", "app", "rescue"}
    probed = {key for c in containers for key in c if key.endswith("Probe")}
    assert {"startupProbe", "readinessProbe"} <= probed


# --- hostile pods ---
def secured(**more: Any) -> Object:
    """A container's securityContext that passes, but for what is given."""
    return {**SECURE, **more}


def container(security: Object | None = None, **more: Any) -> Object:
    return {"name": "main", "image": "none", "securityContext": security or SECURE, **more}


def in_container(**more: Any) -> Object:
    return {"containers": [container(secured(**more))]}


def in_pod(**more: Any) -> Object:
    return {"securityContext": {**POD_SPEC["securityContext"], **more}}


def adding(capability: str) -> Object:
    return {"drop": ["ALL"], "add": [capability]}


def with_volume(**source: Any) -> Object:
    return {"volumes": [{"name": "v", **source}]}


def without(*names: str) -> Object:
    return {
        "securityContext": {k: v for k, v in POD_SPEC["securityContext"].items() if k not in names}
    }


HOSTILE: dict[str, Object] = {
    "privileged": {"containers": [container({"privileged": True})]},
    "privileged init container": {
        "initContainers": [{**container({"privileged": True}), "name": "init"}]
    },
    "host path": with_volume(hostPath={"path": "/"}),
    "docker's socket": with_volume(hostPath={"path": "/var/run/docker.sock", "type": "Socket"}),
    "host network": {"hostNetwork": True},
    "host processes": {"hostPID": True},
    "host memory": {"hostIPC": True},
    "host port": {"containers": [container(ports=[{"containerPort": 80, "hostPort": 80}])]},
    "adds SYS_ADMIN": in_container(capabilities=adding("SYS_ADMIN")),
    "adds NET_RAW": in_container(capabilities=adding("NET_RAW")),
    "adds all": in_container(capabilities=adding("ALL")),
    "drops no capability": in_container(capabilities={}),
    "drops one capability": in_container(capabilities={"drop": ["NET_RAW"]}),
    "unmasked /proc": {"hostUsers": False, **in_container(procMount="Unmasked")},
    "root": in_pod(runAsUser=0),
    "root, in the container": in_container(runAsUser=0),
    "may be root": without("runAsNonRoot"),
    "root is allowed": in_container(runAsNonRoot=False),
    "no seccomp": without("seccompProfile"),
    "seccomp unconfined": in_pod(seccompProfile={"type": "Unconfined"}),
    "seccomp unconfined, in the container": in_container(seccompProfile={"type": "Unconfined"}),
    "sysctl of the kernel": in_pod(sysctls=[{"name": "kernel.msgmax", "value": "65536"}]),
    "sysctl of the network": in_pod(sysctls=[{"name": "net.core.somaxconn", "value": "9"}]),
    "SELinux type": in_pod(seLinuxOptions={"type": "spc_t"}),
    "SELinux user": in_pod(seLinuxOptions={"user": "system_u"}),
    "SELinux role": in_container(seLinuxOptions={"role": "system_r"}),
    "AppArmor unconfined": in_pod(appArmorProfile={"type": "Unconfined"}),
    "AppArmor unconfined, in the container": in_container(appArmorProfile={"type": "Unconfined"}),
    "escalation": in_container(allowPrivilegeEscalation=True),
    "escalation by default": {"containers": [container({"capabilities": {"drop": ["ALL"]}})]},
    "a sidecar that adds": {
        "initContainers": [
            {
                **container(secured(capabilities=adding("BPF"))),
                "name": "side",
                "restartPolicy": "Always",
            }
        ]
    },
    "Windows host process": {
        "os": {"name": "windows"},
        "hostNetwork": True,
        "securityContext": {
            "runAsNonRoot": True,
            "windowsOptions": {"hostProcess": True, "runAsUserName": "NT AUTHORITY\\SYSTEM"},
        },
        "containers": [{"name": "main", "image": "none"}],
    },
    "NFS": with_volume(nfs={"server": "10.0.0.1", "path": "/"}),
    "iSCSI": with_volume(iscsi={"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.org:x", "lun": 0}),
    "GlusterFS past its claim": with_volume(glusterfs={"endpoints": "e", "path": "other"}),
    "Ceph": with_volume(cephfs={"monitors": ["10.0.0.1"]}),
    "Ceph block device": with_volume(rbd={"monitors": ["10.0.0.1"], "image": "x"}),
    "fibre channel": with_volume(fc={"targetWWNs": ["50060e801049cfd1"], "lun": 0}),
    "flex volume": with_volume(flexVolume={"driver": "a/b"}),
    "cloud disk of Amazon": with_volume(awsElasticBlockStore={"volumeID": "vol-1"}),
    "cloud disk of Google": with_volume(gcePersistentDisk={"pdName": "disk"}),
    "cloud disk of Azure": with_volume(
        azureDisk={"diskName": "d", "diskURI": "/subscriptions/d", "kind": "Managed"}
    ),
}
ANNOTATED = {
    "AppArmor unconfined, as an annotation": {
        "container.apparmor.security.beta.kubernetes.io/main": "unconfined"
    }
}
assert len(HOSTILE) + len(ANNOTATED) >= 40


def test_the_pod_that_the_hostile_ones_are_made_of_is_taken(stage: Scene) -> None:
    reply = stage.callers["admin"].call("POST", core("pods", OURS) + DRY, pod())
    assert reply.status == 201, reply.text


@pytest.mark.parametrize("by", ["admin", "reconciler"])
def test_hostile_pods_are_refused_whoever_asks(stage: Scene, by: str) -> None:
    wrong = []
    for name, spec in HOSTILE.items():
        reply = stage.callers[by].call("POST", core("pods", OURS) + DRY, pod(**spec))
        if reply.status != 403 or "PodSecurity" not in reply.text:
            wrong.append(f"{name}: {reply.status} {reply.text[:200]}")
    for name, annotations in ANNOTATED.items():
        body = pod()
        body["metadata"]["annotations"] = annotations
        reply = stage.callers[by].call("POST", core("pods", OURS) + DRY, body)
        if reply.status != 403 or "PodSecurity" not in reply.text:
            wrong.append(f"{name}: {reply.status} {reply.text[:200]}")
    assert wrong == []


def test_a_running_pod_takes_no_hostile_container(stage: Scene) -> None:
    body = {"spec": {"ephemeralContainers": [{**container({"privileged": True}), "name": "x"}]}}
    path = core("pods/one/ephemeralcontainers", OURS) + DRY
    reply = stage.callers["admin"].call("PATCH", path, body)
    assert reply.status == 403
    assert "PodSecurity" in reply.text


def test_a_hostile_template_is_warned_of_and_makes_no_pod(stage: Scene) -> None:
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod(hostNetwork=True)["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    path = _PATHS["Deployment"].format(OURS) + DRY
    body = obj("apps/v1", "Deployment", "tried", spec=spec)
    reply = stage.callers["admin"].call("POST", path, body)
    assert "would violate PodSecurity" in reply.warnings


# --- what Pod Security does not see ---
def service(**spec: Any) -> Object:
    ports = [{"port": 80, "protocol": "TCP"}]
    return obj("v1", "Service", "tried", spec={"ports": ports, "selector": {"a": "b"}, **spec})


SERVICES_REFUSED = {
    "external addresses": (service(externalIPs=["8.8.8.8"]), "have no externalIPs"),
    "a load balancer": (service(type="LoadBalancer"), "ClusterIP or NodePort"),
    "a name elsewhere": (
        service(type="ExternalName", externalName="evil.example.org"),
        "ClusterIP or NodePort",
    ),
    "more ports of nodes than the quota": (
        service(
            type="NodePort",
            ports=[{"name": n, "port": p, "protocol": "TCP"} for n, p in (("a", 80), ("b", 81))],
        ),
        "exceeded quota",
    ),
}


@pytest.mark.parametrize("by", ["admin", "reconciler"])
@pytest.mark.parametrize("name", SERVICES_REFUSED)
def test_services_that_lead_elsewhere_are_refused(stage: Scene, name: str, by: str) -> None:
    body, words = SERVICES_REFUSED[name]
    reply = stage.callers[by].call("POST", core("services", OURS) + DRY, body)
    assert reply.status == 403, reply.text
    assert words in reply.text


def test_services_of_others_are_none_of_our_business(stage: Scene) -> None:
    for name in ("external addresses", "a load balancer", "a name elsewhere"):
        body, _words = SERVICES_REFUSED[name]
        reply = stage.callers["admin"].call("POST", core("services", "default") + DRY, body)
        assert reply.status == 201, reply.text


def test_what_homeport_publishes_is_taken(stage: Scene) -> None:
    for documents in SERVICES.values():
        for document in documents:
            if document["kind"] == "Service":
                sent = copy.deepcopy(document)
                sent["metadata"]["namespace"] = OURS
                reply = stage.callers["reconciler"].call("POST", core("services", OURS) + DRY, sent)
                assert reply.status == 201, reply.text


@pytest.mark.parametrize(
    "resources",
    [{"cpu": "100"}, {"memory": "1Ti"}, {"nvidia.com/gpu": "2"}],
    ids=lambda resources: next(iter(resources)),
)
def test_more_than_the_quota_is_refused(stage: Scene, resources: Object) -> None:
    asked = {"cpu": "1", "memory": "1Gi", **resources}
    body = pod(containers=[container(resources={"requests": asked, "limits": asked})])
    reply = stage.callers["admin"].call("POST", core("pods", OURS) + DRY, body)
    assert reply.status == 403
    assert "exceeded quota" in reply.text
