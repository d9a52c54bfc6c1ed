"""The least that can answer: bare ASGI, and a Django view below middleware, as Django runs it under ASGI.

`python -m tests.bench.hello PORT` serves `application`. `python -m tests.bench.hello PORT django` serves
Django with `tests.bench.hello_settings`, without anything of ours in front of it.
"""

import asyncio
import sys
from typing import Any

from django.core.asgi import get_asgi_application
from django.http import HttpRequest, HttpResponse
from django.urls import path

_HEAD = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/plain"), (b"content-length", b"6")],
}
_BODY = {"type": "http.response.body", "body": b"hello\n"}


async def application(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Answers everything with six bytes."""
    await send(_HEAD)
    await send(_BODY)


def hello(request: HttpRequest) -> HttpResponse:
    return HttpResponse("hello\n", content_type="text/plain")


urlpatterns = [path("hello/", hello)]


async def serve(port: int, what: Any) -> None:
    import uvicorn

    config = uvicorn.Config(what, port=port, lifespan="off", access_log=False, log_level="warning")
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    of_django = sys.argv[2:] == ["django"]
    asyncio.run(serve(int(sys.argv[1]), get_asgi_application() if of_django else application))
