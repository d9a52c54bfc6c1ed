"""The `serve` command around an application whose answers never end, for tests of stopping.

`python -m tests.portal.endless_portal [serve's arguments]`. The reconciler writes what happens to
it into the file REPORT; with DIES=1 it dies at its first start.
"""

import asyncio
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

REPORT = Path(os.environ["REPORT"])


def report(line: str) -> None:
    with REPORT.open("a") as file:
        file.write(line + "\n")


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """GET / answers; GET /endless and every websocket go on for ever."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.accept"})
        await asyncio.Event().wait()
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    while scope["path"] == "/endless":
        await send({"type": "http.response.body", "body": b"x" * 100, "more_body": True})
        await asyncio.sleep(0.05)
    await send({"type": "http.response.body", "body": b"here"})


class Reconciler:
    """Says what happens to it, and takes a moment to put its work down."""

    lives = 0

    async def run(self, stop: asyncio.Event) -> None:
        type(self).lives += 1
        report(f"start {self.lives}")
        if os.environ.get("DIES") == "1" and self.lives == 1:
            raise RuntimeError("the first life was short")
        await stop.wait()
        await asyncio.sleep(0.2)
        report("put down")


def main() -> None:
    asgi, loop = ModuleType("portal.asgi"), ModuleType("jobs.engine.loop")
    vars(asgi)["application"] = application
    vars(loop)["Reconciler"] = Reconciler
    sys.modules["portal.asgi"] = asgi
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    import django

    django.setup()
    sys.modules["jobs.engine.loop"] = loop
    from portal.database import schema

    schema.problem = lambda: ""  # nothing here needs a database
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", "serve", *sys.argv[1:]])


if __name__ == "__main__":
    main()
