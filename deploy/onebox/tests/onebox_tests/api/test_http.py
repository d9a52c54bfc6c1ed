"""The API over real HTTP: who may ask, what goes where, what comes back."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest

from onebox.api.http.body import MAX_BODY_BYTES
from onebox.api.registry import Api
from onebox.api.resources import SERVED

from .bodies import JOB
from .conftest import Http, Obj, pod

MAPS = "/api/v1/namespaces/lab/configmaps"
PODS = "/api/v1/namespaces/lab/pods"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def config(name: str = "c", **meta: Any) -> Obj:
    return {"metadata": {"name": name, **meta}, "data": {"a": "1"}}


@pytest.mark.parametrize(
    "header", [None, "", "Bearer wrong", "Bearer ", "Basic YWRtaW4=", "Bearer admin-token-2"]
)
async def test_without_a_known_token_nothing_is_told(http: Http, header: str | None) -> None:
    headers = {"Authorization": header} if header is not None else {"Authorization": ""}
    for path in ("/api/v1/pods", "/apis", "/openapi/v3", "/nowhere"):
        status, body = await http.get(path, headers=headers)
        assert (status, body["reason"], body["message"]) == (401, "Unauthorized", "Unauthorized")
    for path in ("/healthz", "/readyz", "/livez", "/version"):
        async with http.session.get(http.base + path, headers=headers) as reply:
            assert reply.status == 200


@pytest.mark.parametrize(
    ("content", "content_type", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'"text"', "application/json", 400),
        (b'{"metadata": NaN}', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b'{"a":' * 5_000 + b"1" + b"}" * 5_000, "application/json", 400),
        (b"k8s\x00...", "application/vnd.kubernetes.protobuf", 400),
        (b"a: [b", "application/yaml", 400),
        (b"a: b", "text/plain", 415),
        (b"a=b", "application/x-www-form-urlencoded", 415),
        (b"{}", "text/html", 415),
    ],
)
async def test_bodies_that_cannot_be_read_are_refused_with_a_sentence(
    http: Http, content: bytes, content_type: str, status: int
) -> None:
    headers = {"Content-Type": content_type}
    got, body = await http.call("POST", MAPS, data=content, headers=headers)
    assert (got, body["kind"], body["code"]) == (status, "Status", status)
    assert len(body["message"]) > 10


async def test_a_body_that_is_too_large_is_refused_whether_announced_or_not(http: Http) -> None:
    large = json.dumps(config() | {"data": {"a": "x" * MAX_BODY_BYTES}}).encode()
    headers = {"Content-Type": "application/json"}
    status, body = await http.call("POST", MAPS, data=io.BytesIO(large), headers=headers)
    assert (status, body["reason"]) == (413, "RequestEntityTooLarge")

    async def chunks() -> Any:
        for start in range(0, len(large), 65536):
            yield large[start : start + 65536]

    status, body = await http.call("POST", MAPS, data=chunks(), headers=headers)
    assert (status, body["reason"]) == (413, "RequestEntityTooLarge")


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/gadgets",
        "/apis/apps/v1/pods",
        "/apis/batch/v1/namespaces/lab/deployments",
        "/api/v1/namespaces/lab/pods/p/exec",
        "/api/v1/namespaces/lab/pods/p/nonsense",
        "/api/v1/namespaces/lab/nodes",
        "/api/v1/namespaces/lab/pods/..%2f..%2fetc%2fpasswd",
        "/api/v1/namespaces/..%2f/pods/x",
        "/api/v1/namespaces/lab/pods/%00",
        "/api/v1/pods/p",
    ],
)
async def test_paths_that_name_nothing_give_a_404_status(http: Http, path: str) -> None:
    status, body = await http.get(path)
    assert (status, body["kind"], body["reason"]) == (404, "Status", "NotFound")


@pytest.mark.parametrize(
    "path", ["/api/v2/pods", "/apis/none/v1/things", "/../../etc/passwd", "/favicon.ico"]
)
async def test_paths_outside_of_all_groups_give_a_404_in_plain_text(http: Http, path: str) -> None:
    async with http.session.get(http.base + path) as reply:
        assert (reply.status, await reply.text()) == (404, "404 page not found\n")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", MAPS),
        ("PATCH", MAPS),
        ("POST", f"{MAPS}/c"),
        ("POST", f"{PODS}/p/status"),
        ("DELETE", f"{PODS}/p/status"),
        ("POST", f"{PODS}/p/log"),
        ("OPTIONS", f"{PODS}/p"),
        ("DELETE", "/api/v1/namespaces"),
    ],
)
async def test_methods_that_do_not_fit_are_refused(http: Http, method: str, path: str) -> None:
    status, body = await http.call(method, path, json={})
    assert (status, body["reason"]) == (405, "MethodNotAllowed")


@pytest.mark.parametrize(
    ("options", "in_query"),
    [
        ({"propagationPolicy": "Foreground"}, "propagationPolicy=Foreground"),
        ({"orphanDependents": True}, "orphanDependents=true"),
    ],
)
async def test_delete_options_come_in_the_body_or_in_the_query(
    http: Http, api: Api, options: Obj, in_query: str
) -> None:
    jobs = "/apis/batch/v1/namespaces/lab/jobs"
    finalizer = "foregroundDeletion" if "propagationPolicy" in options else "orphan"
    for more in ({"json": {"kind": "DeleteOptions", "apiVersion": "v1", **options}}, {}):
        await http.post(jobs, JOB)
        path = f"{jobs}/j" if more else f"{jobs}/j?{in_query}"
        status, body = await http.call("DELETE", path, **more)
        assert status == 200
        assert body["metadata"]["finalizers"] == [finalizer]
        api.patch("jobs", "lab", "j", {"metadata": {"finalizers": None}})


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"propagationPolicy": "Sideways"}, 422),
        ({"propagationPolicy": "Orphan", "orphanDependents": True}, 422),
        ({"preconditions": {"uid": "other"}}, 409),
        ({"preconditions": {"resourceVersion": "1"}}, 409),
        ({"gracePeriodSeconds": "soon"}, 400),
        ({"kind": "Pod"}, 400),
        ([], 400),
        ({"preconditions": []}, 200),
        ({"preconditions": ["x"]}, 400),
    ],
)
async def test_delete_options_are_checked(http: Http, body: Any, status: int) -> None:
    await http.post(MAPS, config())
    got, _reply = await http.call("DELETE", f"{MAPS}/c", json=body)
    assert got == status


async def test_kinds_that_give_back_what_they_delete_do_so(http: Http) -> None:
    for path, body in (
        (PODS, pod("x")),
        (
            "/api/v1/namespaces/lab/services",
            {"metadata": {"name": "x"}, "spec": {"ports": [{"port": 1}]}},
        ),
        ("/api/v1/namespaces/lab/serviceaccounts", {"metadata": {"name": "x"}}),
        ("/api/v1/namespaces/lab/resourcequotas", {"metadata": {"name": "x"}, "spec": {}}),
    ):
        status, made = await http.post(path, body)
        assert status == 201, made
        status, gone = await http.call("DELETE", f"{path}/x")
        assert (status, gone["kind"]) == (200, made["kind"])


async def test_kubectl_gets_tables_and_metadata_alone(http: Http) -> None:
    await http.post(PODS, pod())
    _status, found = await http.get(PODS, headers={"Accept": TABLE})
    assert (found["kind"], found["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert found["rows"][0]["cells"][:3] == ["p", "0/1", "Pending"]
    _status, one = await http.get(f"{PODS}/p?includeObject=Object", headers={"Accept": TABLE})
    assert one["rows"][0]["object"]["kind"] == "Pod"
    partial = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    _status, metas = await http.get(PODS, headers={"Accept": partial})
    assert metas["kind"] == "PartialObjectMetadataList"
    assert metas["items"][0].keys() == {"kind", "apiVersion", "metadata"}
    protobuf = {"Accept": "application/vnd.kubernetes.protobuf"}
    assert (await http.get(PODS, headers=protobuf))[0] == 406
    both = {"Accept": "application/vnd.kubernetes.protobuf,application/json"}
    assert (await http.get(PODS, headers=both))[0] == 200


async def test_a_pod_is_bound_through_either_path(http: Http, api: Api) -> None:
    for name, path in (("a", f"{PODS}/a/binding"), ("b", "/api/v1/namespaces/lab/bindings")):
        await http.post(PODS, pod(name))
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "box"}}
        status, body = await http.post(path, binding)
        assert (status, body["status"]) == (201, "Success")
        assert api.get("pods", "lab", name)["spec"]["nodeName"] == "box"
        assert (await http.post(path, binding))[0] == 409


async def test_discovery_lists_every_kind_in_both_forms(http: Http) -> None:
    served = {(r.api_version, r.plural) for r in SERVED}
    assert (await http.get("/api"))[1]["versions"] == ["v1"]
    _status, groups = await http.get("/apis")
    versions = ["v1"]
    versions += [version["groupVersion"] for g in groups["groups"] for version in g["versions"]]
    found = set()
    for version in versions:
        root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
        _status, listed = await http.get(root)
        assert listed["groupVersion"] == version
        found |= {(version, r["name"]) for r in listed["resources"] if "/" not in r["name"]}
        if version != "v1":
            assert (await http.get(f"/apis/{version.split('/')[0]}"))[1]["kind"] == "APIGroup"
    assert found == served | {("v1", "bindings")}
    wanted = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    aggregated = set()
    for root in ("/api", "/apis"):
        async with http.session.get(http.base + root, headers={"Accept": wanted}) as reply:
            assert reply.headers["Content-Type"] == wanted
            for group in (await reply.json(content_type=None))["items"]:
                name = group["metadata"].get("name", "")
                for version in group["versions"]:
                    where = f"{name}/{version['version']}" if name else version["version"]
                    aggregated |= {(where, r["resource"]) for r in version["resources"]}
    assert aggregated == served | {("v1", "bindings")}


async def test_openapi_documents_are_whole(http: Http) -> None:
    _status, index = await http.get("/openapi/v3")
    for entry in index["paths"].values():
        _status, document = await http.get(entry["serverRelativeURL"])
        text = json.dumps(document)
        schemas = document["components"]["schemas"]
        for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
            assert reference in schemas
        patches = [item["patch"] for item in document["paths"].values() if "patch" in item]
        for patch in patches:
            assert {"dryRun", "fieldValidation"} <= {p["name"] for p in patch["parameters"]}
    accept = {"Accept": "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"}
    async with http.session.get(f"{http.base}/openapi/v2", headers=accept) as reply:
        assert "@" not in reply.headers["Content-Type"]
        assert (await reply.read()).startswith(b"\x0a\x032.0\x12")
    _status, swagger = await http.get("/openapi/v2")
    pods = swagger["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]
    assert pods["containers"]["items"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Container"}
    patches = [item["patch"] for item in swagger["paths"].values() if "patch" in item]
    assert all("dryRun" in [p["name"] for p in patch["parameters"]] for patch in patches)


async def test_the_version_says_what_this_is(http: Http) -> None:
    _status, version = await http.get("/version")
    assert (version["major"], version["minor"]) == ("1", "37")
    assert version["gitVersion"] == "v1.37.0+onebox"


async def test_a_bug_answers_500_with_a_status_and_is_logged(
    http: Http, api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_arguments: object, **_more: object) -> Obj:
        raise ZeroDivisionError

    monkeypatch.setattr(api, "create", broken)
    status, body = await http.post(MAPS, config())
    assert (status, body["reason"]) == (500, "InternalError")
    assert "ZeroDivisionError" in caplog.text


async def test_parallel_posts_never_overshoot_a_quota(http: Http, api: Api) -> None:
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "7"}}}
    made = api.create("resourcequotas", "lab", quota)
    status = {"status": {"hard": made["spec"]["hard"], "used": {"pods": "0"}}}
    api.patch("resourcequotas", "lab", "q", status, subresource="status")
    replies = await asyncio.gather(*(http.post(PODS, pod(f"p{i}")) for i in range(50)))
    assert sorted(status for status, _body in replies) == [201] * 7 + [403] * 43
    assert len(api.list("pods", "lab")) == 7
    assert api.get("resourcequotas", "lab", "q")["status"]["used"] == {"pods": "7"}
