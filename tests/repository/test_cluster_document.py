"""docs/cluster.md tells the rights that deploy/cluster gives, no more and no less."""

import re
from pathlib import Path

from deploy.cluster import rights

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "docs" / "cluster.md").read_text()
ROW = re.compile(r"^\| (web|reconciler|purge) \| ([a-z, ]+) \| (`.+?`) \| .+ \|$", re.MULTILINE)
ROLES = {
    "everywhere": {"reconciler": "homeport-reconciler", "purge": "homeport-purge"},
    "people": {account: role for role, account in rights.TENANT_ROLES.items()},
}
OWN = {"reconciler": "homeport-results"}


def told(text: str, roles: dict[str, str]) -> set[rights.Right]:
    return {
        rights.Right(roles[account], resource, verb, name)
        for account, verbs, resources in ROW.findall(text)
        for verb in verbs.split(", ")
        for resource, name in re.findall(r"`([^` ]+) ?([^`]*)`", resources)
    }


def test_the_document_tells_every_right() -> None:
    everywhere, _, rest = TEXT.partition("In the namespace `homeport`:")
    own, _, people = rest.partition("In people's namespaces, where Homeport binds it")
    found = told(everywhere, ROLES["everywhere"]) | told(people, ROLES["people"])
    found |= told(own, OWN)
    assert found == rights.granted()


def test_every_rule_of_the_manifests_has_its_reason_beside_it() -> None:
    for path in sorted(rights.FOLDER.glob("*.yaml")):
        assert path.read_text().startswith("#"), f"{path.name} does not say what it is for"


def test_the_roles_are_bound_to_their_accounts_alone() -> None:
    bound = {
        (document["roleRef"]["name"], subject["namespace"], subject["name"])
        for document in rights.documents()
        if document["kind"] in {"ClusterRoleBinding", "RoleBinding"}
        for subject in document["subjects"]
    }
    assert bound == {
        (role, rights.NAMESPACE, account)
        for account, role in (*ROLES["everywhere"].items(), *OWN.items())
    }


def test_nothing_is_granted_by_a_wildcard() -> None:
    found = [right for right in rights.granted() if "*" in f"{right.resource} {right.verb}"]
    assert found == []
    assert not {r for r in rights.granted() if r.verb in {"escalate", "impersonate"}}
    assert {(r.role, r.resource) for r in rights.granted() if r.verb == "bind"} == {
        ("homeport-reconciler", "clusterroles.rbac.authorization.k8s.io")
    }
