"""A websocket of somebody: who it is, whether it may be open, and for how long.

All of our websockets inherit from `UserSocket`. A refusal for want of a person or of a right is a
close code after the handshake, because browsers are told nothing about a refused handshake: 4401
not signed in, 4404 not there (or not yours), 1013 too many, 1009 too large a frame. Only a wrong
Origin ends the handshake itself.
"""

import asyncio
import contextlib
import logging
import random
from collections import Counter
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from uuid import UUID

from channels.db import database_sync_to_async
from channels.generic.websocket import AsyncWebsocketConsumer
from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest, parse_cookie

from portal import metrics, supervise
from portal.gathered import Gathered
from portal.log_lines import note
from portal.process import process
from portal.web.origins import may_connect
from tenants.actions import find_tokens, token_of
from tenants.models import User

log = logging.getLogger(__name__)

RESTARTING = 1012
NOT_SIGNED_IN = 4401
NOT_FOUND = 4404
TRY_LATER = 1013
_ABNORMAL = 1006
TOO_LARGE = 1009
MAX_FRAME_BYTES = 4096
MAX_PER_USER = 10
MAX_SOCKETS = 500
LOOK_AGAIN_S = 30.0  # a session that ended, a right that was taken
_GATHERED = 1 / 6  # of it: those who look within that time look together
MAX_LIFE_S = 8 * 3600.0
ABORT_S = 20.0  # for a peer that does not read to take the close frame

_open: Counter[UUID] = Counter()


@dataclass(frozen=True)
class Badge:
    """What a handshake shows of its person: a token, or the key of a session."""

    token: str = ""
    session_key: str = ""


def badge_of(scope: MutableMapping[str, Any]) -> Badge:
    """The badge of a handshake; a token in a header counts more than a cookie."""
    headers = dict(scope["headers"])
    token = token_of(headers.get(b"authorization", b"").decode("latin-1"))
    if token is not None:
        return Badge(token=token)
    cookies = parse_cookie(headers.get(b"cookie", b"").decode("latin-1"))
    return Badge(session_key=cookies.get(settings.SESSION_COOKIE_NAME, ""))


async def find_sender(scope: MutableMapping[str, Any]) -> UUID | None:
    """Who sends a request of HTTP, as those who answer it will see it: tokens are for REST."""
    badge = badge_of(scope)
    if badge.token and not scope["path"].startswith("/api/"):
        badge = badge_of({"headers": [row for row in scope["headers"] if row[0] == b"cookie"]})
    person = await find_person(badge)
    return None if person is None else person.pk


async def find_person(badge: Badge) -> User | None:
    """Whose badge it is, if it is good at this moment."""
    found: dict[Badge, User | None] = await database_sync_to_async(_find_people)([badge])
    return found[badge]


def _find_people(badges: Sequence[Badge]) -> dict[Badge, User | None]:
    tokens = find_tokens([badge.token for badge in badges if badge.token])
    found: dict[Badge, User | None] = {}
    for badge in badges:
        if badge.token:
            token = tokens.get(badge.token)
            found[badge] = None if token is None else token.user
        else:
            found[badge] = _of_session(badge.session_key)
    return found


# Those who look at the same time ask together: of each, it cost more than the lines of its log.
_find_again = Gathered(_find_people)


def _of_session(key: str) -> User | None:
    if not key:
        return None
    # As the middleware does it: checks the password's hash and that the account is active.
    request = HttpRequest()
    engine = import_module(settings.SESSION_ENGINE)
    request.session = engine.SessionStore(key)
    user = get_user(request)
    return user if isinstance(user, User) else None


