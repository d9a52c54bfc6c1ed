"""deploy/onebox/README.md says what is served: compared with the running API both ways, row by row."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from onebox.api.bootstrap import ensure_first_objects
from onebox.api.registry import Api
from onebox.api.store import Store
from tests.contract import exceptions

from .api.conftest import Clock, Http, Obj, clock, http, pod, server  # noqa: F401 - fixtures
from .served import HISTORY, LAB, MAPS, SERVED

ROOT = Path(__file__).resolve().parents[4]
PAGE = (ROOT / "deploy" / "onebox" / "README.md").read_text()
ALL = "create delete deletecollection get list patch update watch"
NOWHERE = "the server could not find the requested resource"
UNKNOWN = "404 page not found"


def rows(first_heading: str) -> list[list[str]]:
    """The rows of the table whose first column has this heading.

    A row without a first cell goes on with the one above, which was too long for a line.
    """
    _head, _mark, rest = PAGE.partition(f"| {first_heading} |")
    lines = rest.splitlines()[2:]
    table: list[list[str]] = []
    for line in lines:
        if not line.startswith("|"):
            break
        cells = [cell.strip() for cell in line[1:-1].split("|")]
        if cells[0]:
            table.append(cells)
        else:
            pairs = zip(table[-1], cells, strict=True)
            table[-1] = [f"{above} {below}".strip() for above, below in pairs]
    return table


FEATURES = {row[0]: (row[1], row[2]) for row in rows("feature")}


async def test_the_table_of_resources_is_what_discovery_says(http: Http) -> None:  # noqa: F811
    told = {}
    for version, plural, verbs, below in rows("API"):
        verbs = ALL if verbs == "all" else verbs
        told[version, plural] = verbs.replace("all but deletecollection", ALL_BUT_ONE)
        for part in below.split(";") if below else ():
            name, _colon, sub_verbs = part.strip().partition(": ")
            told[version, f"{plural}/{name}"] = sub_verbs
    _status, groups = await http.get("/apis")
    versions = ["v1"]
    versions += [v["groupVersion"] for group in groups["groups"] for v in group["versions"]]
    served = {}
    for version in versions:
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        _status, found = await http.get(root)
        for resource in found["resources"]:
            served[version, resource["name"]] = " ".join(resource["verbs"])
    assert told == served


ALL_BUT_ONE = ALL.replace(" deletecollection", "")


async def test_every_verb_of_the_table_is_answered(http: Http) -> None:  # noqa: F811
    for version, plural, verbs, _below in rows("API"):
        if not verbs.startswith("all"):
            continue
        root = "/api/v1" if version == "v1" else f"/apis/{version}"
        for path in (f"{root}/{plural}", f"{root}/namespaces/lab/{plural}"):
            status, found = await http.get(path)
            if status == 200:
                break
        assert status == 200, f"{version} {plural}"
        assert found["kind"].endswith("List")
        for method, name in (("PUT", "/none"), ("PATCH", "/none"), ("DELETE", "/none")):
            status, _body = await http.call(method, f"{path}{name}", json={})
            assert status in (404, 415), f"{method} {version} {plural}: {status}"
        status, _body = await http.call("DELETE", f"{path}?labelSelector=none%3Dthere")
        assert status == (405 if "but" in verbs else 200), f"{version} {plural}"


async def message(http: Http, method: str, path: str, **more: Any) -> str:  # noqa: F811
    """What is answered to a request that is refused."""
    async with http.session.request(method, f"{http.base}{path}", **more) as reply:
        text = await reply.text()
        assert reply.status >= 400, text
        return text.strip() if text.startswith("404 ") else str(json.loads(text)["message"])


async def warning(http: Http, path: str, body: Obj) -> str:  # noqa: F811
    """What is said about an object that is accepted."""
    async with http.session.post(f"{http.base}{path}", json=body) as reply:
        assert reply.status == 201, await reply.text()
        return reply.headers["Warning"].removeprefix('299 - "').removesuffix('"')


def refused(method: str, *paths: str) -> Callable[[Http], Awaitable[str]]:
    async def try_it(http: Http) -> str:  # noqa: F811
        said = {await message(http, method, path, json={}) for path in paths}
        assert len(said) == 1
        return said.pop()

    return try_it


async def protobuf_replies(http: Http) -> str:  # noqa: F811
    accept = {"Accept": "application/vnd.kubernetes.protobuf, application/yaml"}
    return " ".join((await message(http, "GET", MAPS, headers=accept)).split())


async def access(http: Http) -> str:  # noqa: F811
    ask = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    _status, found = await http.post(path, ask)
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    _status, who = await http.post(path, {})
    assert (found["status"]["allowed"], who["status"]["userInfo"]["username"]) == (True, "admin")
    return str(found["status"]["reason"])


async def rbac(http: Http) -> str:  # noqa: F811
    path = "/apis/rbac.authorization.k8s.io/v1/namespaces/lab/roles"
    return await warning(http, path, {"metadata": {"name": "r"}})


async def policies(http: Http) -> str:  # noqa: F811
    body = {"metadata": {"name": "n"}, "spec": {"podSelector": {}}}
    return await warning(http, "/apis/networking.k8s.io/v1/namespaces/lab/networkpolicies", body)


async def host_network(http: Http) -> str:  # noqa: F811
    return await warning(http, f"{LAB}/pods", pod("host", hostNetwork=True))


async def account_volumes(http: Http) -> str:  # noqa: F811
    _status, made = await http.post(f"{LAB}/pods", pod("plain"))
    assert "volumes" not in made["spec"]
    return "pods get no volume `kube-api-access-...`"


async def immutable_pods(http: Http) -> str:  # noqa: F811
    await http.post(f"{LAB}/pods", pod("stays"))
    headers = {"Content-Type": "application/merge-patch+json"}
    text = '{"spec": {"hostname": "other"}}'
    said = await message(http, "PATCH", f"{LAB}/pods/stays", data=text, headers=headers)
    found = re.search(r"\(changed: .*\)$", said)
    return f"... {found[0]}" if found else said


async def explain(http: Http) -> str:  # noqa: F811
    _status, swagger = await http.get("/openapi/v2")
    fields = swagger["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"].values()
    assert not any(". " in field["description"] for field in fields)
    return "the first sentence of each"


POD = f"{LAB}/pods/p"
Trial = Callable[[Http], Awaitable[str]]
TRIALS: dict[str, Trial] = {
    "replies as YAML or protobuf alone": protobuf_replies,
    "`kubectl exec`, `attach`, `cp`, `port-forward`": refused(
        "POST", f"{POD}/exec", f"{POD}/attach", f"{POD}/portforward"
    ),
    "eviction (`kubectl drain` deletes instead)": refused("POST", f"{POD}/eviction"),
    "ephemeral containers (`kubectl debug`)": refused("PATCH", f"{POD}/ephemeralcontainers"),
    "resizing a pod in place": refused("PATCH", f"{POD}/resize"),
    "tokens of service accounts (`kubectl create token`)": refused(
        "POST", f"{LAB}/serviceaccounts/default/token"
    ),
    "StatefulSets, DaemonSets, CronJobs, Ingresses": refused(
        "POST",
        "/apis/apps/v1/namespaces/lab/statefulsets",
        "/apis/apps/v1/namespaces/lab/daemonsets",
        "/apis/batch/v1/namespaces/lab/cronjobs",
        "/apis/networking.k8s.io/v1/namespaces/lab/ingresses",
    ),
    "reviews of other users' access (`kubectl auth can-i --as`)": refused(
        "POST",
        "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        "/apis/authorization.k8s.io/v1/namespaces/lab/localsubjectaccessreviews",
    ),
    "custom resources, webhooks, admission policies": refused(
        "POST",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations",
        "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    ),
    "autoscalers, disruption budgets": refused(
        "POST",
        "/apis/autoscaling/v2/namespaces/lab/horizontalpodautoscalers",
        "/apis/policy/v1/namespaces/lab/poddisruptionbudgets",
    ),
    "`kubectl auth can-i`, `auth whoami`": access,
    "RBAC": rbac,
    "NetworkPolicies": policies,
    "namespaces of the machine for pods": host_network,
    "service account volumes in pods": account_volumes,
    "sentences about pods that may not change": immutable_pods,
    "texts of `kubectl explain`": explain,
}


# The exception of the contract that stands for each row that is not as upstream.
EXCEPTIONS = {
    "replies as YAML or protobuf alone": "only-json",
    "`kubectl exec`, `attach`, `cp`, `port-forward`": "no-connections-to-pods",
    "eviction (`kubectl drain` deletes instead)": "no-eviction",
    "ephemeral containers (`kubectl debug`)": "no-ephemeral-containers",
    "resizing a pod in place": "no-resizing",
    "tokens of service accounts (`kubectl create token`)": "no-tokens-of-accounts",
    "StatefulSets, DaemonSets, CronJobs, Ingresses": "no-other-workloads",
    "reviews of other users' access (`kubectl auth can-i --as`)": "no-reviews-of-others",
    "custom resources, webhooks, admission policies": "no-extensions",
    "autoscalers, disruption budgets": "no-extensions",
    "`kubectl auth can-i`, `auth whoami`": "rbac-unenforced",
    "RBAC": "rbac-unenforced",
    "NetworkPolicies": "network-policy-unenforced",
    "namespaces of the machine for pods": "shares-nothing-of-the-machine",
    "service account volumes in pods": "no-tokens-of-accounts",
    "sentences about pods that may not change": "go-differences",
    "texts of `kubectl explain`": "short-explanations",
}


def test_what_is_not_as_upstream_is_an_exception_of_the_contract() -> None:
    assert list(EXCEPTIONS) == list(TRIALS)
    listed = {excuse.id: excuse for excuse in exceptions.load()}
    for feature, excuse_id in EXCEPTIONS.items():
        assert listed[excuse_id].places, feature


def test_every_feature_of_the_table_is_tried() -> None:
    assert [*SERVED, *TRIALS] == list(FEATURES)
    states = [state for state, _seen in FEATURES.values()]
    assert states[: len(SERVED)] == ["served"] * len(SERVED)
    assert set(states[len(SERVED) :]) == {"not served", "differs"}


@pytest.fixture
def api(clock: Clock) -> Iterator[Api]:  # noqa: F811
    """As everywhere, but what is long ago is so soon."""
    with contextlib.closing(Store(None, history_events_per_kind=HISTORY)) as store:
        made = Api(store, clock=clock)
        ensure_first_objects(made)
        made.create("namespaces", None, {"metadata": {"name": "lab"}})
        made.create("serviceaccounts", "lab", {"metadata": {"name": "default"}})
        made.create("pods", "lab", pod("p"))
        yield made


@pytest.mark.parametrize("feature", SERVED)
def test_a_served_feature_is_tried_clause_by_clause(feature: str) -> None:
    clauses = []
    for clause, trial in SERVED[feature].items():
        clauses.append(clause if callable(trial) else f"{clause} (`{trial}`)")
        assert callable(trial) or (ROOT / trial).exists()
    assert FEATURES[feature][1] == "; ".join(clauses)


@pytest.mark.parametrize(
    ("feature", "clause"),
    [(row, clause) for row, found in SERVED.items() for clause in found if callable(found[clause])],
)
async def test_a_clause_of_a_served_feature_holds(
    http: Http,  # noqa: F811
    feature: str,
    clause: str,
) -> None:
    trial = SERVED[feature][clause]
    assert callable(trial)
    await trial(http)


@pytest.mark.parametrize("feature", TRIALS)
async def test_a_feature_is_as_the_table_says(http: Http, feature: str) -> None:  # noqa: F811
    assert await TRIALS[feature](http) == FEATURES[feature][1]
