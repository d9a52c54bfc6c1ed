"""What an audit log tells of Homeport's accounts."""

import json
from dataclasses import replace
from typing import Any

import pytest

from deploy.cluster import rights, used
from deploy.cluster.rights import Right

RECONCILER = "system:serviceaccount:homeport:reconciler"
BINDING = 'RBAC: allowed by {} "{}" of ClusterRole "{}" to ServiceAccount "reconciler/homeport"'


def event(verb: str, resource: str, role: str = "homeport-reconciler", **more: Any) -> str:
    """One line of an audit log, as upstream writes it."""
    plural, _, group = resource.partition(".")
    about = {"resource": plural, "apiGroup": group, "apiVersion": "v1"}
    reason = BINDING.format("ClusterRoleBinding", role, role)
    notes = {used._DECISION: "allow", used._REASON: reason, **more.pop("annotations", {})}
    return json.dumps(
        {
            "kind": "Event",
            "verb": verb,
            "user": {"username": more.pop("user", RECONCILER)},
            "objectRef": {**about, **more.pop("about", {})},
            "responseStatus": {"code": more.pop("code", 200)},
            "requestObject": more.pop("body", None),
            "annotations": notes,
        }
    )


def test_a_call_counts_for_the_role_that_allowed_it() -> None:
    use = used.read(
        [
            event("list", "pods"),
            event("list", "pods"),
            event("get", "jobs.batch", "homeport-tenant"),
        ]
    )
    assert use.rights == {
        Right("homeport-reconciler", "pods", "list"): 2,
        Right("homeport-tenant", "jobs.batch", "get"): 1,
    }


def test_a_right_for_one_name_is_used_by_a_call_of_that_name() -> None:
    use = used.read([event("get", "configmaps", "homeport-results", about={"name": "doctor"})])
    assert set(use.rights) == {Right("homeport-results", "configmaps", "get", "doctor")}


def test_a_subresource_is_another_right() -> None:
    use = used.read([event("get", "pods", "homeport-tenant-logs", about={"subresource": "log"})])
    assert set(use.rights) == {Right("homeport-tenant-logs", "pods/log", "get")}


def test_a_right_that_is_never_used_is_named() -> None:
    use = used.read([])
    assert set(use.never_used) == rights.granted()
    assert str(use.never_used[0]) == "homeport-purge: list configmaps"


def test_a_right_that_the_manifests_do_not_give_is_named() -> None:
    use = used.read([event("delete", "persistentvolumes")])
    assert list(map(str, use.not_granted)) == ["homeport-reconciler: delete persistentvolumes"]


def test_what_was_denied_is_told_with_its_place() -> None:
    denied = {used._DECISION: "forbid", used._REASON: ""}
    use = used.read([event("delete", "pods", annotations=denied, about={"namespace": "u-a"})])
    assert use.denied == {"reconciler: delete pods in u-a": 1}
    assert not use.rights


def test_what_the_policy_refused_is_told() -> None:
    said = {used._POLICY: "[...]"}
    use = used.read([event("create", "namespaces", annotations=said, code=403)])
    assert use.refused == {"reconciler: create namespaces": 1}


BINDINGS = "rolebindings.rbac.authorization.k8s.io"
LOGS = {"roleRef": {"kind": "ClusterRole", "name": "homeport-tenant-logs"}}


@pytest.mark.parametrize(("code", "count"), [(201, 1), (403, 0)])
def test_a_binding_that_was_made_used_the_right_to_bind_its_role(code: int, count: int) -> None:
    use = used.read([event("create", BINDINGS, code=code, body=LOGS)])
    bind = Right("homeport-reconciler", "clusterroles.rbac.authorization.k8s.io", "bind")
    assert use.rights[replace(bind, name="homeport-tenant-logs")] == count
    assert replace(bind, name="homeport-tenant") in use.never_used


def test_a_binding_whose_labels_were_mended_bound_no_role() -> None:
    use = used.read([event("patch", BINDINGS, body={"metadata": {"labels": {"a": "b"}}})])
    assert {right.verb for right in use.rights} == {"patch"}


@pytest.mark.parametrize(
    "line",
    [
        event("list", "secrets", user="system:admin"),
        event("list", "secrets", user="system:serviceaccount:other:reconciler"),
        event("create", "selfsubjectrulesreviews.authorization.k8s.io", "system:basic-user"),
        event("get", "", about={"resource": ""}),
    ],
)
def test_others_and_what_everybody_may_are_passed_over(line: str) -> None:
    use = used.read([line])
    assert not use.rights
    assert not use.denied
