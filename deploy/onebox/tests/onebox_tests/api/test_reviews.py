"""What a client may do: everything, and it is told why."""

from __future__ import annotations

import pytest

from .conftest import Http, Obj

ACCESS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
RULES = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
SELF = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


async def test_every_question_is_answered_with_yes(http: Http) -> None:
    asked: Obj = {"resourceAttributes": {"verb": "delete", "resource": "nodes"}}
    status, found = await http.post(ACCESS, {"spec": asked})
    assert (status, found["kind"], found["spec"]) == (201, "SelfSubjectAccessReview", asked)
    assert found["status"]["allowed"] is True
    assert "enforces no RBAC" in found["status"]["reason"]
    asked = {"nonResourceAttributes": {"verb": "get", "path": "/healthz"}}
    assert (await http.post(ACCESS, {"spec": asked}))[1]["status"]["allowed"] is True
    status, found = await http.post(RULES, {"spec": {"namespace": "lab"}})
    assert (status, found["status"]["resourceRules"][0]["verbs"]) == (201, ["*"])


async def test_a_client_is_told_who_it_is(http: Http) -> None:
    status, found = await http.post(SELF, {})
    assert (status, found["status"]["userInfo"]["username"]) == (201, "admin")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 422),
        ({"spec": {"resourceAttributes": {}, "nonResourceAttributes": {}}}, 422),
        ({"spec": {"resourceAttributes": {"verb": 1}}}, 400),
        ({"kind": "Pod"}, 400),
    ],
)
async def test_a_question_that_is_none_is_refused(http: Http, body: Obj, status: int) -> None:
    got, refused = await http.post(ACCESS, body)
    assert (got, refused["kind"]) == (status, "Status")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", SELF), ("DELETE", SELF), ("PUT", f"{SELF}/x")]
)
async def test_reviews_are_not_kept(http: Http, method: str, path: str) -> None:
    assert (await http.call(method, path, json={}))[0] == 405
