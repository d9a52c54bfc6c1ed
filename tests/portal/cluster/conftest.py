"""A fake API server and a client of it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from portal.cluster.client import Cluster
from tests.portal.cluster.fake_api import FakeApi


@pytest.fixture
async def api() -> AsyncIterator[FakeApi]:
    server = FakeApi()
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def cluster(api: FakeApi, tmp_path: Path) -> AsyncIterator[Cluster]:
    client = await Cluster.connect(api.kubeconfig(tmp_path))
    yield client
    await client.close()
