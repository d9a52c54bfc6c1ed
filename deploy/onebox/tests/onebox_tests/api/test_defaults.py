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


def test_a_claim_may_refuse_the_default_class(api: Api) -> None:
    made = api.create("persistentvolumeclaims", "lab", with_change(CLAIM, "metadata.name", "a"))
    assert made["spec"]["storageClassName"] == "glusterfs"
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
