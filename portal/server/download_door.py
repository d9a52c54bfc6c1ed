"""The door for downloads: an ASGI layer that refuses a person's flood of them before it costs a thread.

Requests at addresses whose answers are streamed are counted by the badge that they show (a session's
cookie, a token), which nobody has to look up. Who has as many as a person may have waits for a moment, for
a download that was cut is asked for again at once; then it is 429. What one person has by several badges is
counted where the answer begins (portal/web/downloads.py).
"""

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable

from django.urls import get_resolver
from django.utils.translation import gettext_lazy as _

from portal.asgi_answer import App, Message, Receive, Send
from portal.web import downloads
from portal.web.refusals import Refusal, send_refusal

WAIT_S = 5.0  # the end of one that was cut has a thread's turn to wait for
MAX_WAITING = 4  # of one badge
_TOO_MANY = Refusal(
    429,
    downloads.CODE,
    _("Too many downloads"),
    downloads.TOO_MANY_OF_ONE,
    downloads.RETRY_S,
)

FindBadge = Callable[[Message], Hashable]


class DownloadDoor:
    """Passes on at most `MAX_PER_PERSON` of each badge at once.

    Args:
        routes: names of those whose answers are streamed.
        find_badge: what a request shows; falsy: nothing, and it is answered without a download.
    """

    def __init__(self, app: App, routes: Iterable[str], find_badge: FindBadge) -> None:
        self._app = app
        self._find_badge = find_badge
        self._paths = [re.compile(f"/{path}") for name in routes for path in _paths_of(name)]
        self._under_way: Counter[Hashable] = Counter()
        self._waiting: dict[Hashable, list[asyncio.Future[None]]] = {}

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        badge = None
        if scope["method"] in {"GET", "HEAD"} and self._is_download(scope["path"]):
            badge = self._find_badge(scope)
        if not badge:
            await self._app(scope, receive, send)
            return
        if self._is_full(badge) and not await self._may_go_on(badge):
            await send_refusal(scope, send, _TOO_MANY)
            return
        self._under_way[badge] += 1
        held: list[Callable[[], None]] = []
        try:
            await self._app({**scope, downloads.HOLD: held.append}, receive, send)
        finally:
            # However the answer ended: Django closes none that was broken off by an error or a cancelled view.
            for give_back in held:
                give_back()
            self._under_way -= Counter((badge,))
            for waiting in self._waiting.get(badge, ()):
                if not waiting.done():
                    waiting.set_result(None)
                    break

    def _is_download(self, path: str) -> bool:
        return any(pattern.match(path) for pattern in self._paths)

    def _is_full(self, badge: Hashable) -> bool:
        return self._under_way[badge] >= downloads.MAX_PER_PERSON

    async def _may_go_on(self, badge: Hashable) -> bool:
        """Whether a place became free within a moment."""
        others = self._waiting.setdefault(badge, [])
        if len(others) >= MAX_WAITING:
            return False
        free: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        others.append(free)
        try:
            async with asyncio.timeout(WAIT_S):
                await free
        except TimeoutError:
            pass
        finally:
            others.remove(free)
            if not others:
                self._waiting.pop(badge, None)
        return not self._is_full(badge)


def _paths_of(name: str) -> list[str]:
    """Patterns of a route, without the slash that they begin with."""
    found = get_resolver().reverse_dict.getlist(name)
    assert found, f"there is no route {name}"
    return [pattern for _possibilities, pattern, _defaults, _converters in found]
