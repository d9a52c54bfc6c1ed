"""docs/onebox.md says what is served: compared with the running API both ways, row by row."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from deploy.onebox.api.registry import Api

from .api.conftest import Http, Obj, api, clock, http, pod, server  # noqa: F401 - fixtures

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "onebox.md").read_text()
ALL = "create delete deletecollection get list patch update watch"
LAB = "/api/v1/namespaces/lab"
MAPS = f"{LAB}/configmaps"
NOWHERE = "the server could not find the requested resource"
UNKNOWN = "404 page not found"


def rows(first_heading: str) -> list[list[str]]:
    """The rows of the table whose first column has this heading."""
    _head, _mark, rest = PAGE.partition(f"| {first_heading} |")
    lines = rest.splitlines()[2:]
    table = []
    for line in lines:
        if not line.startswith("|"):
            break
        table.append([cell.strip() for cell in line.strip("|").split("|")])
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


async def patches(http: Http) -> str:  # noqa: F811
    await http.post(MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    for kind, body in (
        ("merge-patch+json", {"data": {"b": "2"}}),
        ("strategic-merge-patch+json", {"data": {"c": "3"}}),
        ("json-patch+json", [{"op": "remove", "path": "/data/a"}]),
    ):
        assert (await http.patch(f"{MAPS}/c", body, kind))[0] == 200
    assert (await http.get(f"{MAPS}/c"))[1]["data"] == {"b": "2", "c": "3"}
    return ""


async def apply(http: Http) -> str:  # noqa: F811
    headers = {"Content-Type": "application/apply-patch+yaml"}
    for manager, value, wanted in (("x", "1", 201), ("y", "2", 409), ("y&force=true", "2", 200)):
        name = "metadata: {name: applied}"
        text = f"{{apiVersion: v1, kind: ConfigMap, {name}, data: {{a: '{value}'}}}}"
        path = f"{MAPS}/applied?fieldManager={manager}"
        assert (await http.call("PATCH", path, data=text, headers=headers))[0] == wanted
    text = "{apiVersion: v1, kind: ConfigMap}"
    path = f"{MAPS}/applied?fieldManager=y"
    assert "data" not in (await http.call("PATCH", path, data=text, headers=headers))[1]
    return ""


async def dry_runs(http: Http) -> str:  # noqa: F811
    assert (await http.post(f"{MAPS}?dryRun=All", {"metadata": {"name": "dry"}}))[0] == 201
    assert (await http.get(f"{MAPS}/dry"))[0] == 404
    return ""


async def pages(http: Http) -> str:  # noqa: F811
    _status, page = await http.get("/api/v1/namespaces?limit=1")
    assert page["metadata"]["remainingItemCount"] == 4
    return ""


async def watches(http: Http) -> str:  # noqa: F811
    options = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&timeoutSeconds=1"
    path = f"{http.base}/api/v1/namespaces?{options}&allowWatchBookmarks=true"
    async with http.session.get(path) as reply:
        events = [json.loads(line) for line in (await reply.text()).splitlines()]
    assert {"ADDED", "BOOKMARK"} == {event["type"] for event in events}
    return ""


async def finalizers(http: Http) -> str:  # noqa: F811
    await http.post(MAPS, {"metadata": {"name": "kept", "finalizers": ["example.com/x"]}})
    await http.call("DELETE", f"{MAPS}/kept")
    assert "deletionTimestamp" in (await http.get(f"{MAPS}/kept"))[1]["metadata"]
    await http.patch(f"{MAPS}/kept", {"metadata": {"finalizers": None}})
    assert (await http.get(f"{MAPS}/kept"))[0] == 404
    return ""


async def preconditions(http: Http) -> str:  # noqa: F811
    await http.post(MAPS, {"metadata": {"name": "held"}})
    options = {"preconditions": {"uid": "another"}}
    assert (await http.call("DELETE", f"{MAPS}/held", json=options))[0] == 409
    return ""


async def field_validation(http: Http) -> str:  # noqa: F811
    text = '{"metadata": {"name": "f"}, "data": {"a": "1", "a": "2"}}'
    said = await message(
        http,
        "POST",
        f"{MAPS}?fieldValidation=Strict",
        data=text,
        headers={"Content-Type": "application/json"},
    )
    assert 'duplicate field "data.a"' in said
    return ""


async def tables(http: Http) -> str:  # noqa: F811
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    assert (await http.get(MAPS, headers=accept))[1]["kind"] == "Table"
    return ""


async def open_api(http: Http) -> str:  # noqa: F811
    assert (await http.get("/openapi/v3"))[0] == 200
    assert "io.k8s.api.core.v1.Pod" in (await http.get("/openapi/v2"))[1]["definitions"]
    return ""


async def bodies(http: Http) -> str:  # noqa: F811
    headers = {"Content-Type": "application/yaml"}
    text = "metadata: {name: yaml}"
    assert (await http.call("POST", MAPS, data=text, headers=headers))[0] == 201
    # An envelope (type, object) around a ConfigMap whose metadata has the name "wire".
    meta = b"\x0a\x04wire"
    body = b"\x0a" + bytes([len(meta)]) + meta
    kind = b"\x0a\x02v1\x12\x09ConfigMap"
    content = b"k8s\x00\x0a" + bytes([len(kind)]) + kind + b"\x12" + bytes([len(body)]) + body
    headers = {"Content-Type": "application/vnd.kubernetes.protobuf"}
    assert (await http.call("POST", MAPS, data=content, headers=headers))[0] == 201
    return ""


async def priority(http: Http) -> str:  # noqa: F811
    made = {"metadata": {"name": "high"}, "value": 7}
    await http.post("/apis/scheduling.k8s.io/v1/priorityclasses", made)
    _status, found = await http.post(f"{LAB}/pods", pod("first", priorityClassName="high"))
    assert found["spec"]["priority"] == 7
    return ""


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
TRIALS: dict[str, Callable[[Http], Awaitable[str]]] = {
    "merge, strategic merge and JSON patches": patches,
    "server-side apply": apply,
    "dry runs": dry_runs,
    "pages": pages,
    "watches": watches,
    "finalizers and propagation": finalizers,
    "preconditions": preconditions,
    "field validation": field_validation,
    "tables and metadata alone": tables,
    "OpenAPI 2 and 3": open_api,
    "JSON, YAML and protobuf in requests": bodies,
    "priority": priority,
    "replies as YAML or protobuf alone": protobuf_replies,
    "`kubectl exec`, `attach`, `cp`, `port-forward`": refused(
        "POST", f"{POD}/exec", f"{POD}/attach", f"{POD}/portforward"
    ),
    "eviction (`kubectl drain`)": refused("POST", f"{POD}/eviction"),
    "ephemeral containers (`kubectl debug`)": refused("PATCH", f"{POD}/ephemeralcontainers"),
    "resizing a pod in place": refused("PATCH", f"{POD}/resize"),
    "tokens of service accounts (`kubectl create token`)": refused(
        "POST", f"{LAB}/serviceaccounts/default/token"
    ),
    "StatefulSets, DaemonSets, CronJobs": refused(
        "POST",
        "/apis/apps/v1/namespaces/lab/statefulsets",
        "/apis/apps/v1/namespaces/lab/daemonsets",
        "/apis/batch/v1/namespaces/lab/cronjobs",
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
    "autoscalers, disruption budgets, ingresses": refused(
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


def test_every_feature_of_the_table_is_tried() -> None:
    assert list(TRIALS) == list(FEATURES)
    assert {state for state, _seen in FEATURES.values()} == {"served", "not served", "differs"}


@pytest.mark.parametrize("feature", TRIALS)
async def test_a_feature_is_as_the_table_says(
    http: Http,  # noqa: F811
    api: Api,  # noqa: F811
    feature: str,
) -> None:
    for plural, body in (
        ("pods", pod("p")),
        ("serviceaccounts", {"metadata": {"name": "default"}}),
    ):
        api.create(plural, "lab", body)
    state, seen = FEATURES[feature]
    said = await TRIALS[feature](http)
    assert said == ("" if state == "served" else seen)
