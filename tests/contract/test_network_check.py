"""The pre-flight of the network, with real pods: namespaces are apart, and what is in the way is told."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from jobs.engine import network
from portal.cluster.client import Cluster as Client
from tests.contract.clusters import Cluster
from tests.contract.kube import Kube

pytestmark = [pytest.mark.needs_pods, pytest.mark.asyncio]


@pytest.fixture
def image(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Chooses the image of its pods; at first one that is there without being built."""

    def choose(name: str) -> None:
        pods = dataclasses.replace(settings(), portal_image=name)
        monkeypatch.setattr(network, "pod_settings", lambda: pods)

    settings = network.pod_settings
    choose("python:3.11-slim")
    return choose


async def look(cluster: Cluster) -> tuple[str, str]:
    client = await Client.connect(str(cluster.kubeconfig))
    try:
        found = await network.NetworkCheck(client).look()
    finally:
        await client.close()
    return found.state, found.detail


def pods_left(kube: Kube) -> list[str]:
    return [
        pod["metadata"]["name"]
        for namespace in network.namespaces()
        for pod in kube.must("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]
    ]


async def test_namespaces_are_apart(cluster: Cluster, image: Any) -> None:
    """Twice: what the first try left is no hindrance."""
    for _ in range(2):
        assert await look(cluster) == ("yes", "")
    assert pods_left(cluster.kube) == []


async def test_an_image_that_cannot_be_pulled_makes_it_unknown(
    cluster: Cluster, image: Any
) -> None:
    image("registry.invalid/no-such-image:1")
    state, detail = await look(cluster)
    assert state == "unknown"
    assert detail.startswith("the image registry.invalid/no-such-image:1 cannot be pulled: ")
    assert pods_left(cluster.kube) == []
