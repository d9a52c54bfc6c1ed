"""The HTTP server: who may ask, where a request goes, and how a refusal comes back."""

from __future__ import annotations

import asyncio
import hmac
import logging
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from onebox.api import discovery, openapi, openapi_v2
from onebox.api.http.body import MAX_BODY_BYTES
from onebox.api.http.logs import LogProxy
from onebox.api.http.options import flag
from onebox.api.http.reply import accepted_parameter, failure, json_reply, raw_reply
from onebox.api.http.target import Target, find_target, serves_group, split_path
from onebox.api.http.verbs import USER, Verbs
from onebox.api.http.watch import read_request, stream
from onebox.api.registry import Api
from onebox.api.resources import Obj
from onebox.api.status import StatusError, internal, no_such_path, unauthorized

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
# As upstream shows them to everybody: they tell nothing about anybody.
_OPEN_PATHS = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_HEALTH = frozenset({"healthz", "livez", "readyz"})
SHUTDOWN_S = 0.2
"""Requests take milliseconds; whoever is still here is a watch or a log, which only wait."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask.

    Attributes:
        tokens: bearer token -> name of the user.
    """

    tokens: Mapping[str, str]

    def user_of(self, request: web.Request) -> str | None:
        """Give the user whose token a request carries, or None."""
        scheme, _space, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        given = token.strip().encode()
        user = None
        # All are compared, in constant time each: the time must not tell how much was right.
        for known, name in self.tokens.items():
            if hmac.compare_digest(known.encode(), given):
                user = name
        return user


class Server:
    """Serves an Api over TLS on loopback."""

    def __init__(self, api: Api, access: Access, *, node_token_file: Path | None = None) -> None:
        self._api = api
        self._access = access
        self._verbs = Verbs(api)
        self._logs = LogProxy(api, node_token_file)
        self._runner: web.AppRunner | None = None
        self._address = ""

    def application(self) -> web.Application:
        """Make the aiohttp application."""
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[self._fence])
        app.router.add_route("*", "/{path:.*}", self._route)
        return app

    async def start(self, port: int, tls: ssl.SSLContext | None) -> int:
        """Begin to listen; gives the port.

        Raises:
            OSError: the port is taken.
        """
        self._runner = web.AppRunner(
            self.application(),
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=SHUTDOWN_S,
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, HOST, port, ssl_context=tls, backlog=1024)
        await site.start()
        bound = self._runner.addresses[0][1]
        self._address = f"{HOST}:{bound}"
        return int(bound)

    async def stop(self) -> None:
        """Stop listening and end all streams."""
        if self._runner is not None:
            await self._runner.cleanup()
        await self._logs.close()

    @web.middleware
    async def _fence(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        try:
            if request.path not in _OPEN_PATHS:
                user = self._access.user_of(request)
                if user is None:
                    raise unauthorized()
                request[USER] = user
            return await handler(request)
        except StatusError as error:
            return failure(error)
        except (asyncio.CancelledError, ConnectionError, web.HTTPException):
            raise
        except Exception as error:  # The one fence: a bug answers 500 and is logged.
            log.exception("%s %s failed", request.method, request.path)
            return failure(internal(f"{type(error).__name__}: see the log of onebox's API"))

    async def _route(self, request: web.Request) -> web.StreamResponse:
        segments = split_path(request.rel_url.raw_path)
        target = find_target(segments)
        if target is not None:
            return await self._serve(request, target)
        is_read = request.method in ("GET", "HEAD")
        reply = self._document(request, segments) if is_read else None
        if reply is not None:
            return reply
        if serves_group(segments):
            raise no_such_path()
        return web.Response(text="404 page not found\n", status=404)

    async def _serve(self, request: web.Request, target: Target) -> web.StreamResponse:
        verbs = self._verbs
        kind = (request.method, bool(target.name))
        if target.subresource:
            return await self._serve_subresource(request, target)
        if target.resource.is_review:
            if kind != ("POST", False):
                raise _not_allowed()
            return await verbs.review(request, target)
        match kind:
            case ("GET", False):
                if flag(request.query, "watch"):
                    form = verbs.form(request)
                    watch = read_request(target, request.query, form)
                    return await stream(self._api, watch, request)
                return verbs.list(request, target)
            case ("GET", True):
                return verbs.get(request, target)
            case ("POST", False):
                return await verbs.create(request, target)
            case ("PUT", True):
                return await verbs.update(request, target)
            case ("PATCH", True):
                return await verbs.patch(request, target)
            case ("DELETE", True):
                return await verbs.delete(request, target)
            case ("DELETE", False) if "deletecollection" in target.resource.verbs:
                return await verbs.delete_collection(request, target)
        raise _not_allowed()

    async def _serve_subresource(self, request: web.Request, target: Target) -> web.StreamResponse:
        verbs = self._verbs
        match (request.method, target.subresource):
            case ("GET", "log"):
                return await self._logs.serve(request, target)
            case ("POST", "binding"):
                return await verbs.create(request, target)
            case ("GET", "status" | "scale"):
                return verbs.get(request, target)
            case ("PUT", "status" | "scale" | "finalize"):
                return await verbs.update(request, target)
            case ("PATCH", "status" | "scale"):
                return await verbs.patch(request, target)
        raise _not_allowed()

    def _document(self, request: web.Request, segments: list[str]) -> web.Response | None:
        """Serve what is not an object: discovery, version, health, OpenAPI."""
        accept = request.headers.get("Accept", "")
        match segments:
            case [word] if word in _HEALTH:
                return web.Response(text="ok")
            case ["version"]:
                return json_reply(discovery.version_info())
            case ["api" | "apis" as root]:
                return self._root_document(root, accept)
            case ["api", version]:
                return _optional(discovery.resource_list("", version))
            case ["apis", group]:
                return _optional(discovery.api_group(group))
            case ["apis", group, version]:
                return _optional(discovery.resource_list(group, version))
            case ["openapi", "v2"]:
                return _openapi_v2(accept)
            case ["openapi", "v3"]:
                return raw_reply(openapi.index())
            case ["openapi", "v3", "api", version]:
                return _optional_raw(openapi.document("", version))
            case ["openapi", "v3", "apis", group, version]:
                return _optional_raw(openapi.document(group, version))
            case [""]:
                return json_reply({"paths": ["/api", "/apis", "/healthz", "/openapi", "/version"]})
        return None

    def _root_document(self, root: str, accept: str) -> web.Response:
        version = accepted_parameter(accept, "apidiscovery.k8s.io")
        if version in ("v2", "v2beta1"):
            response = json_reply(discovery.aggregated(version, core=root == "api"))
            response.headers["Content-Type"] = (
                f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
            )
            return response
        if root == "api":
            return json_reply(discovery.api_versions(self._address))
        return json_reply(discovery.api_groups())


def _not_allowed() -> StatusError:
    text = "the server does not allow this method on the requested resource"
    return StatusError(405, "MethodNotAllowed", text, {})


def _optional(body: Obj | None) -> web.Response | None:
    return None if body is None else json_reply(body)


def _optional_raw(body: bytes | None) -> web.Response | None:
    return None if body is None else raw_reply(body)


def _openapi_v2(accept: str) -> web.Response:
    # Old clients ask for protobuf with "@" in the type, which Go cannot parse in a reply.
    if "protobuf" in accept:
        response = web.Response(body=openapi_v2.document_protobuf())
        response.headers["Content-Type"] = openapi_v2.MEDIA_TYPE
        return response
    return raw_reply(openapi_v2.document())
