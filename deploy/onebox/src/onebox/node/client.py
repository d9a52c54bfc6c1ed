"""The node's Kubernetes API client: raw JSON over aiohttp, set up from a kubeconfig.

It knows nothing of onebox's API half and works against any Kubernetes API server. Objects are
plain dicts exactly as the server sends them; a refusal becomes `ApiError` with the server's
own words.
"""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import aiohttp
import yaml

Json = dict[str, Any]
PatchKind = Literal["merge", "strategic", "json"]

REQUEST_TIMEOUT_S = 30.0
# The server ends a watch after the seconds asked for; silence far beyond that is a dead peer.
WATCH_SECONDS = 300
WATCH_SILENCE_S = WATCH_SECONDS + 30.0

_CONTENT_TYPES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
}


class ApiError(Exception):
    """The API server refused a request.

    Attributes:
        code: HTTP status.
        reason: Kubernetes reason such as "NotFound", "Conflict", "Expired"; "" when unknown.
    """

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message


class KubeconfigError(Exception):
    """The kubeconfig cannot be used; the message names the file and what is missing."""


@dataclass(frozen=True)
class Access:
    """What a kubeconfig's current context says: where the server is and who we are."""

    server: str
    token: str | None
    tls: ssl.SSLContext | None


def resource_path(
    api_version: str,
    plural: str,
    namespace: str | None = None,
    name: str | None = None,
    subresource: str | None = None,
) -> str:
    """Build the URL path of a collection or an object ("v1" has no group)."""
    root = "/api/v1" if api_version == "v1" else f"/apis/{api_version}"
    parts = [root]
    if namespace is not None:
        parts += ["namespaces", namespace]
    parts.append(plural)
    if name is not None:
        parts.append(name)
    if subresource is not None:
        parts.append(subresource)
    return "/".join(parts)


