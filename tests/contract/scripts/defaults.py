"""What the server fills in: the whole object, as it is stored."""

from __future__ import annotations

from tests.contract.bodies import claim, container, deployment, job, pod, service
from tests.contract.script import script
from tests.contract.tape import CORE, Tape


@script
def a_small_pod_is_completed(tape: Tape) -> None:
    tape.post(tape.path("pods"), pod())


@script
def a_pod_with_everything_that_homeport_uses_is_completed(tape: Tape) -> None:
    probe = {"httpGet": {"path": "/live", "port": "gate"}}
    first = container("fetch", resources={"limits": {"cpu": "0.5", "memory": "64Mi"}})
    gate = container(
        "gate",
        restartPolicy="Always",
        ports=[{"name": "gate", "containerPort": 8080}],
        startupProbe=probe,
        readinessProbe={"tcpSocket": {"port": 8080}},
        livenessProbe={"exec": {"command": ["true"]}},
        lifecycle={"preStop": {"exec": {"command": ["true"]}}},
    )
    main = container(
        env=[
            {"name": "A", "value": ""},
            {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "S", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
        ],
        resources={
            "requests": {"cpu": "1500m", "memory": "1.5Gi"},
            "limits": {"cpu": "2", "memory": "2048Mi", "nvidia.com/gpu": "1"},
        },
        volumeMounts=[
            {"name": "data", "mountPath": "/data"},
            {"name": "log", "mountPath": "/log", "subPath": "x", "readOnly": True},
            {"name": "shm", "mountPath": "/dev/shm"},
            {"name": "config", "mountPath": "/etc/c"},
            {"name": "token", "mountPath": "/run/t"},
            {"name": "all", "mountPath": "/all"},
        ],
    )
    volumes = [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "log", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "1048576"}},
        {"name": "config", "configMap": {"name": "c"}},
        {"name": "token", "secret": {"secretName": "s", "items": [{"key": "k", "path": "p"}]}},
        {
            "name": "all",
            "projected": {
                "sources": [
                    {"configMap": {"name": "c"}},
                    {"secret": {"name": "s"}},
                    {"downwardAPI": {"items": [_downward("a", "metadata.labels")]}},
                ]
            },
        },
    ]
    tape.post(
        tape.path("pods"),
        pod(
            "p",
            main,
            initContainers=[first, gate],
            volumes=volumes,
            restartPolicy="Never",
            hostname="h",
            subdomain="s",
            activeDeadlineSeconds=100,
            tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
            affinity={
                "nodeAffinity": {
                    "preferredDuringSchedulingIgnoredDuringExecution": [
                        {
                            "weight": 1,
                            "preference": {
                                "matchExpressions": [{"key": "a", "operator": "Exists"}]
                            },
                        }
                    ]
                }
            },
            topologySpreadConstraints=[
                {
                    "maxSkew": 1,
                    "topologyKey": "kubernetes.io/hostname",
                    "whenUnsatisfiable": "ScheduleAnyway",
                    "labelSelector": {"matchLabels": {"a": "b"}},
                }
            ],
        ),
    )


def _downward(path: str, field: str):
    return {"path": path, "fieldRef": {"fieldPath": field}}


@script
def image_pull_policies_follow_the_tag(tape: Tape) -> None:
    images = (
        "a",
        "a:latest",
        "a:1",
        "a@sha256:" + "0" * 64,
        "host:5000/a",
        "a:1@sha256:" + "1" * 64,
    )
    for number, image in enumerate(images):
        tape.post(
            tape.path("pods"),
            pod(f"p{number}", container(image=image)),
            show=lambda made: [
                (c["image"], c["imagePullPolicy"]) for c in made["spec"]["containers"]
            ],
        )


@script
def a_small_job_is_completed(tape: Tape) -> None:
    tape.post(tape.path("jobs", group="batch/v1"), job(suspend=True))


@script
def a_job_as_homeport_makes_them_is_completed(tape: Tape) -> None:
    rules = [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]
    tape.post(
        tape.path("jobs", group="batch/v1"),
        job(
            suspend=True,
            completionMode="Indexed",
            completions=3,
            parallelism=3,
            backoffLimitPerIndex=0,
            maxFailedIndexes=0,
            podFailurePolicy={"rules": rules},
            podReplacementPolicy="Failed",
            activeDeadlineSeconds=60,
            ttlSecondsAfterFinished=3600,
        ),
    )


@script
def a_job_with_a_success_policy_is_completed(tape: Tape) -> None:
    tape.post(
        tape.path("jobs", group="batch/v1"),
        job(
            suspend=True,
            completionMode="Indexed",
            completions=3,
            successPolicy={"rules": [{"succeededIndexes": "0"}]},
        ),
    )


@script
def a_small_deployment_is_completed(tape: Tape) -> None:
    tape.post(tape.path("deployments", group="apps/v1"), deployment(replicas=0))


@script
def a_deployment_that_recreates_is_completed(tape: Tape) -> None:
    strategy = {"type": "Recreate"}
    body = deployment(replicas=0, strategy=strategy, revisionHistoryLimit=0)
    tape.post(tape.path("deployments", group="apps/v1"), body)


@script
def services_of_each_kind_are_completed(tape: Tape) -> None:
    path = tape.path("services")
    tape.post(path, service("plain"))
    tape.post(path, service("headless", clusterIP="None", publishNotReadyAddresses=True))
    tape.post(path, service("port", type="NodePort"))
    tape.post(path, service("outside", type="ExternalName", externalName="example.com"))
    ports = [{"name": "a", "port": 1, "targetPort": "gate"}, {"name": "b", "port": 2}]
    tape.post(path, service("two", ports=ports))


@script
def a_claim_is_completed(tape: Tape) -> None:
    tape.post(tape.path("persistentvolumeclaims"), claim(storageClassName="contract-none"))


@script
def configuration_is_completed(tape: Tape) -> None:
    tape.post(tape.path("secrets"), {"metadata": {"name": "s"}, "stringData": {"a": "text"}})
    tape.post(tape.path("serviceaccounts"), {"metadata": {"name": "account"}})
    limits = [{"type": "Container", "default": {"cpu": "500m"}, "max": {"memory": "1Gi"}}]
    body = {"metadata": {"name": "l"}, "spec": {"limits": limits}}
    tape.post(tape.path("limitranges"), body)
    policy = {
        "metadata": {"name": "n"},
        "spec": {"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]},
    }
    tape.post(tape.path("networkpolicies", group="networking.k8s.io/v1"), policy)


@script
def a_namespace_is_completed(tape: Tape) -> None:
    name = tape.ns + "-2"
    tape.post(f"{CORE}/namespaces", {"metadata": {"name": name}})
    tape.delete(f"{CORE}/namespaces/{name}")
    tape.until_gone(f"{CORE}/namespaces/{name}", timeout_s=150)
