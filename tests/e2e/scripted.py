"""Seeded pages without a cluster, and the other end of their websockets, for tests of our scripts."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, Page, WebSocketRoute

from tests.e2e.screens import open_page, seeded_portal, sign_in


@dataclass
class Seeded:
    """A portal without a cluster, and pages of somebody who is signed in there."""

    url: str
    jobs: dict[str, str]
    browser: Browser
    state: Any

    def page(self, *, width: int = 1400) -> Page:
        return open_page(self.browser, self.url, self.state, width=width, is_dark=False)


@contextmanager
def seeded_pages(browser: Browser) -> Iterator[Seeded]:
    """A portal with seeded rows; pages of it are ada's."""
    with seeded_portal() as (url, jobs):
        yield Seeded(url, jobs, browser, sign_in(browser, url, "ada"))


@dataclass
class Server:
    """The other end of a websocket: what connected, what it said, and what is sent to the latest."""

    sockets: list[WebSocketRoute] = field(default_factory=list)
    heard: list[str] = field(default_factory=list)

    def take(self, socket: WebSocketRoute) -> None:
        self.sockets.append(socket)
        socket.on_message(lambda message: self.heard.append(str(message)))

    def send(self, **frame: Any) -> None:
        self.sockets[-1].send(json.dumps(frame))

    def lines(
        self, replica: str, *texts: str, cursor: str = "c", time: str = "2026-11-20T10:02:03.5Z"
    ) -> None:
        """Without a time as the archive has them."""
        shown = [{"t": time, "text": text} for text in texts]
        self.send(type="lines", replica=replica, cursor=cursor, lines=shown)
