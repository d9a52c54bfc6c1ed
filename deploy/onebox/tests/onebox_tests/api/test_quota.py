"""A quota is charged with the object, and never exceeded."""

from __future__ import annotations

from typing import Any

import pytest

from onebox.api.admission.quota import compute_used
from onebox.api.registry import Api
from onebox.api.status import StatusError

from .bodies import CLAIM, DEPLOYMENT, JOB, forbidden, sized
from .conftest import Clock, Obj, pod


def set_quota(api: Api, hard: Obj, **spec: Any) -> None:
    """Make a quota and count it, as the quota controller does."""
    made = api.create(
        "resourcequotas", "lab", {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
    )
    recount(api, made)


def recount(api: Api, quota: Obj) -> None:
    status = {"hard": quota["spec"]["hard"], "used": compute_used(api, quota)}
    api.update("resourcequotas", "lab", "q", {**quota, "status": status}, subresource="status")


def used(api: Api) -> Obj:
    found: Obj = api.get("resourcequotas", "lab", "q")["status"]["used"]
    return found


def test_a_quota_is_never_exceeded_and_the_sentence_is_upstreams(api: Api) -> None:
    set_quota(api, {"pods": "2", "requests.cpu": "3", "limits.memory": "4Gi"})
    api.create("pods", "lab", sized("a", cpu="1500m"))
    assert forbidden(api, "pods", sized("b", cpu="2", memory="5Gi")) == (
        'pods "b" is forbidden: exceeded quota: q, '
        "requested: limits.memory=5Gi,requests.cpu=2, used: limits.memory=1Gi,requests.cpu=1500m, "
        "limited: limits.memory=4Gi,requests.cpu=3"
    )
    assert api.find("pods", "lab", "b") is None
    assert used(api)["requests.cpu"] == "1500m"


def test_what_a_quota_bounds_has_to_be_specified(api: Api) -> None:
    set_quota(api, {"cpu": "3", "limits.memory": "4Gi"})
    body = pod("a", initContainers=[{"name": "init", "image": "i"}])
    assert forbidden(api, "pods", body) == (
        'pods "a" is forbidden: failed quota: q: must specify '
        "cpu for: init,main; limits.memory for: init,main"
    )


def test_a_quota_that_nobody_has_counted_yet_lets_nothing_in(api: Api) -> None:
    api.create(
        "resourcequotas", "lab", {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "9"}}}
    )
    api.create("pods", "lab", pod("a"))  # status.hard is empty: as upstream, not enforced yet
    status = {"status": {"hard": {"pods": "9", "requests.cpu": "9"}}}
    api.patch("resourcequotas", "lab", "q", status, subresource="status")
    text = forbidden(api, "pods", sized("b"))
    assert text == (
        'pods "b" is forbidden: status unknown for quota: q, resources: pods,requests.cpu'
    )


def test_what_has_ended_does_not_count_and_a_recount_gives_it_back(api: Api, clock: Clock) -> None:
    set_quota(api, {"pods": "1", "count/pods": "5"})
    api.create("pods", "lab", pod("a"))
    api.bind("lab", "a", "box")
    forbidden(api, "pods", pod("b"))
    done = {"status": {"phase": "Succeeded"}}
    api.patch("pods", "lab", "a", done, subresource="status")
    recount(api, api.get("resourcequotas", "lab", "q"))
    assert used(api) == {"pods": "0", "count/pods": "1"}
    api.create("pods", "lab", pod("b"))
    api.bind("lab", "b", "box")
    api.delete("pods", "lab", "b", grace_s=30)
    clock.advance(29)
    assert compute_used(api, api.get("resourcequotas", "lab", "q"))["pods"] == "1"
    clock.advance(60)  # its node is gone: it must not hold the quota for ever
    assert compute_used(api, api.get("resourcequotas", "lab", "q"))["pods"] == "0"


@pytest.mark.parametrize(
    ("hard", "plural", "body", "expected"),
    [
        ({"requests.nvidia.com/gpu": "4"}, "pods", sized("a", **{"nvidia.com/gpu": "3"}), "3"),
        ({"requests.ephemeral-storage": "4Gi"}, "pods", sized("a", **{"ephemeral-storage": "3Gi"}),
         "3Gi"),
        ({"persistentvolumeclaims": "3"}, "persistentvolumeclaims", CLAIM, "1"),
        ({"requests.storage": "3Gi"}, "persistentvolumeclaims", CLAIM, "1Gi"),
        ({"glusterfs.storageclass.storage.k8s.io/requests.storage": "3Gi"},
         "persistentvolumeclaims", CLAIM, "1Gi"),
        ({"services.nodeports": "5"}, "services", {"metadata": {"name": "s"}, "spec": {
            "type": "NodePort", "ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2}]}},
         "2"),
        ({"services": "5"}, "services", {"metadata": {"name": "s"}, "spec": {
            "ports": [{"port": 1}]}}, "1"),
        ({"count/jobs.batch": "5"}, "jobs", JOB, "1"),
        ({"count/deployments.apps": "5"}, "deployments", DEPLOYMENT, "1"),
        ({"configmaps": "5"}, "configmaps", {"metadata": {"name": "c"}}, "1"),
        ({"secrets": "5"}, "secrets", {"metadata": {"name": "c"}}, "1"),
    ],
)  # fmt: skip
def test_every_resource_of_a_quota_is_counted(
    api: Api, hard: Obj, plural: str, body: Obj, expected: str
) -> None:
    set_quota(api, hard)
    name = next(iter(hard))
    before = used(api)[name]
    api.create(plural, "lab", body)
    assert used(api)[name] == expected
    made = api.get(plural, "lab", body["metadata"]["name"])
    api.delete(plural, "lab", made["metadata"]["name"], propagation="Background")
    if "finalizers" in made["metadata"]:
        api.patch(plural, "lab", made["metadata"]["name"], {"metadata": {"finalizers": None}})
    assert compute_used(api, api.get("resourcequotas", "lab", "q"))[name] == before


def test_an_update_is_charged_for_what_it_adds(api: Api) -> None:
    set_quota(api, {"services.nodeports": "1"})
    body = {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}}
    api.create("services", "lab", body)
    assert used(api)["services.nodeports"] == "0"
    api.patch("services", "lab", "s", {"spec": {"type": "NodePort"}})
    assert used(api)["services.nodeports"] == "1"
    api.patch("services", "lab", "s", {"metadata": {"labels": {"a": "b"}}})
    assert used(api)["services.nodeports"] == "1"
    more = {"spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}}
    with pytest.raises(StatusError, match="exceeded quota"):
        api.patch("services", "lab", "s", more)


def test_scopes_choose_the_pods_of_a_quota(api: Api) -> None:
    set_quota(api, {"pods": "1"}, scopes=["BestEffort"])
    api.create("pods", "lab", sized("burst"))
    assert used(api)["pods"] == "0"
    api.create("pods", "lab", pod("free"))
    assert "exceeded quota" in forbidden(api, "pods", pod("more"))
