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

from .bodies import DEPLOYMENT, JOB
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


async def test_an_object_goes_its_way_through_all_verbs(http: Http) -> None:
    status, made = await http.post(MAPS, config())
    assert (status, made["kind"]) == (201, "ConfigMap")
    status, again = await http.post(MAPS, config())
    assert (status, again["kind"], again["reason"]) == (409, "Status", "AlreadyExists")
    assert again["details"] == {"name": "c", "kind": "configmaps"}
    assert (await http.get(f"{MAPS}/c")) == (200, made)
    status, new = await http.call("PUT", f"{MAPS}/c", json={**made, "data": {"a": "2"}})
    assert (status, new["data"]) == (200, {"a": "2"})
    status, stale = await http.call("PUT", f"{MAPS}/c", json={**made, "data": {"a": "3"}})
    assert (status, stale["reason"]) == (409, "Conflict")
    for kind, patch in (
        ("merge-patch+json", {"data": {"b": "1"}}),
        ("strategic-merge-patch+json", {"data": {"c": "1"}}),
        ("json-patch+json", [{"op": "add", "path": "/data/d", "value": "1"}]),
    ):
        status, new = await http.patch(f"{MAPS}/c", patch, kind)
        assert status == 200, new
    assert new["data"] == {"a": "2", "b": "1", "c": "1", "d": "1"}
    status, gone = await http.call("DELETE", f"{MAPS}/c")
    assert (status, gone["kind"], gone["status"]) == (200, "Status", "Success")
    assert gone["details"] == {"name": "c", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    status, missing = await http.get(f"{MAPS}/c")
    assert (status, missing["message"]) == (404, 'configmaps "c" not found')


async def test_dry_runs_leave_no_trace(http: Http, api: Api) -> None:
    version = api.store.resource_version
    status, made = await http.post(f"{MAPS}?dryRun=All", config())
    assert (status, made["metadata"]["name"]) == (201, "c")
    assert api.store.resource_version == version
    await http.post(MAPS, config())
    version = api.store.resource_version
    assert (await http.patch(f"{MAPS}/c?dryRun=All", {"data": {"a": "9"}}))[0] == 200
    assert (await http.call("DELETE", f"{MAPS}/c?dryRun=All"))[0] == 200
    assert (await http.call("DELETE", f"{MAPS}/c", json={"dryRun": ["All"]}))[0] == 200
    assert api.store.resource_version == version
    status, body = await http.post(f"{MAPS}?dryRun=Some", config("d"))
    assert (status, body["reason"]) == (422, "Invalid")


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


async def test_unknown_fields_come_back_as_warnings_or_as_a_refusal(http: Http) -> None:
    body = config() | {"dta": {}}
    async with http.session.post(http.base + MAPS, json=body) as reply:
        assert reply.status == 201
        assert reply.headers["Warning"] == '299 - "unknown field \\"dta\\""'
    status, refused = await http.post(f"{MAPS}?fieldValidation=Strict", config("d") | {"dta": 1})
    assert status == 400
    assert 'strict decoding error: unknown field "dta"' in refused["message"]
    status, _refused = await http.post(f"{MAPS}?fieldValidation=Loose", config("d"))
    assert status == 422


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


async def test_a_collection_is_deleted_by_selector(http: Http) -> None:
    for i in range(4):
        await http.post(MAPS, config(f"c{i}", labels={"even": str(i % 2 == 0).lower()}))
    status, gone = await http.call("DELETE", f"{MAPS}?labelSelector=even%3Dtrue")
    assert (status, gone["kind"]) == (200, "ConfigMapList")
    assert [o["metadata"]["name"] for o in gone["items"]] == ["c0", "c2"]
    _status, left = await http.get(MAPS)
    assert [o["metadata"]["name"] for o in left["items"]] == ["c1", "c3"]


async def test_lists_are_chosen_by_selectors_and_tell_their_version(http: Http, api: Api) -> None:
    for name in ("a", "b"):
        await http.post(PODS, pod(name))
    api.bind("lab", "a", "box")
    status, found = await http.get(f"{PODS}?fieldSelector=spec.nodeName%3Dbox")
    assert status == 200
    assert [o["metadata"]["name"] for o in found["items"]] == ["a"]
    assert (found["kind"], found["apiVersion"]) == ("PodList", "v1")
    assert found["metadata"]["resourceVersion"] == str(api.store.resource_version)
    _status, everywhere = await http.get("/api/v1/pods")
    assert len(everywhere["items"]) == 2
    assert (await http.get(f"{PODS}?labelSelector=a%20b"))[0] == 400
    assert (await http.get(f"{PODS}?fieldSelector=spec.color%3Dred"))[0] == 400
    assert (await http.get(f"{PODS}?limit=many"))[0] == 400
    assert (await http.get(f"{PODS}?resourceVersion=999999"))[0] == 504


async def test_pages_agree_with_each_other_whatever_happens_between(http: Http, api: Api) -> None:
    for i in range(7):
        api.create("configmaps", "lab", config(f"c{i}"))
    _status, page = await http.get(f"{MAPS}?limit=3")
    names = [o["metadata"]["name"] for o in page["items"]]
    assert page["metadata"]["remainingItemCount"] == 4
    version = page["metadata"]["resourceVersion"]
    api.delete("configmaps", "lab", "c5")
    api.create("configmaps", "lab", config("c3-new"))
    api.patch("configmaps", "lab", "c6", {"data": {"a": "new"}})
    while page["metadata"].get("continue"):
        token = page["metadata"]["continue"]
        _status, page = await http.get(f"{MAPS}?limit=3&continue={token}")
        assert page["metadata"]["resourceVersion"] == version
        names.extend(o["metadata"]["name"] for o in page["items"])
    assert names == [f"c{i}" for i in range(7)]
    assert page["items"][-1]["data"] == {"a": "1"}, "the page shows the state of the first page"
    assert (await http.get(f"{MAPS}?limit=3&continue=nonsense"))[0] == 400


async def test_a_page_token_that_is_too_old_gives_410(http: Http, api: Api) -> None:
    for i in range(3):
        api.create("configmaps", "lab", config(f"c{i}"))
    _status, page = await http.get(f"{MAPS}?limit=1")
    api.create("configmaps", "lab", config("d"))
    api.store._history["configmaps"].floor = api.store.resource_version
    token = page["metadata"]["continue"]
    status, body = await http.get(f"{MAPS}?limit=1&continue={token}")
    assert (status, body["reason"]) == (410, "Expired")


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


async def test_status_and_scale_have_paths_of_their_own(http: Http) -> None:
    deployments = "/apis/apps/v1/namespaces/lab/deployments"
    await http.post(deployments, DEPLOYMENT)
    status, scale = await http.get(f"{deployments}/d/scale")
    assert (status, scale["kind"], scale["spec"]) == (200, "Scale", {"replicas": 1})
    assert scale["status"] == {"replicas": 0, "selector": "app=x"}
    scale["spec"]["replicas"] = 3
    status, scale = await http.call("PUT", f"{deployments}/d/scale", json=scale)
    assert (status, scale["spec"]) == (200, {"replicas": 3})
    status, _scale = await http.patch(f"{deployments}/d/scale", {"spec": {"replicas": 5}})
    assert status == 200
    _status, whole = await http.get(f"{deployments}/d")
    assert (whole["spec"]["replicas"], whole["metadata"]["generation"]) == (5, 3)
    status, _body = await http.patch(f"{deployments}/d/scale", {"spec": {"replicas": -1}})
    assert status == 422
    stale = {**scale, "metadata": {**scale["metadata"], "resourceVersion": "1"}}
    assert (await http.call("PUT", f"{deployments}/d/scale", json=stale))[0] == 409
    change = {"status": {"replicas": 2}, "spec": {"replicas": 99}}
    _status, whole = await http.patch(f"{deployments}/d/status", change)
    assert (whole["status"], whole["spec"]["replicas"]) == ({"replicas": 2}, 5)
    assert (await http.get(f"{deployments}/d/status"))[1] == whole


async def test_a_pod_is_bound_through_either_path(http: Http, api: Api) -> None:
    for name, path in (("a", f"{PODS}/a/binding"), ("b", "/api/v1/namespaces/lab/bindings")):
        await http.post(PODS, pod(name))
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": "box"}}
        status, body = await http.post(path, binding)
        assert (status, body["status"]) == (201, "Success")
        assert api.get("pods", "lab", name)["spec"]["nodeName"] == "box"
        assert (await http.post(path, binding))[0] == 409


async def test_events_have_the_newer_shape_too(http: Http, api: Api) -> None:
    about = api.create("pods", "lab", pod())
    api.event(about, "Normal", "Started", "go", "kubelet")
    path = "/apis/events.k8s.io/v1/namespaces/lab/events"
    _status, found = await http.get(f"{path}?fieldSelector=regarding.name%3Dp")
    event = found["items"][0]
    assert (found["apiVersion"], event["note"], event["reason"]) == (
        "events.k8s.io/v1",
        "go",
        "Started",
    )
    assert event["regarding"]["name"] == "p"
    assert event["deprecatedCount"] == 1
    name = event["metadata"]["name"]
    _status, core = await http.get(f"/api/v1/namespaces/lab/events/{name}")
    assert (core["message"], core["involvedObject"]["name"]) == ("go", "p")
    new = {"metadata": {"name": "n"}, "note": "hi", "regarding": {"namespace": "lab"}}
    status, made = await http.post(path, new)
    assert (status, made["note"]) == (201, "hi")
    assert api.get("events", "lab", "n")["message"] == "hi"


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
    assert (version["major"], version["minor"]) == ("1", "36")
    assert version["gitVersion"] == "v1.36.0+onebox"


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
