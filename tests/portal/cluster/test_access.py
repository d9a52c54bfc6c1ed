"""What an admin is told of the rights of Homeport's account."""

from typing import Any

import pytest
import yaml

from deploy.cluster import rights as manifests
from portal.cluster import access
from portal.cluster.access import EVERYWHERE, IN_NAMESPACES, TOO_MUCH, AccountAccess
from portal.cluster.client import Cluster
from tests.portal.cluster.fake_api import FakeApi

ROLES = {"homeport-reconciler": EVERYWHERE, "homeport-tenant": IN_NAMESPACES}


def rules_of(*roles: str) -> list[dict[str, Any]]:
    """As the cluster tells them."""
    return [
        rule
        for document in manifests.documents()
        if document["kind"] == "ClusterRole" and document["metadata"]["name"] in roles
        for rule in document["rules"]
    ]


def say(api: FakeApi, rules: list[dict[str, Any]], **status: Any) -> None:
    answer = {"resourceRules": rules, **status}
    api.rules = {"kind": "SelfSubjectRulesReview", "status": answer}


@pytest.mark.parametrize("role", ROLES)
def test_what_is_needed_is_what_the_manifests_grant(role: str) -> None:
    needed = {(resource, verb) for resource, verbs in ROLES[role].items() for verb in verbs}
    granted = {(r.resource, r.verb) for r in manifests.granted() if r.role == role}
    assert needed == granted


def test_the_component_for_pod_groups_grants_what_they_need() -> None:
    file = manifests.FOLDER.parent / "kubernetes" / "components" / "pod-groups" / "rights.yaml"
    (rule,) = next(yaml.safe_load_all(file.read_text()))["rules"]
    assert [f"{rule['resources'][0]}.{rule['apiGroups'][0]}"] == list(access.POD_GROUPS)
    assert sorted(rule["verbs"]) == sorted(*access.POD_GROUPS.values())


def test_nothing_that_is_too_much_is_granted_to_anybody_but_purge() -> None:
    too_much = {(resource, verb) for resource, verbs in TOO_MUCH.items() for verb in verbs}
    found = {(r.role, r.resource, r.verb) for r in manifests.granted()}
    assert {right for right in found if right[1:] in too_much} == {
        ("homeport-purge", "namespaces", "delete")
    }


async def test_an_account_as_the_manifests_make_it(api: FakeApi, cluster: Cluster) -> None:
    say(api, rules_of(*ROLES))
    assert await access.look(cluster, "u-alice") == AccountAccess("yes")
    (asked,) = api.requests("POST")
    assert asked.body["spec"] == {"namespace": "u-alice"}


async def test_before_the_first_namespace_rights_in_namespaces_are_not_missed(
    api: FakeApi, cluster: Cluster
) -> None:
    say(api, rules_of("homeport-reconciler"))
    assert await access.look(cluster, "") == AccountAccess("yes")
    found = await access.look(cluster, "u-alice")
    assert "create jobs.batch" in found.missing
    assert "list pods" not in found.missing


async def test_an_admin_has_too_much(api: FakeApi, cluster: Cluster) -> None:
    say(api, [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}])
    found = await access.look(cluster, "u-alice")
    assert found.missing == ()
    assert {"delete persistentvolumeclaims", "list secrets", "impersonate users"} <= {*found.excess}


async def test_a_right_on_one_name_is_no_right(api: FakeApi, cluster: Cluster) -> None:
    named = {"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"], "resourceNames": ["a"]}
    without = [rule for rule in rules_of(*ROLES) if "nodes" not in rule["resources"]]
    say(api, [*without, named])
    found = await access.look(cluster, "u-alice")
    assert {"list nodes", "watch nodes"} <= {*found.missing}


async def test_an_authorizer_that_cannot_tell_is_not_blamed(api: FakeApi, cluster: Cluster) -> None:
    say(api, [], incomplete=True, evaluationError="webhook authorizer cannot tell")
    assert await access.look(cluster, "") == AccountAccess(detail="webhook authorizer cannot tell")


async def test_a_cluster_that_says_that_it_limits_nobody(api: FakeApi, cluster: Cluster) -> None:
    everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
    say(api, everything, evaluationError="no RBAC here")
    assert await access.look(cluster, "u-alice") == AccountAccess("no", detail="no RBAC here")


async def test_a_cluster_without_accounts(api: FakeApi, cluster: Cluster) -> None:
    assert await access.look(cluster, "u-alice") == AccountAccess("no")
