"""Finds every address that the portal answers, HTTP and websocket, so that no test can forget one."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.urls import URLPattern, URLResolver, get_resolver

from portal.asgi import router


@dataclass(frozen=True)
class Route:
    """Attributes:
    name: of the URL pattern; empty for those that have none.
    path: with its converters, such as `jobs/<uuid:pk>/`.
    """

    name: str
    path: str
    converters: dict[str, Any]
    view: Any

    @property
    def key(self) -> str:
        """Its line in the table: the name, or the path where there is none."""
        return self.name or self.path


def walk(
    patterns: list[Any], prefix: str = "", found: dict[str, Any] | None = None
) -> Iterator[Route]:
    """The routes of URL patterns, those of included ones too."""
    for pattern in patterns:
        path = prefix + str(pattern.pattern)
        converters = {**(found or {}), **pattern.pattern.converters}
        if isinstance(pattern, URLResolver):
            yield from walk(pattern.url_patterns, path, converters)
        elif isinstance(pattern, URLPattern):
            yield Route(pattern.name or "", path, converters, pattern.callback)


def routes() -> Iterator[Route]:
    """Every route of HTTP."""
    yield from walk(get_resolver().url_patterns)


def sockets() -> Iterator[Route]:
    """Every route of the application that serves websockets."""
    yield from walk(router.application_mapping["websocket"].routes)
