"""A real uvicorn server in this process, on a port of its own, for tests that need real sockets."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn


@asynccontextmanager
async def serving(app: Any, **options: Any) -> AsyncIterator[int]:
    """Serves an ASGI application while the block runs; gives the port."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    config = uvicorn.Config(
        app,
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,  # of this process, which other tests read the log of
        timeout_graceful_shutdown=1,
        **options,
    )
    server = uvicorn.Server(config)
    server.capture_signals = _no_signals  # type: ignore[method-assign]
    task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        while not server.started:
            assert not task.done(), task
            await asyncio.sleep(0.005)
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        await task
        listener.close()


class _no_signals:  # noqa: N801 (stands in for a method)
    """The test run keeps its own signal handlers."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass
