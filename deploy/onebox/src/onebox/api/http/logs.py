"""Logs of pods, passed on from the node's log server as they come.

Whether a container has started is for the node to say, which knows it first; its refusals are
passed on as Status objects.

https://github.com/kubernetes/kubernetes/blob/v1.36.3/pkg/registry/core/pod/strategy.go
(LogLocation) has the sentences.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from urllib.parse import quote as quote_path
from urllib.parse import urlencode

import aiohttp
from aiohttp import web

from onebox.api.http.options import flag, number
from onebox.api.http.target import Target
from onebox.api.registry import Api
from onebox.api.resources import Obj, Resource
from onebox.api.rules import fields
from onebox.api.status import Cause, StatusError, bad_request, internal, invalid
from onebox.api.timestamps import parse_time

log = logging.getLogger(__name__)

_LOOPBACK = ("127.0.0.1", "::1", "localhost")
_CONNECT_S = 10.0
_CHUNK_BYTES = 64 * 1024
_PASSED_ON = ("follow", "timestamps", "previous")
_NUMBERS = ("tailLines", "sinceSeconds", "limitBytes")
_OPTIONS = Resource("", "v1", "podlogoptions", "PodLogOptions")


def choose_container(pod: Obj, wanted: str) -> str:
    """Choose the container whose log is asked for.

    Raises:
        StatusError: 400, none is named and there are several, or the name is unknown.
    """
    spec, name = pod["spec"], pod["metadata"]["name"]
    containers = [container["name"] for container in spec.get("containers", ())]
    inits = [container["name"] for container in spec.get("initContainers", ())]
    if not wanted:
        if len(containers) == 1:
            return str(containers[0])
        text = f"a container name must be specified for pod {name}, "
        text += f"choose one of: [{' '.join(containers)}]"
        if inits:
            text += f" or one of the init containers: [{' '.join(inits)}]"
        raise bad_request(text)
    if wanted not in containers and wanted not in inits:
        raise bad_request(f"container {wanted} is not valid for pod {name}")
    return wanted


def log_query(pod_name: str, query: Mapping[str, str]) -> dict[str, str]:
    """Check the options of a log request, and give those that the node is told.

    Raises:
        StatusError: 400, 422.
    """
    passed = {name: "true" for name in _PASSED_ON if flag(query, name)}
    causes: list[Cause] = []
    for name in _NUMBERS:
        value = number(query, name)
        if value is None:
            continue
        if name == "tailLines" and value < 0:
            causes.append(fields.invalid(name, value, fields.NEGATIVE))
        elif name != "tailLines" and value < 1:
            causes.append(fields.invalid(name, value, "must be greater than 0"))
        passed[name] = str(value)
    since = query.get("sinceTime")
    if since:
        try:
            parse_time(since)
        except ValueError as error:
            raise bad_request(f"sinceTime={since!r} is no RFC 3339 time") from error
        if "sinceSeconds" in passed:
            text = "at most one of `sinceTime` or `sinceSeconds` may be specified"
            causes.append(fields.forbidden("[]", text))
        passed["sinceTime"] = since
    if causes:
        raise invalid(_OPTIONS, pod_name, causes)
    return passed


class LogProxy:
    """Fetches logs from the log servers of nodes.

    Args:
        token_file: holds the bearer token that node and API share; read at each request, so
            that it may be made later than the API starts.
    """

    def __init__(self, api: Api, token_file: Path | None) -> None:
        self._api = api
        self._token_file = token_file
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections to nodes."""
        if self._session is not None:
            await self._session.close()

    def _client(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_S)
            self._session = aiohttp.ClientSession(timeout=timeout, auto_decompress=False)
        return self._session

    async def serve(self, request: web.Request, target: Target) -> web.StreamResponse:
        """Serve a log request.

        Raises:
            StatusError: 400, 404, 500 (the node does not answer).
        """
        pod = self._api.get("pods", target.namespace, target.name)
        container = choose_container(pod, request.query.get("container", ""))
        options = log_query(target.name, request.query)
        if not pod["spec"].get("nodeName"):
            return web.Response(status=204)  # as upstream: nothing yet, and nobody to ask
        url, tls = self._location(pod, container, options)
        headers = {"Authorization": f"Bearer {self._token()}"}
        try:
            async with self._client().get(url, headers=headers, ssl=tls) as answer:
                if answer.status >= 400:
                    raise _node_refusal(answer.status, await answer.text())
                return await self._pass_on(request, answer)
        except aiohttp.ClientConnectionError as error:
            node = pod["spec"]["nodeName"]
            raise internal(f"the log server of node {node} does not answer: {error}") from error

    async def _pass_on(
        self, request: web.Request, answer: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        try:
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
        except (aiohttp.ClientError, ConnectionError) as error:
            # Headers are out: all that is left is to end the stream.
            log.info("a log stream of %s ended early: %s", request.path, error)
        return response

    def _location(
        self, pod: Obj, container: str, options: dict[str, str]
    ) -> tuple[str, ssl.SSLContext]:
        name = pod["spec"]["nodeName"]
        node = self._api.find("nodes", None, name)
        if node is None:
            raise internal(f"node {name} of the pod is not registered any more")
        status = node.get("status", {})
        port = status.get("daemonEndpoints", {}).get("kubeletEndpoint", {}).get("Port") or 0
        addresses = {entry["type"]: entry["address"] for entry in status.get("addresses", ())}
        host = addresses.get("InternalIP") or addresses.get("Hostname", "")
        if not host or not port:
            raise internal(f"node {name} has not told where its log server is")
        meta = pod["metadata"]
        parts = (meta["namespace"], meta["name"], container)
        path = "/".join(quote_path(part, safe="") for part in parts)
        shown = f"[{host}]" if ":" in host else host
        url = f"https://{shown}:{port}/containerLogs/{path}?{urlencode(options)}"
        return url, _tls_for(host)

    def _token(self) -> str:
        if self._token_file is None:
            raise internal("onebox was started without --node-token-file, so it serves no logs")
        try:
            return self._token_file.read_text().strip()
        except OSError as error:
            raise internal(f"the token for the node's logs cannot be read: {error}") from error


@lru_cache(maxsize=8)
def _tls_for(host: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if host in _LOOPBACK:
        # On loopback the node's own certificate is accepted: the token never leaves the machine.
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _node_refusal(status: int, text: str) -> StatusError:
    message = text.strip()[:1_000] or f"the node answered {status}"
    if status == 404:
        return StatusError(404, "NotFound", message)
    if status == 400:
        return bad_request(message)
    return internal(message)