class UserSocket(AsyncWebsocketConsumer):  # type: ignore[misc]
    """A websocket that is open for as long as its person may have it open."""

    user: User
    kind = "none"  # as metrics call it
    is_closed = False
    _is_counted = False
    _guard: asyncio.Task[None] | None = None
    _leaving: asyncio.Task[None] | None = None

    # --- what inheritors say ---
    async def before_accept(self) -> None:
        """The person is known, and the browser does not know yet that the connection is open: what it reads then is
        newer than all that is not heard."""

    async def on_open(self) -> None:
        """The browser knows: begin. May close with a code."""

    async def on_close(self) -> None:
        """The connection is over: stop what was begun. Called once for each `before_accept`."""

    async def still_allowed(self) -> int | None:
        """Called every `LOOK_AGAIN_S`; a close code when the right is gone."""
        return None

    # --- the life of a connection ---
    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self.disconnect(_ABNORMAL)  # what an error ends is told nothing of it

    async def connect(self) -> None:
        badge = badge_of(self.scope)
        if not may_connect(self.scope["headers"], has_token=bool(badge.token)):
            await self.close()  # before the handshake is accepted: 403
            return
        person = await find_person(badge)
        if person is None:
            await self.accept()
            await self.close(NOT_SIGNED_IN)
        elif _open[person.pk] >= MAX_PER_USER or _open.total() >= MAX_SOCKETS:
            await self.accept()
            await self.close(TRY_LATER)
        else:
            self.user = person
            note(user_id=str(person.pk))
            _open[person.pk] += 1
            self._is_counted = True
            metrics.WEBSOCKETS.labels(self.kind).inc()
            await self._or_later(self._begin(badge))

    async def _begin(self, badge: Badge) -> None:
        try:
            await self.before_accept()
        except Exception:
            await self.accept()  # browsers are told nothing of a refused handshake
            raise
        with contextlib.suppress(OSError):  # gone already, which `disconnect` is told
            await self.accept()
        process.websockets.add(self._send_away)
        self._guard = asyncio.create_task(self._or_later(self._watch(badge)))
        await self.on_open()

    async def close(self, code: int | None = None, reason: str | None = None) -> None:
        """Harmless when it was closed before."""
        if not self.is_closed:
            self.is_closed = True
            with contextlib.suppress(OSError):  # gone already
                await super().close(code, reason)

    async def disconnect(self, code: int) -> None:
        """Harmless the second time."""
        self.is_closed = True
        if self._guard is not None:
            self._guard.cancel()
        if self._is_counted:
            self._is_counted = False
            process.websockets.discard(self._send_away)
            metrics.WEBSOCKETS.labels(self.kind).dec()
            _open[self.user.pk] -= 1
            if not _open[self.user.pk]:
                del _open[self.user.pk]
            await self.on_close()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Nothing is expected from browsers; what is absurd ends the connection."""
        size = len(text_data.encode()) if text_data is not None else len(bytes_data or b"")
        if size > MAX_FRAME_BYTES:
            await self.close(TOO_LARGE)

    async def _or_later(self, work: Awaitable[None]) -> None:
        """The fence of one connection: where it fails, the browser comes again."""
        try:
            await work
        except Exception:
            log.exception("a websocket of %s failed", self.user.pk)
            await self.close(TRY_LATER)

    def _send_away(self) -> None:
        """This process ends: the browser comes again, and to another one. Who does not read is not waited for."""
        self._leaving = asyncio.create_task(self.close(RESTARTING))

    async def _watch(self, badge: Badge) -> None:
        """Ends the connection when the person, the right or the time is gone."""
        loop = asyncio.get_running_loop()
        until = loop.time() + MAX_LIFE_S
        gather_s = LOOK_AGAIN_S * _GATHERED
        # Those that came together, after a restart, say, are not all looked at together.
        pause_s = LOOK_AGAIN_S * random.uniform(0.5, 1 - _GATHERED)
        while True:
            await asyncio.sleep(pause_s)
            pause_s = LOOK_AGAIN_S - gather_s
            person = await _find_again(badge, gather_s)
            if person is None or person.pk != self.user.pk:
                await self.close(NOT_SIGNED_IN)
                return
            self.user = person
            code = await self.still_allowed()
            if code is None and loop.time() > until:
                code = TRY_LATER
            if code is not None:
                await self.close(code)
                return

    async def give_up(self) -> None:
        """Ends a connection whose other side does not read: it gets the close frame if it reads
        again soon, and no more of our memory if it does not."""
        server = _server_of(self.base_send)
        if server is not None:
            asyncio.get_running_loop().call_later(ABORT_S, server.transport.abort)
            # uvicorn holds back every message, the last one too, while its buffer is full.
            server.resume_writing()
        # Its keepalive may have sent a close frame before us, which cannot get out either; and
        # another server may hold the message back as well, and has to help itself.
        with contextlib.suppress(RuntimeError, TimeoutError):
            async with asyncio.timeout(ABORT_S):
                await self.close(TRY_LATER)


def _server_of(send: Any) -> Any:
    """uvicorn's protocol object behind an ASGI `send`, below what middleware put around it."""
    for _ in range(8):
        owner = getattr(send, "__self__", None)
        if hasattr(owner, "transport") and hasattr(owner, "resume_writing"):
            return owner
        send = getattr(owner, "real_send", None)  # channels.sessions
    return None


class NoSuchSocket(UserSocket):
    """What is at every other address: nothing, and a page hears that by a close code."""

    async def on_open(self) -> None:
        await self.close(NOT_FOUND)


async def run_until_first_ends(*works: Callable[[], Awaitable[None]]) -> None:
    """Runs all of them, and cancels the others when one ends.

    Raises:
        Whatever the first one to end raised.
    """
    tasks = [asyncio.ensure_future(work()) for work in works]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await supervise.end(tasks)
    for task in done:
        task.result()
