"""What is asked of the gate, and who answers it: a probe, the gate itself, or the app."""

import logging
from dataclasses import dataclass, field

from aiohttp import HttpVersion10, HttpVersion11, web

from jobs.pod.gatekeeper import cookies, origin, pages, refusals
from jobs.pod.gatekeeper.access_list import AccessList, OpenConnection
from jobs.pod.gatekeeper.config import Config
from jobs.pod.gatekeeper.connections import owing
from jobs.pod.gatekeeper.forward import App
from jobs.pod.gatekeeper.refusals import GateRefusal
from jobs.pod.gatekeeper.tickets import Signer, is_cookie_fresh
from jobs.pod.gatekeeper.tunnel import Tunnel
from jobs.pod.protocol import tickets
from jobs.pod.protocol.tickets import Claims

log = logging.getLogger("gate")

LIVE, READY = "/__gate/live", "/__gate/ready"
MAX_COOKIES = 8  # of our name; a page of the app could add some


@dataclass
class Gate:
    """Answers every request that reaches the port."""

    config: Config
    app: App
    access: AccessList
    signer: Signer
    is_ending: bool = False
    _used: dict[str, float] = field(default_factory=dict)  # tickets: identity -> end, portal's time

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """The handler of the server."""
        try:
            return await self._answer(request)
        except GateRefusal as refusal:
            return pages.refused(refusal, request.headers)
        except ConnectionError:
            raise  # the browser went away
        except Exception:
            log.exception("%s %s", request.method, request.path)
            return pages.refused(refusals.failed(), request.headers)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        target = request.raw_path
        path = target.partition("?")[0]
        if path == LIVE:
            return pages.word("ok")
        if path == READY:
            is_ready = not self.is_ending and await self.app.is_ready()
            return pages.word("ready" if is_ready else "not ready", status=200 if is_ready else 503)
        _check_form(request, target)
        if path + "/" == self.config.prefix and request.method in {"GET", "HEAD"}:
            return web.Response(status=308, headers={"Location": self.config.prefix})
        if not path.startswith(self.config.prefix):
            raise refusals.nothing_here(self.config.word)
        own = path.removeprefix(self.config.prefix)
        if own == "__gate" and request.method in {"GET", "HEAD"}:
            return pages.opening(self.config.word)
        if own == "__gate/login" and request.method == "POST":
            return await self._let_in(request)
        if own == "__gate" or own.startswith("__gate/"):
            raise refusals.nothing_here(self.config.word)
        return await self._pass(request, await self._person(request))

    async def _let_in(self, request: web.BaseRequest) -> web.Response:
        """A ticket for a cookie."""
        host = request.headers["Host"]
        if not origin.is_own_origin(
            request.headers.getall("Origin", []), scheme=self.config.scheme, host=host
        ):
            raise refusals.foreign()
        try:
            with owing(request):
                text = await _read(request, tickets.MAX_CHARS)
            ticket = await self._take_ticket(text)
        except GateRefusal as refusal:
            log.info("a ticket was refused: %s", refusal.code)
            return pages.said(refusal)
        now = self.access.clock.now()
        log.info("person %s came in", ticket.subject)
        response = pages.answer({"next": self.config.prefix})
        response.set_cookie(
            self.config.cookie_name,
            self.signer.write_cookie(ticket.subject, now),
            max_age=int(tickets.COOKIE_S),
            path=self.config.prefix,
            httponly=True,
            samesite="Lax",
            secure=self.config.tls is not None,
        )
        return response

    async def _take_ticket(self, text: str) -> Claims:
        """A ticket that nobody used before and that the portal still stands by.

        Raises:
            GateRefusal: it is not, or the portal does not answer, or knows this service no more.
        """
        ticket = self.signer.read_ticket(text)
        self._check_unused(ticket)
        # First, since the answer sets the clock that the ticket is measured by.
        await self.access.welcome(ticket.subject)
        clock = self.access.clock
        self.signer.check_times(ticket, now=clock.now(), began_at=clock.began_at())
        self._check_unused(ticket)  # again: somebody else may have waited with us
        self._used = {k: end for k, end in self._used.items() if end > clock.now()}
        self._used[ticket.identity] = ticket.expires_at + tickets.TICKET_S
        return ticket

    def _check_unused(self, ticket: Claims) -> None:
        if ticket.identity in self._used:
            raise self.signer.used()

    async def _person(self, request: web.BaseRequest) -> Claims:
        """Who asks, by the cookie.

        Raises:
            GateRefusal: nobody who may.
        """
        found = [
            value
            for name, value in cookies.parse(request.headers.getall("Cookie", []))
            if name == self.config.cookie_name
        ]
        now = self.access.clock.now()
        for value in found[:MAX_COOKIES]:
            try:
                cookie = self.signer.read_cookie(value)
            except GateRefusal:
                continue
            if not is_cookie_fresh(cookie, now=now):
                continue
            await self.access.check(cookie.subject, cookie.issued_at)
            return cookie
        raise refusals.closed(self.config.word)

    async def _pass(self, request: web.BaseRequest, person: Claims) -> web.StreamResponse:
        """To the app, for somebody who may."""
        host = request.headers["Host"]
        origins = request.headers.getall("Origin", [])
        scheme = self.config.scheme
        is_websocket = request.headers.get("Upgrade", "").lower() == "websocket"
        if is_websocket:
            is_allowed = origin.is_own_origin(origins, scheme=scheme, host=host)
        else:
            is_allowed = origin.is_allowed(
                request.method, origins, request.headers, scheme=scheme, host=host
            )
        if not is_allowed:
            raise refusals.foreign()
        if is_websocket:
            return await self._pass_websocket(request, person)
        return await self._pass_request(request, person)

    async def _pass_request(self, request: web.BaseRequest, person: Claims) -> web.StreamResponse:
        with self.access.open(_connection(request, person)):
            return await self.app.forward(request)

    async def _pass_websocket(self, request: web.BaseRequest, person: Claims) -> web.StreamResponse:
        connection = _connection(request, person)
        with self.access.open(connection):
            async with self.app.websocket(request) as (upstream, answered):
                tunnel = Tunnel(request, upstream, answered)
                connection.end = tunnel.end
                return await tunnel.run()


def _connection(request: web.BaseRequest, person: Claims) -> OpenConnection:
    """A request in progress that is cut off when it has to end."""

    def end(_code: int, _reason: str) -> None:
        if request.transport is not None:
            request.transport.abort()

    return OpenConnection(person.subject, person.expires_at, end)


async def _read(request: web.BaseRequest, limit_bytes: int) -> str:
    """The body, or the beginning of one that is too long."""
    data = b""
    while len(data) <= limit_bytes and (more := await request.content.read(limit_bytes)):
        data += more
    return data.decode("ascii", "replace").strip()


def _check_form(request: web.BaseRequest, target: str) -> None:
    """Refuses what no browser sends, before anybody has to make sense of it."""
    is_sane = (
        target.startswith("/")
        and target.isascii()
        and target.isprintable()
        and " " not in target
        and "#" not in target
        and request.method != "CONNECT"
        and request.version in {HttpVersion10, HttpVersion11}
        and len(request.headers.getall("Host", [])) == 1
    )
    if not is_sane or (request.headers.get("Upgrade") and request.can_read_body):
        raise refusals.malformed()
