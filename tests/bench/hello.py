"""The least that can answer: bare ASGI, and a Django view below the portal's own middleware.

`python -m tests.bench.hello PORT` serves `application` as the portal is served. As ROOT_URLCONF
(`tests.bench.hello_settings`) this module gives the portal one address more, `/hello/`.
"""

import asyncio
import sys
from typing import Any

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


def _urlpatterns() -> list[Any]:
    from portal import urls

    return [path("hello/", hello), *urls.urlpatterns]


def __getattr__(name: str) -> Any:
    # Django asks for it once its applications are loaded; the bare server never does.
    if name == "urlpatterns":
        return _urlpatterns()
    raise AttributeError(name)


async def serve(port: int) -> None:
    import uvicorn

    config = uvicorn.Config(
        application, port=port, lifespan="off", access_log=False, log_level="warning"
    )
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
