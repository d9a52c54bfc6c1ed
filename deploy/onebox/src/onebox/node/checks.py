"""Runs one handler of a probe or lifecycle hook once: exec, httpGet, tcpSocket or sleep.

HTTP and TCP go to the pod's address through the cluster network, never from inside the pod,
as the kubelet does.
"""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from urllib.parse import urljoin, urlsplit

from onebox.node.client import Json
from onebox.node.probes import Outcome
from onebox.node.sandbox import Container, Sandbox
from onebox.node.spec import PodGone

# As the kubelet: more of a failing answer is of no use in an event.
OUTPUT_CHARS = 512
REDIRECTS = 10


@dataclass(frozen=True)
class Target:
    """Where checks of one container go."""

    sandbox: Sandbox
    container: Container
    spec: Json
    pod_ip: str


@dataclass(frozen=True)
class _Reply:
    status: int
    location: str


class Checker:
    """Runs checks against one running container."""

    def __init__(self, target: Target) -> None:
        self._target = target

    async def check(self, handler: Json, timeout_s: float) -> Outcome:
        """Run one handler; a failure is an Outcome, never an exception."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._run(handler, timeout_s)
        except TimeoutError:
            return Outcome(False, f"no answer within {timeout_s:g}s")
        except (OSError, EOFError, ValueError, ssl.SSLError) as error:
            return Outcome(False, _sentence(error))
        except PodGone as error:
            return Outcome(False, str(error) or "the container has ended")

    async def _run(self, handler: Json, timeout_s: float) -> Outcome:
        if "exec" in handler:
            return await self._exec(tuple(handler["exec"].get("command") or ()), timeout_s)
        if "httpGet" in handler:
            return await self._http(handler["httpGet"])
        if "tcpSocket" in handler:
            socket_ = handler["tcpSocket"]
            host = socket_.get("host") or self._target.pod_ip
            connection = await self._target.sandbox.connect(host, self._port(socket_["port"]))
            connection.close()
            return Outcome(True)
        if "sleep" in handler:
            await asyncio.sleep(float(handler["sleep"].get("seconds", 0)))
            return Outcome(True)
        if "grpc" in handler:
            # Said in an event when the container starts: not offered, taken as passed.
            return Outcome(True)
        kind = next(iter(handler), "empty")
        return Outcome(False, f"{kind} is not offered by this node; use exec, httpGet or tcpSocket")

    async def _exec(self, command: tuple[str, ...], timeout_s: float) -> Outcome:
        # The program must be ended by the sandbox, a little before our own patience ends.
        code, output = await self._target.container.exec(command, max(timeout_s - 0.05, 0.05))
        if code == 0:
            return Outcome(True)
        text = output.decode(errors="replace").strip()
        if code == -1:
            return Outcome(False, f'command "{" ".join(command)}" timed out')
        return Outcome(False, text[:OUTPUT_CHARS] or f"the command ended with code {code}")

    def _port(self, port: int | str) -> int:
        if isinstance(port, int) or port.isdigit():
            return int(port)
        for known in self._target.spec.get("ports") or []:
            if known.get("name") == port:
                return int(known["containerPort"])
        raise ValueError(f'the container has no port named "{port}"')

    async def _http(self, action: Json) -> Outcome:
        scheme = str(action.get("scheme") or "HTTP").lower()
        host = action.get("host") or self._target.pod_ip
        path = action.get("path") or "/"
        url = f"{scheme}://{host}:{self._port(action['port'])}/{path.lstrip('/')}"
        headers = {h["name"]: h["value"] for h in action.get("httpHeaders") or []}
        for _ in range(REDIRECTS):
            reply = await self._get(url, headers)
            if not 300 <= reply.status < 400 or not reply.location:
                break
            following = urljoin(url, reply.location)
            if urlsplit(following).hostname != urlsplit(url).hostname:
                # Leaving the pod is not followed, and counts as success (as upstream).
                return Outcome(True)
            url = following
        else:
            return Outcome(False, f"stopped after {REDIRECTS} redirects")
        if 200 <= reply.status < 400:
            return Outcome(True)
        return Outcome(False, f"HTTP probe failed with statuscode: {reply.status}")

    async def _get(self, url: str, headers: dict[str, str]) -> _Reply:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        port = parts.port or (443 if secure else 80)
        raw = await self._target.sandbox.connect(parts.hostname or "", port)
        context = _unverified() if secure else None
        try:
            reader, writer = await asyncio.open_connection(
                sock=raw, ssl=context, server_hostname=parts.hostname if secure else None
            )
        except BaseException:
            raw.close()
            raise
        try:
            writer.write(_request(parts.path, parts.query, f"{parts.hostname}:{port}", headers))
            await writer.drain()
            return _parse_head(await reader.readuntil(b"\r\n\r\n"))
        except asyncio.LimitOverrunError as error:
            raise ValueError("the answer's headers are too long") from error
        except asyncio.IncompleteReadError as error:
            if error.partial.startswith(b"HTTP/"):
                return _parse_head(error.partial)
            raise ValueError("the server closed the connection without an answer") from error
        finally:
            writer.close()


def _request(path: str, query: str, host: str, headers: dict[str, str]) -> bytes:
    merged = {"Host": host, "User-Agent": "kube-probe/onebox", "Accept": "*/*"}
    lowered = {name.lower(): name for name in merged}
    for name, value in headers.items():
        merged[lowered.get(name.lower(), name)] = value
    target = path + (f"?{query}" if query else "")
    lines = [f"GET {target} HTTP/1.1", *(f"{k}: {v}" for k, v in merged.items())]
    if any("\n" in line or "\r" in line for line in lines):
        raise ValueError("a header of the probe holds a line break")
    return ("\r\n".join([*lines, "Connection: close"]) + "\r\n\r\n").encode()


def _parse_head(head: bytes) -> _Reply:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ", 2)
    if len(words) < 2 or not words[0].startswith("HTTP/") or not words[1].isdigit():
        raise ValueError(f"no HTTP answer: {lines[0][:80]!r}")
    location = ""
    for line in lines[1:]:
        name, _, value = line.partition(":")
        if name.lower() == "location":
            location = value.strip()
    return _Reply(int(words[1]), location)


def _unverified() -> ssl.SSLContext:
    context = ssl.create_default_context()
    # The kubelet skips verification for HTTPS probes: pods serve self-signed certificates.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _sentence(error: Exception) -> str:
    return (str(error) or type(error).__name__)[:OUTPUT_CHARS]
