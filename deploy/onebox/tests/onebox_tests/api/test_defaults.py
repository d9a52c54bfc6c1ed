"""What a client leaves out is filled in as upstream fills it in."""

from __future__ import annotations

import base64

import pytest

from onebox.api.registry import Api
from onebox.api.store import clone

from .bodies import (
    CLAIM,
    DEPLOYMENT,
    FULL_POD,
    INDEXED,
    JOB,
    LIMITS,
    PLACE,
    QUOTA,
    SERVICE,
    VOLUME,
    with_change,
)
from .conftest import Obj, pod


@pytest.mark.parametrize(
    ("plural", "base"),
    [
        ("pods", FULL_POD),
        ("jobs", JOB),
        ("jobs", INDEXED),
        ("deployments", DEPLOYMENT),
        ("replicasets", DEPLOYMENT),
        ("services", SERVICE),
        ("persistentvolumeclaims", CLAIM),
        ("persistentvolumes", VOLUME),
        ("resourcequotas", QUOTA),
        ("limitranges", LIMITS),
    ],
)
def test_the_bases_of_these_tests_are_fine_and_defaults_are_stable(
    api: Api, plural: str, base: Obj
) -> None:
    made = api.create(plural, PLACE.get(plural, "lab"), base)
    again = api.update(plural, PLACE.get(plural, "lab"), made["metadata"]["name"], clone(made))
    assert again is made, "defaults applied twice must change nothing"


def test_a_pod_gets_upstreams_defaults(api: Api) -> None:
    spec = api.create("pods", "lab", FULL_POD)["spec"]
    container = spec["containers"][0]
    assert {key: spec[key] for key in ("restartPolicy", "dnsPolicy", "securityContext")} == {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
    }
    assert spec["terminationGracePeriodSeconds"] == 30
    assert spec["schedulerName"] == "default-scheduler"
    assert spec["enableServiceLinks"] is True
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    assert spec["priority"] == 0
    assert container["terminationMessagePath"] == "/dev/termination-log"
    assert container["terminationMessagePolicy"] == "File"
    assert container["imagePullPolicy"] == "IfNotPresent"
    assert container["ports"][0]["protocol"] == "TCP"
    assert container["resources"]["requests"] == {"cpu": "1"}
    assert spec["initContainers"][0]["imagePullPolicy"] == "Always"


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("x", "Always"),
        ("x:latest", "Always"),
        ("host:5000/x", "Always"),
        ("x:1", "IfNotPresent"),
        ("host:5000/x:1", "IfNotPresent"),
        ("x@sha256:" + "a" * 64, "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(api: Api, image: str, policy: str) -> None:
    made = api.create("pods", "lab", with_change(pod(), "spec.containers.0.image", image))
    assert made["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_probes_get_their_defaults_and_quantities_their_canonical_form(api: Api) -> None:
    body = pod()
    body["spec"]["containers"][0] |= {
        "readinessProbe": {"httpGet": {"port": "http"}},
        "resources": {"limits": {"cpu": 0.5, "memory": "1024Mi"}},
    }
    container = api.create("pods", "lab", body)["spec"]["containers"][0]
    assert container["readinessProbe"] == {
        "httpGet": {"port": "http", "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert container["resources"]["limits"] == {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("resources", "word"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"nvidia.com/gpu": "1"}}, "BestEffort"),
    ],
)
def test_the_quality_of_service_is_worked_out(api: Api, resources: Obj, word: str) -> None:
    made = api.create("pods", "lab", with_change(pod(), "spec.containers.0.resources", resources))
    assert made["status"] == {"phase": "Pending", "qosClass": word}


def test_a_job_gets_its_selector_and_labels(api: Api) -> None:
    made = api.create("jobs", "lab", JOB)
    uid, spec = made["metadata"]["uid"], made["spec"]
    assert spec["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    assert spec["template"]["metadata"]["labels"] == {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": "j",
        "controller-uid": uid,
        "job-name": "j",
    }
    chosen = {key: spec[key] for key in ("completions", "parallelism", "backoffLimit", "suspend")}
    assert chosen == {"completions": 1, "parallelism": 1, "backoffLimit": 6, "suspend": False}
    assert spec["completionMode"] == "NonIndexed"
    assert spec["podReplacementPolicy"] == "TerminatingOrFailed"


def test_a_job_with_limits_per_index_or_a_failure_policy_gets_other_defaults(api: Api) -> None:
    body = with_change(INDEXED, "spec.backoffLimitPerIndex", 1)
    rule = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}
    body = with_change(body, "spec.podFailurePolicy", {"rules": [rule]})
    spec = api.create("jobs", "lab", body)["spec"]
    assert spec["backoffLimit"] == 2147483647
    assert spec["podReplacementPolicy"] == "Failed"
    assert spec["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"] == "True"


def test_services_deployments_and_claims_get_upstreams_defaults(api: Api) -> None:
    service = api.create("services", "lab", SERVICE)["spec"]
    assert service["type"] == "ClusterIP"
    assert service["sessionAffinity"] == "None"
    assert service["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert service["clusterIP"].startswith("10.96.")
    assert service["ipFamilies"] == ["IPv4"]
    headless = with_change(with_change(SERVICE, "spec.clusterIP", "None"), "metadata.name", "h")
    assert api.create("services", "lab", headless)["spec"]["clusterIPs"] == ["None"]
    deployment = api.create("deployments", "lab", DEPLOYMENT)["spec"]
    assert deployment["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"},
    }
    assert (deployment["replicas"], deployment["revisionHistoryLimit"]) == (1, 10)
    assert deployment["progressDeadlineSeconds"] == 600
    claim = api.create("persistentvolumeclaims", "lab", CLAIM)
    assert claim["spec"]["storageClassName"] == "glusterfs"
    assert claim["spec"]["volumeMode"] == "Filesystem"
    assert claim["status"] == {"phase": "Pending"}
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


def test_a_claim_may_refuse_the_default_class(api: Api) -> None:
    body = with_change(CLAIM, "spec.storageClassName", "")
    assert api.create("persistentvolumeclaims", "lab", body)["spec"]["storageClassName"] == ""


def test_secrets_take_plain_strings(api: Api) -> None:
    data = {"old": base64.b64encode(b"1").decode(), "both": base64.b64encode(b"1").decode()}
    body = {"metadata": {"name": "s"}, "data": data, "stringData": {"both": "2", "new": "ä"}}
    made = api.create("secrets", "lab", body)
    assert made["type"] == "Opaque"
    assert "stringData" not in made
    plain = {key: base64.b64decode(value).decode() for key, value in made["data"].items()}
    assert plain == {"old": "1", "both": "2", "new": "ä"}
    api.patch("secrets", "lab", "s", {"stringData": {"new": "3"}})
    assert api.get("secrets", "lab", "s")["data"]["new"] == base64.b64encode(b"3").decode()
