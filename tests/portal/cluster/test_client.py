"""The client: what it sends, what its errors mean, what it repairs by itself."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from portal.cluster import client as client_module
from portal.cluster.client import Cluster
from portal.cluster.errors import (
    AlreadyExists,
    ClusterError,
    Conflict,
    CredentialsError,
    Forbidden,
    Invalid,
    NotFound,
    QuotaExceeded,
    TooManyRequests,
    Unavailable,
)
from tests.portal.cluster.fake_api import FakeApi, Trouble


def config_map(name: str = "a", *, owner: str = "me", spec_hash: str = "h1") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": "u-x",
            "labels": {"homeport.dev/owner": owner},
            "annotations": {"homeport.dev/spec-hash": spec_hash},
        },
        "data": {"key": "value"},
    }


@pytest.fixture
def namespace(api: FakeApi) -> None:
    api.put({"kind": "Namespace", "metadata": {"name": "u-x"}})


@pytest.mark.usefixtures("namespace")
async def test_create_get_patch_delete_go_to_the_right_paths(api: FakeApi, cluster: Cluster):
    made = await cluster.create(config_map())
    assert made["metadata"]["uid"]
    assert (await cluster.get("ConfigMap", "u-x", "a"))["data"] == {"key": "value"}
    patched = await cluster.merge_patch("ConfigMap", "u-x", "a", {"data": {"key": None, "b": "2"}})
    assert patched["data"] == {"b": "2"}
    assert await cluster.delete("ConfigMap", "u-x", "a", uid=made["metadata"]["uid"]) == "deleted"

    base = "/api/v1/namespaces/u-x/configmaps"
    assert [(a.method, a.path) for a in api.asked] == [
        ("POST", base),
        ("GET", f"{base}/a"),
        ("PATCH", f"{base}/a"),
        ("DELETE", f"{base}/a"),
    ]
    assert {a.headers["Authorization"] for a in api.asked} == {"Bearer secret-token"}
    assert api.asked[2].headers["Content-Type"] == "application/merge-patch+json"
    assert api.asked[3].body["propagationPolicy"] == "Background"


@pytest.mark.parametrize(
    ("status", "reason", "message", "error"),
    [
        (404, "NotFound", "x", NotFound),
        (409, "AlreadyExists", "x", AlreadyExists),
        (409, "Conflict", "x", Conflict),
        (422, "Invalid", "x", Invalid),
        (400, "BadRequest", "x", Invalid),
        (403, "Forbidden", "may not", Forbidden),
        (403, "Forbidden", "exceeded quota: homeport, requested: pods=1", QuotaExceeded),
        (500, "InternalError", "x", Unavailable),
        (503, "", "x", Unavailable),
        (401, "Unauthorized", "x", ClusterError),
    ],
)
async def test_each_answer_is_its_own_error(
    api: FakeApi, cluster: Cluster, status: int, reason: str, message: str, error: type
):
    body = {"kind": "Status", "reason": reason, "message": message}
    api.trouble.append(Trouble("GET pods/a", "status", status=status, body=body))
    with pytest.raises(ClusterError) as caught:
        await cluster.get("Pod", "u-x", "a")
    assert type(caught.value) is error
    assert (caught.value.status, caught.value.message) == (status, message)


async def test_a_short_retry_after_is_waited_for(api: FakeApi, cluster: Cluster):
    busy = Trouble("GET nodes", "status", status=429, headers={"Retry-After": "0"}, times=2)
    api.trouble.append(busy)
    assert await cluster.list("Node") == []
    assert len(api.asked) == 3


async def test_a_long_retry_after_is_the_callers_to_wait_for(api: FakeApi, cluster: Cluster):
    api.trouble.append(Trouble("GET nodes", "status", status=429, headers={"Retry-After": "30"}))
    with pytest.raises(TooManyRequests) as caught:
        await cluster.list("Node")
    assert caught.value.retry_after_s == 30
    assert len(api.asked) == 1


@pytest.mark.usefixtures("namespace")
@pytest.mark.parametrize("pages", [True, False])
async def test_a_list_is_whole_with_and_without_pages(api: FakeApi, cluster: Cluster, pages: bool):
    api.pages = pages
    for number in range(1203):
        api.put({"kind": "ConfigMap", "metadata": {"name": f"m{number}", "namespace": "u-x"}})
    found = await cluster.list("ConfigMap")
    assert len({obj["metadata"]["name"] for obj in found}) == 1203
    assert found[0]["kind"] == "ConfigMap"
    assert len(api.asked) == (3 if pages else 1)


@pytest.mark.usefixtures("namespace")
async def test_adopt_repairs_a_lost_reply(api: FakeApi, cluster: Cluster):
    api.trouble.append(Trouble("POST configmaps", "lost"))
    made = await cluster.create_or_adopt(config_map())
    assert made["metadata"]["name"] == "a"
    assert len(api.requests("POST")) == 1


@pytest.mark.usefixtures("namespace")
async def test_adopt_says_when_nothing_was_made(api: FakeApi, cluster: Cluster):
    api.trouble.append(Trouble("POST configmaps", "refuse"))
    with pytest.raises(Unavailable):
        await cluster.create_or_adopt(config_map())
    assert not api.has("ConfigMap", "u-x", "a")


@pytest.mark.usefixtures("namespace")
async def test_adopt_finds_what_fills_a_quota_by_itself(api: FakeApi, cluster: Cluster):
    """Upstream looks at quotas before it looks whether the name is taken."""
    first = await cluster.create_or_adopt(config_map())
    message = "configmaps is forbidden: exceeded quota: homeport"
    body = {"kind": "Status", "reason": "Forbidden", "message": message}
    full = Trouble("POST configmaps", "status", status=403, body=body, times=-1)
    api.trouble.append(full)
    again = await cluster.create_or_adopt(config_map())
    assert again["metadata"]["uid"] == first["metadata"]["uid"]
    api.remove("ConfigMap", "u-x", "a")
    with pytest.raises(QuotaExceeded):
        await cluster.create_or_adopt(config_map())


async def test_writes_are_held_to_a_burst_and_a_rate(
    api: FakeApi, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
):
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    bucket = client_module.TokenBucket(rate_per_s=20, burst=3, clock=lambda: 0.0)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    for _ in range(5):
        await bucket.take()
    assert slept == pytest.approx([0.05, 0.1])


async def test_a_follow_does_not_hold_up_calls(api: FakeApi, cluster: Cluster):
    api.trouble.append(Trouble("watch pods", "stall", times=-1))

    async def hang() -> None:
        params = {"watch": "1", "resourceVersion": "1"}
        async with cluster.stream("/api/v1/pods", params, silence_s=None) as chunks:
            async for _ in chunks:
                pass

    streams = [asyncio.create_task(hang()) for _ in range(120)]
    try:
        deadline = time.monotonic() + 10
        while api.open_watches < 120:
            assert time.monotonic() < deadline, f"only {api.open_watches} streams are open"
            await asyncio.sleep(0.01)
        assert await asyncio.wait_for(cluster.list("Node"), 5) == []
    finally:
        for stream in streams:
            stream.cancel()
        await asyncio.gather(*streams, return_exceptions=True)


async def test_a_missing_kubeconfig_is_a_sentence(tmp_path: Path):
    with pytest.raises(CredentialsError, match="HOMEPORT_KUBECONFIG"):
        await Cluster.connect(str(tmp_path / "none"))


async def test_no_cluster_at_all_is_a_sentence(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(CredentialsError, match="in-cluster"):
        await Cluster.connect("")


async def test_what_nobody_closed_is_closed_at_the_end(api: FakeApi, tmp_path: Path):
    left = await Cluster.connect(api.kubeconfig(tmp_path))
    assert await left.list("Node") == []
    await client_module.close_all()
    with pytest.raises(RuntimeError, match="closed"):
        await left.list("Node")
