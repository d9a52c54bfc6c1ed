"""The pre-flight of the network where there is one network for all: it says so."""

from __future__ import annotations

import dataclasses

import pytest

from jobs.engine import network
from onebox.testing import OneBox
from portal.cluster.client import Cluster


async def test_namespaces_are_not_apart(box: OneBox, monkeypatch: pytest.MonkeyPatch) -> None:
    pods = dataclasses.replace(network.pod_settings(), portal_image="python:3.11-slim")
    monkeypatch.setattr(network, "pod_settings", lambda: pods)
    client = await Cluster.connect(str(box.kubeconfig))
    try:
        found = await network.look(client)
    finally:
        await client.close()
    first, second = network.namespaces()
    assert (found.state, found.detail) == ("no", f"a pod of {second} reached one of {first}")
