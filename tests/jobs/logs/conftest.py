"""What tests of logs start with: a served portal."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from channels.layers import get_channel_layer

from jobs.logs import consumers, hub, tail
from portal.storage.folder import FolderStore
from tenants import sockets
from tests.jobs.logs.fakes import FakeCluster
from tests.jobs.logs.served import ROUTES, World
from tests.portal.servers import serving


@pytest.fixture
async def world(
    transactional_db: None, settings: Any, store: FolderStore, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[World]:
    monkeypatch.setattr(tail, "RETRY_FIRST_S", 0.005)
    monkeypatch.setattr(hub, "LINGER_S", 0.05)
    monkeypatch.setattr(consumers, "DEBOUNCE_S", 0.01)
    cluster = FakeCluster()
    made = hub.Hub(cluster)
    hub.set_hub(made)
    # A server that stops cuts off what its websockets still had to do, such as to leave their groups.
    await get_channel_layer().flush()
    async with serving(ROUTES) as port:
        settings.WEBSOCKET_ORIGINS = [f"http://localhost:{port}"]
        yield World(port, cluster)
    await made.close()
    hub.set_hub(None)
    assert not sockets._open
