"""Opens a websocket to the app: sends the request as the browser made it, reads the answer's head."""

import asyncio
import base64
import contextlib
import hashlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

from multidict import CIMultiDict

from jobs.pod.gatekeeper import refusals
from jobs.pod.gatekeeper.headers import Headers

CONNECT_TIMEOUT_S = 5.0
# JupyterLab answers when the kernel does, for which it waits a minute itself.
HANDSHAKE_TIMEOUT_S = 120.0
LINGER_S = 5.0  # for what the app has not read yet
BUFFER_BYTES = 64 * 1024
_MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # RFC 6455 section 1.3

_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


@dataclass(frozen=True)
class Upstream:
    """A websocket to the app, behind its handshake."""

    headers: CIMultiDict[str]  # of the answer
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


@contextlib.asynccontextmanager
async def connected(port: int, target: str, headers: Headers, word: str) -> AsyncIterator[Upstream]:
    """An open websocket for as long as the block runs; it is cut off at its end.

    Args:
        target: path and query, as they came.
        headers: for the app, with those of the handshake.

    Raises:
        GateRefusal: the app said no, with the status that it gave, or nothing sensible: 502.
        OSError, TimeoutError: the app does not answer.
    """
    async with asyncio.timeout(CONNECT_TIMEOUT_S):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=BUFFER_BYTES)
    try:
        lines = [f"GET {target} HTTP/1.1", *(f"{name}: {text}" for name, text in headers.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape"))
        async with asyncio.timeout(HANDSHAKE_TIMEOUT_S):
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
                raise refusals.no_websocket(word, 502) from error
        yield Upstream(read_head(head, headers.get("Sec-WebSocket-Key", ""), word), reader, writer)
    finally:
        writer.close()
        asyncio.get_running_loop().call_later(LINGER_S, writer.transport.abort)


def read_head(head: bytes, key: str, word: str) -> CIMultiDict[str]:
    """The headers that matter of an answer that opens a websocket for this key.

    Raises:
        GateRefusal: it does not.
    """
    first, *lines = head.decode("utf-8", "surrogateescape").split("\r\n")
    version, _, rest = first.partition(" ")
    status = rest[:3]
    if version != "HTTP/1.1" or not (status.isascii() and status.isdigit()):
        raise refusals.no_websocket(word, 502)
    if status != "101":
        told = int(status) if "400" <= status <= "599" else 502
        raise refusals.no_websocket(word, told)
    headers: CIMultiDict[str] = CIMultiDict()
    for line in lines:
        name, _, text = line.partition(":")
        if _CONTROL.search(line):
            raise refusals.no_websocket(word, 502)
        if name.lower().startswith("sec-websocket-") or name.lower() == "set-cookie":
            headers.add(name, text.strip(" \t"))
    accept = base64.b64encode(hashlib.sha1(key.encode() + _MAGIC).digest()).decode()
    if headers.get("Sec-WebSocket-Accept") != accept:
        raise refusals.no_websocket(word, 502)
    return headers
