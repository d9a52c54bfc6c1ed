"""Lists: pages of one moment, and what options may be combined."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from onebox.api.registry import Api
from onebox.api.store import Store

from .conftest import ADMIN_TOKEN, Http

MAPS = "/api/v1/namespaces/lab/configmaps"


def fill(api: Api, count: int, namespace: str = "lab") -> None:
    for i in range(count):
        api.create("configmaps", namespace, {"metadata": {"name": f"m{i}"}})


async def test_a_token_tells_where_to_go_on_and_in_which_state(http: Http, api: Api) -> None:
    fill(api, 3)
    _status, page = await http.get(f"{MAPS}?limit=2")
    token = page["metadata"]["continue"]
    decoded = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    version = int(page["metadata"]["resourceVersion"])
    assert decoded == {"v": "meta.k8s.io/v1", "rv": version, "start": "m1\0"}
    assert page["metadata"]["remainingItemCount"] == 1
    api.delete("configmaps", "lab", "m2")
    _status, rest = await http.get(f"{MAPS}?limit=2&continue={token}")
    assert [item["metadata"]["name"] for item in rest["items"]] == ["m2"]
    assert rest["metadata"] == {"resourceVersion": str(version)}


async def test_namespaces_are_listed_in_the_order_of_their_paths(http: Http, api: Api) -> None:
    for name in ("a", "a-b"):
        api.create("namespaces", None, {"metadata": {"name": name}})
        fill(api, 1, name)
    _status, found = await http.get("/api/v1/configmaps?limit=1")
    assert found["items"][0]["metadata"]["namespace"] == "a-b", "'-' comes before '/'"
    token = found["metadata"]["continue"]
    _status, rest = await http.get(f"/api/v1/configmaps?continue={token}")
    assert rest["items"][0]["metadata"]["namespace"] == "a"


async def test_a_token_too_old_comes_with_one_that_goes_on_in_the_present() -> None:
    from aiohttp import ClientSession

    from onebox.api.server import Access, Server

    store = Store(None, history_events_per_kind=2)
    api = Api(store)
    api.create("namespaces", None, {"metadata": {"name": "lab"}})
    server = Server(api, Access({ADMIN_TOKEN: "admin"}))
    port = await server.start(0, None)
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    try:
        async with ClientSession(headers=headers) as session:
            http = Http(session, f"http://127.0.0.1:{port}")
            fill(api, 3)
            _status, page = await http.get(f"{MAPS}?limit=2")
            old, token = page["metadata"]["resourceVersion"], page["metadata"]["continue"]
            for name in ("n0", "n1", "n2"):
                api.create("configmaps", "lab", {"metadata": {"name": name}})
            status, gone = await http.get(f"{MAPS}?limit=2&continue={token}")
            assert (status, gone["reason"]) == (410, "Expired")
            assert "results in an inconsistent list" in gone["message"]
            token = gone["metadata"]["continue"]
            status, rest = await http.get(f"{MAPS}?continue={token}")
            names = [item["metadata"]["name"] for item in rest["items"]]
            assert (status, names) == (200, ["m2", "n0", "n1", "n2"])
            exact = f"{MAPS}?resourceVersion={old}&resourceVersionMatch=Exact"
            status, gone = await http.get(exact)
            assert (status, gone["message"]) == (
                410,
                "The resourceVersion for the provided list is too old.",
            )
    finally:
        await server.stop()
        store.close()


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("resourceVersionMatch=Exact", 422, "is forbidden unless resourceVersion is provided"),
        (
            "resourceVersionMatch=Exact&resourceVersion=0",
            422,
            'resourceVersionMatch \\"exact\\" is forbidden for resourceVersion \\"0\\"',
        ),
        ("resourceVersionMatch=No&resourceVersion=1", 422, 'Unsupported value: \\"No\\"'),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
        ("watch=1&sendInitialEvents=true", 422, "requires setting resourceVersionMatch"),
        ("watch=1&resourceVersionMatch=NotOlderThan", 422, "is forbidden for watch unless"),
        ("resourceVersion=x", 400, 'strconv.ParseUint: parsing \\"x\\": invalid syntax'),
        ("resourceVersion=-1", 400, "invalid resource version: resourceVersion"),
        ("resourceVersion=999999", 504, "Too large resource version: 999999, current: "),
        ("limit=x", 400, 'strconv.ParseInt: parsing \\"x\\": invalid syntax'),
        ("limit=99999999999999999999", 400, "value out of range"),
        ("continue=%21", 400, "invalid continue token: continue key is not valid"),
        ("continue=e30", 400, "server does not recognize this encoded version"),
        ("fieldSelector=a%3Db", 400, "is not a known field selector: only"),
        ("labelSelector=a%3Db%3Dc", 400, "found '=', expected: ',' or 'end of string'"),
    ],
)
async def test_options_that_make_no_sense_are_refused(
    http: Http, query: str, status: int, words: str
) -> None:
    got, body = await http.get(f"{MAPS}?{query}")
    assert got == status
    assert words in json.dumps(body)


async def test_a_version_still_to_come_is_told_for_one_object_too(http: Http, api: Api) -> None:
    fill(api, 1)
    status, body = await http.get(f"{MAPS}/m0?resourceVersion=999999")
    assert (status, body["details"]["retryAfterSeconds"]) == (504, 1)


def test_objects_of_an_older_state_are_listed_too(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = Store(path)
    api = Api(store)
    api.create("namespaces", None, {"metadata": {"name": "lab"}})
    store._db.execute("DELETE FROM objects")
    body = b'{"metadata":{"name":"x","resourceVersion":"1"},"kind":"Namespace","apiVersion":"v1"}'
    store._db.execute("INSERT INTO objects VALUES ('namespaces', '', 'x', ?)", (body,))
    store.close()
    store = Store(path)
    assert [obj["metadata"]["name"] for obj in Api(store).list("namespaces")] == ["x"]
    store.close()
