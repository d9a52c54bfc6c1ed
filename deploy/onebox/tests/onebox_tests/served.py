"""What deploy/onebox/README.md says is served, clause by clause, each with its trial."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable

from .api.conftest import Http, Obj, pod

HISTORY = 20  # changes of one kind that are remembered here
LAB = "/api/v1/namespaces/lab"
MAPS = f"{LAB}/configmaps"


async def merge_patches(http: Http) -> None:
    await http.post(MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    status, made = await http.patch(f"{MAPS}/c", {"data": {"a": None, "b": "2"}})
    assert (status, made["data"]) == (200, {"b": "2"})


async def strategic_patches(http: Http) -> None:
    change = {"spec": {"containers": [{"name": "main", "image": "other"}]}}
    status, made = await http.patch(f"{LAB}/pods/p", change, "strategic-merge-patch+json")
    assert (status, made["spec"]["containers"][0]["image"]) == (200, "other")
    assert made["spec"]["containers"][0]["terminationMessagePath"] == "/dev/termination-log"


async def json_patches(http: Http) -> None:
    await http.post(MAPS, {"metadata": {"name": "c"}, "data": {"a": "1"}})
    for value, wanted, data in (("2", 422, {"a": "1"}), ("1", 200, {})):
        test = {"op": "test", "path": "/data/a", "value": value}
        change = [test, {"op": "remove", "path": "/data/a"}]
        assert (await http.patch(f"{MAPS}/c", change, "json-patch+json"))[0] == wanted
        assert (await http.get(f"{MAPS}/c"))[1].get("data", {}) == data


async def applied(http: Http, query: str, data: str) -> tuple[int, Obj]:
    """Apply a ConfigMap."""
    headers = {"Content-Type": "application/apply-patch+yaml"}
    text = f"{{apiVersion: v1, kind: ConfigMap, metadata: {{name: applied}}, data: {data}}}"
    path = f"{MAPS}/applied?fieldManager={query}"
    return await http.call("PATCH", path, data=text, headers=headers)


async def ownership(http: Http) -> None:
    status, made = await applied(http, "x", "{a: '1'}")
    (entry,) = made["metadata"]["managedFields"]
    assert (status, entry["manager"], entry["operation"]) == (201, "x", "Apply")
    assert entry["fieldsV1"] == {"f:data": {"f:a": {}}}


async def conflicts(http: Http) -> None:
    await applied(http, "x", "{a: '1'}")
    status, said = await applied(http, "y", "{a: '2'}")
    assert (status, said["reason"]) == (409, "Conflict")


async def forced(http: Http) -> None:
    await applied(http, "x", "{a: '1'}")
    status, made = await applied(http, "y&force=true", "{a: '2'}")
    assert (status, made["data"]) == (200, {"a": "2"})


async def left_out(http: Http) -> None:
    await applied(http, "x", "{a: '1', b: '2'}")
    assert (await applied(http, "x", "{b: '2'}"))[1]["data"] == {"b": "2"}


async def dry_runs(http: Http) -> None:
    one = f"{MAPS}/c"
    made = {"metadata": {"name": "c"}, "data": {"a": "1"}}
    assert (await http.post(f"{MAPS}?dryRun=All", made))[0] == 201
    assert (await http.get(one))[0] == 404
    await http.post(MAPS, made)
    before = (await http.get(one))[1]
    status = f"{LAB}/pods/p/status"
    for method, path, body in (
        ("PUT", one, {**made, "data": {}}),
        ("PATCH", one, {"data": {"b": "2"}}),
        ("DELETE", one, None),
        ("DELETE", MAPS, None),
        ("PATCH", status, {"status": {"phase": "Running"}}),
    ):
        kind = "merge-patch+json" if method == "PATCH" else "json"
        headers = {"Content-Type": f"application/{kind}"}
        data = json.dumps(body) if body else None
        path = f"{path}?dryRun=All"
        assert (await http.call(method, path, data=data, headers=headers))[0] == 200, path
    assert (await http.get(one))[1] == before
    assert (await http.get(f"{LAB}/pods/p"))[1]["status"]["phase"] == "Pending"


async def pages(http: Http) -> None:
    for name in "abc":
        await http.post(MAPS, {"metadata": {"name": name}})
    _status, page = await http.get(f"{MAPS}?limit=1")
    assert page["metadata"]["remainingItemCount"] == 2
    await http.call("DELETE", f"{MAPS}/b")
    await http.post(MAPS, {"metadata": {"name": "d"}})
    rest = (await http.get(f"{MAPS}?continue={page['metadata']['continue']}"))[1]
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c"]


async def forget(http: Http) -> None:
    """Write more than is remembered."""
    for number in range(HISTORY + 1):
        await http.patch(f"{MAPS}/a", {"data": {"n": str(number)}})


async def old_pages(http: Http) -> None:
    for name in "abc":
        await http.post(MAPS, {"metadata": {"name": name}})
    token = (await http.get(f"{MAPS}?limit=1"))[1]["metadata"]["continue"]
    await forget(http)
    status, said = await http.get(f"{MAPS}?continue={token}")
    assert (status, said["reason"]) == (410, "Expired")
    rest = (await http.get(f"{MAPS}?continue={said['metadata']['continue']}"))[1]
    assert [item["metadata"]["name"] for item in rest["items"]] == ["b", "c"]


async def watched(http: Http, options: str) -> list[Obj]:
    """What a watch of ConfigMaps hears until it ends."""
    path = f"{http.base}{MAPS}?watch=1&timeoutSeconds=1&{options}"
    async with http.session.get(path) as reply:
        return [json.loads(line) for line in (await reply.text()).splitlines()]


async def bookmarks(http: Http) -> None:
    version = (await http.get(MAPS))[1]["metadata"]["resourceVersion"]
    events = await watched(http, f"resourceVersion={version}&allowWatchBookmarks=true")
    assert [event["type"] for event in events] == ["BOOKMARK"]


async def initial_events(http: Http) -> None:
    await http.post(MAPS, {"metadata": {"name": "a"}})
    options = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    first, mark, *_later = await watched(http, options)
    assert (first["type"], first["object"]["metadata"]["name"]) == ("ADDED", "a")
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def old_watches(http: Http) -> None:
    _status, made = await http.post(MAPS, {"metadata": {"name": "a"}})
    await forget(http)
    version = made["metadata"]["resourceVersion"]
    (event,) = await watched(http, f"resourceVersion={version}")
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def propagation(http: Http) -> None:
    for policy, finalizers in (
        ("Background", None),
        ("Foreground", ["foregroundDeletion"]),
        ("Orphan", ["orphan"]),
    ):
        name = policy.lower()
        await http.post(MAPS, {"metadata": {"name": name}})
        await http.call("DELETE", f"{MAPS}/{name}", json={"propagationPolicy": policy})
        status, found = await http.get(f"{MAPS}/{name}")
        assert status == (200 if finalizers else 404)
        assert found["metadata"].get("finalizers") == finalizers


async def finalizers(http: Http) -> None:
    await http.post(MAPS, {"metadata": {"name": "kept", "finalizers": ["example.com/x"]}})
    await http.call("DELETE", f"{MAPS}/kept")
    assert "deletionTimestamp" in (await http.get(f"{MAPS}/kept"))[1]["metadata"]
    await http.patch(f"{MAPS}/kept", {"metadata": {"finalizers": None}})
    assert (await http.get(f"{MAPS}/kept"))[0] == 404


async def preconditions(http: Http) -> None:
    meta = (await http.post(MAPS, {"metadata": {"name": "held"}}))[1]["metadata"]
    for wrong in ({"uid": "another"}, {"resourceVersion": "1"}):
        options = {"preconditions": wrong}
        assert (await http.call("DELETE", f"{MAPS}/held", json=options))[0] == 409
    right = {key: meta[key] for key in ("uid", "resourceVersion")}
    options = {"preconditions": right}
    assert (await http.call("DELETE", f"{MAPS}/held", json=options))[0] == 200


async def old_updates(http: Http) -> None:
    _status, made = await http.post(MAPS, {"metadata": {"name": "c"}})
    await http.patch(f"{MAPS}/c", {"data": {"a": "1"}})
    assert (await http.call("PUT", f"{MAPS}/c", json=made))[0] == 409
    change = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}}
    assert (await http.patch(f"{MAPS}/c", {**change, "data": {"a": "2"}}))[0] == 409


async def validated(http: Http, text: str, validation: str) -> tuple[int, str]:
    """The status and what is said of a body, in an error or in a warning."""
    path = f"{http.base}{MAPS}?dryRun=All&fieldValidation={validation}"
    headers = {"Content-Type": "application/json"}
    async with http.session.post(path, data=text, headers=headers) as reply:
        warned = reply.headers.get("Warning", "").replace("\\", "")
        return reply.status, warned or (await reply.json()).get("message", "")


async def unknown_fields(http: Http) -> None:
    text = '{"metadata": {"name": "f"}, "nonsense": 1}'
    assert await validated(http, text, "Ignore") == (201, "")
    for validation, wanted in (("Warn", 201), ("Strict", 400)):
        status, said = await validated(http, text, validation)
        assert status == wanted
        assert 'unknown field "nonsense"' in said


async def doubled_fields(http: Http) -> None:
    text = '{"metadata": {"name": "f"}, "data": {"a": "1", "a": "2"}}'
    assert await validated(http, text, "Ignore") == (201, "")
    for validation, wanted in (("Warn", 201), ("Strict", 400)):
        status, said = await validated(http, text, validation)
        assert status == wanted
        assert 'duplicate field "data.a"' in said


async def tables(http: Http) -> None:
    accept = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    found = (await http.get(f"{LAB}/pods", headers=accept))[1]
    names = [column["name"] for column in found["columnDefinitions"]]
    assert (found["kind"], names[:5]) == (
        "Table",
        ["Name", "Ready", "Status", "Restarts", "Age"],
    )


async def metadata_alone(http: Http) -> None:
    for kind, path in (
        ("PartialObjectMetadata", f"{LAB}/pods/p"),
        ("PartialObjectMetadataList", f"{LAB}/pods"),
    ):
        accept = {"Accept": f"application/json;as={kind};v=v1;g=meta.k8s.io"}
        found = (await http.get(path, headers=accept))[1]
        (one,) = found.get("items", [found])
        assert (found["kind"], one["metadata"]["name"]) == (kind, "p")
        assert not {"spec", "status"} & one.keys()


async def open_api(http: Http) -> None:
    index = (await http.get("/openapi/v3"))[1]["paths"]
    for known in ("api/v1", "apis/batch/v1"):
        found = (await http.get(index[known]["serverRelativeURL"]))[1]
        assert found["components"]["schemas"], known
    assert "io.k8s.api.core.v1.Pod" in (await http.get("/openapi/v2"))[1]["definitions"]


async def open_api_as_protobuf(http: Http) -> None:
    kind = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    async with http.session.get(f"{http.base}/openapi/v2", headers={"Accept": kind}) as reply:
        content = await reply.read()
    # The first field of the document is its version, "2.0".
    assert (reply.status, content[:5]) == (200, b"\x0a\x032.0")
    assert b"io.k8s.api.core.v1.Pod" in content


async def bodies(http: Http) -> None:
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


async def options_of_deletes(http: Http) -> None:
    # DeleteOptions of which the fifth field, dryRun, says All.
    wire = b"k8s\x00\x12\x05\x2a\x03All"
    for kind, data in (("json", b'{"dryRun": ["All"]}'), ("yaml", b"dryRun: [All]"), ("", wire)):
        headers = {"Content-Type": f"application/{kind or 'vnd.kubernetes.protobuf'}"}
        status, _body = await http.call("DELETE", f"{LAB}/pods/p", data=data, headers=headers)
        assert status == 200
    assert (await http.get(f"{LAB}/pods/p"))[0] == 200


async def priority(http: Http) -> None:
    made = {"metadata": {"name": "high"}, "value": 7}
    await http.post("/apis/scheduling.k8s.io/v1/priorityclasses", made)
    _status, found = await http.post(f"{LAB}/pods", pod("first", priorityClassName="high"))
    assert found["spec"]["priority"] == 7


async def default_priority(http: Http) -> None:
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value, wanted in (("usual", 5, 201), ("second", 6, 403)):
        made = {"metadata": {"name": name}, "value": value, "globalDefault": True}
        assert (await http.post(classes, made))[0] == wanted
    _status, found = await http.post(f"{LAB}/pods", pod("first"))
    assert (found["spec"]["priority"], found["spec"]["priorityClassName"]) == (5, "usual")


Trial = Callable[[Http], Awaitable[None]]
# Each clause of what a row says, with its trial here or the file whose tests try it.
SERVED: dict[str, dict[str, Trial | str]] = {
    "merge, strategic merge and JSON patches": {
        "null removes a field": merge_patches,
        "lists of objects merge by their keys": strategic_patches,
        "a JSON patch whose test fails changes nothing": json_patches,
    },
    "server-side apply": {
        "ownership in `managedFields`": ownership,
        "conflicts (409)": conflicts,
        "`--force-conflicts`": forced,
        "fields that are left out go": left_out,
    },
    "dry runs": {
        "`dryRun=All` on every write": dry_runs,
        "`kubectl --dry-run=server`, `kubectl diff`": "tests/contract/test_kubectl.py",
    },
    "pages": {
        "`limit` and `continue` show one moment": pages,
        "410 with a token that goes on when it is too long ago": old_pages,
    },
    "watches": {
        "bookmarks": bookmarks,
        "initial events": initial_events,
        "410 when the history does not reach back": old_watches,
    },
    "finalizers and propagation": {
        "Background, Foreground and Orphan": propagation,
        "what becomes of dependents": "tests/contract/scripts/deletion.py",
        "the object goes with its last finalizer": finalizers,
    },
    "preconditions": {
        "uid and resourceVersion of deletes (409)": preconditions,
        "resourceVersion of updates (409)": old_updates,
    },
    "field validation": {
        "Ignore, Warn and Strict": unknown_fields,
        "also for fields that are there twice": doubled_fields,
    },
    "tables and metadata alone": {
        "the columns of `kubectl get`": tables,
        "objects and lists without spec and status": metadata_alone,
    },
    "OpenAPI 2 and 3": {
        "a schema for each kind": open_api,
        "`kubectl explain`, `apply` and `diff` from 1.20 on": "tests/contract/test_kubectl.py",
        "version 2 also as protobuf": open_api_as_protobuf,
    },
    "JSON, YAML and protobuf in requests": {
        "objects as `kubectl` and typed Go clients send them": bodies,
        "options of deletes, too": options_of_deletes,
    },
    "priority": {
        "resolved into pods": priority,
        "one global default": default_priority,
        "higher pods are scheduled first": "deploy/onebox/tests/onebox_tests/controllers/test_scheduler.py",
    },
}