def load_kubeconfig(path: Path) -> Access:
    """Read the current context of a kubeconfig.

    Raises:
        KubeconfigError: the file is absent, is no kubeconfig or has no usable context.
    """
    try:
        config = yaml.safe_load(path.read_text())
    except OSError as error:
        raise KubeconfigError(f"kubeconfig {path} cannot be read: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise KubeconfigError(f"kubeconfig {path} is not valid YAML: {error}") from error
    try:
        contexts = {item["name"]: item["context"] for item in config["contexts"]}
        context = contexts[config["current-context"]]
        cluster = {item["name"]: item["cluster"] for item in config["clusters"]}[context["cluster"]]
        user = {item["name"]: item["user"] for item in config["users"]}[context["user"]]
        server = str(cluster["server"]).rstrip("/")
    except (KeyError, TypeError) as error:
        raise KubeconfigError(
            f"kubeconfig {path} has no usable current context: {error}"
        ) from error
    tls = _tls_context(cluster, user, path.parent) if server.startswith("https:") else None
    return Access(server, _token(user, path.parent), tls)


def _token(user: Mapping[str, Any], folder: Path) -> str | None:
    if user.get("token"):
        return str(user["token"])
    if user.get("tokenFile"):
        return (folder / str(user["tokenFile"])).read_text().strip()
    return None


def _tls_context(
    cluster: Mapping[str, Any], user: Mapping[str, Any], folder: Path
) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if cluster.get("certificate-authority-data"):
        pem = base64.b64decode(cluster["certificate-authority-data"]).decode()
        context = ssl.create_default_context(cadata=pem)
    elif cluster.get("certificate-authority"):
        context = ssl.create_default_context(cafile=str(folder / cluster["certificate-authority"]))
    elif cluster.get("insecure-skip-tls-verify"):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    _load_own_certificate(context, user, folder)
    return context


def _load_own_certificate(context: ssl.SSLContext, user: Mapping[str, Any], folder: Path) -> None:
    if user.get("client-certificate") and user.get("client-key"):
        context.load_cert_chain(
            str(folder / user["client-certificate"]), str(folder / user["client-key"])
        )
    elif user.get("client-certificate-data") and user.get("client-key-data"):
        both = (user["client-certificate-data"], user["client-key-data"])
        # The ssl module loads keys from files only: a private one that is gone at once.
        with tempfile.NamedTemporaryFile(prefix="onebox-") as file:
            file.write(b"\n".join(base64.b64decode(data) for data in both))
            file.flush()
            context.load_cert_chain(file.name)


class Client:
    """One connection pool to one API server. Safe for any number of concurrent requests."""

    def __init__(self, access: Access) -> None:
        headers = {"User-Agent": "onebox-node", "Accept": "application/json"}
        if access.token:
            headers["Authorization"] = f"Bearer {access.token}"
        self._server = access.server
        self._session = aiohttp.ClientSession(
            headers=headers,
            connector=aiohttp.TCPConnector(ssl=access.tls or True, limit=64),
            timeout=aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S),
            trust_env=False,
        )

    async def close(self) -> None:
        """Close the connection pool."""
        await self._session.close()

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> Json:
        """Read an object or list. Raises ApiError, aiohttp.ClientError or TimeoutError."""
        return await self._request("GET", path, params=params)

    async def create(self, path: str, body: Json) -> Json:
        """Create an object in the collection at `path`."""
        return await self._request("POST", path, body=body)

    async def update(self, path: str, body: Json) -> Json:
        """Replace the object at `path`."""
        return await self._request("PUT", path, body=body)

    async def patch(self, path: str, body: Json | list[Json], kind: PatchKind = "merge") -> Json:
        """Patch the object at `path` by the given kind of patch."""
        return await self._request("PATCH", path, body=body, content_type=_CONTENT_TYPES[kind])

    async def delete(
        self, path: str, *, uid: str | None = None, grace_s: int | None = None
    ) -> None:
        """Delete the object at `path`, only if it still has this uid when one is given."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        if uid is not None:
            options["preconditions"] = {"uid": uid}
        await self._request("DELETE", path, body=options)

    async def watch(self, path: str, params: Mapping[str, str]) -> AsyncIterator[tuple[str, Json]]:
        """Yield (type, object) from a watch until the server ends it.

        Raises:
            ApiError: the server refused, or sent an ERROR event (code 410 when too old).
            aiohttp.ClientError, TimeoutError: the connection broke or went silent.
        """
        query = {"watch": "1", "timeoutSeconds": str(WATCH_SECONDS), **params}
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=WATCH_SILENCE_S)
        async with self._session.get(self._server + path, params=query, timeout=timeout) as reply:
            if reply.status != 200:
                raise _refusal(reply.status, await reply.read())
            async for line in _lines(reply.content):
                event = json.loads(line)
                if event["type"] == "ERROR":
                    status = event["object"]
                    raise ApiError(
                        int(status.get("code", 500)),
                        status.get("reason", ""),
                        status.get("message", "the watch failed"),
                    )
                yield event["type"], event["object"]

    async def _request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Json | list[Json] | None = None,
        content_type: str = "application/json",
    ) -> Json:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": content_type} if data is not None else {}
        async with self._session.request(
            method, self._server + path, params=params, data=data, headers=headers
        ) as reply:
            payload = await reply.read()
            if reply.status >= 400:
                raise _refusal(reply.status, payload)
        answer = json.loads(payload) if payload else {}
        return answer if isinstance(answer, dict) else {}


def _refusal(code: int, payload: bytes) -> ApiError:
    try:
        status = json.loads(payload)
        return ApiError(code, str(status.get("reason", "")), str(status.get("message", "")))
    except (ValueError, AttributeError):
        text = payload.decode(errors="replace").strip()
        return ApiError(code, "", text or f"the server answered {code}")


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Split a stream into lines of any length (aiohttp's own readline has a limit)."""
    pending = b""
    async for chunk in stream.iter_any():
        *whole, pending = (pending + chunk).split(b"\n")
        for line in whole:
            if line:
                yield line
