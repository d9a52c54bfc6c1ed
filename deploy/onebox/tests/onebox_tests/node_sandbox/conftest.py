"""Fixtures of the sandbox's tests: all of them run real pods on this machine.

The tests of a module share one sandbox (and therefore one event loop); what a test leaves in it is
removed before the next.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from onebox.node.sandbox import Pod, Sandbox

from .bench import IS_ROOT, Bench

as_root = pytest.mark.skipif(not IS_ROOT, reason="what only root can do")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    shared_loop = pytest.mark.asyncio(loop_scope="module")
    for item in items:
        if Path(__file__).parent in item.path.parents and pytest_asyncio.is_async_test(item):
            item.add_marker(shared_loop, append=False)


async def make_bench() -> Bench:
    home = Path(tempfile.mkdtemp(prefix="onebox-test-"))
    return Bench(await Sandbox.start(home), home)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared_bench() -> AsyncIterator[Bench]:
    made = await make_bench()
    yield made
    await made.close()


@pytest_asyncio.fixture(loop_scope="module")
async def bench(shared_bench: Bench) -> AsyncIterator[Bench]:
    yield shared_bench
    await shared_bench.clear()


@pytest_asyncio.fixture(loop_scope="module")
async def pod(bench: Bench) -> Pod:
    return await bench.pod("alpha")


@pytest_asyncio.fixture(loop_scope="module")
async def own_bench() -> AsyncIterator[Bench]:
    """A sandbox for one test alone."""
    made = await make_bench()
    yield made
    await made.close()


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> Iterator[Path]:
    """The installer's cache of the tests that use it: pip is unpacked and compiled once."""
    folder = tmp_path_factory.mktemp("installer") / "uv-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UV_CACHE_DIR", str(folder))
        yield folder


@pytest.fixture
def home(tmp_path, monkeypatch) -> Path:
    """A node's home whose installer asks no package index."""
    for name in ("UV_NO_INDEX", "PIP_NO_INDEX"):
        monkeypatch.setenv(name, "1")
    (tmp_path / "home" / "images").mkdir(parents=True)
    return tmp_path / "home"
