"""A running gate with its app and portal for each test, and the cookie of somebody inside."""

from collections.abc import AsyncIterator

import pytest

from tests.jobs.pod.gate.world import World, world


@pytest.fixture
async def w(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    async with world(**getattr(request, "param", {})) as made:
        yield made


@pytest.fixture
async def cookie(w: World) -> str:
    return await w.cookie()
