"""A real JupyterLab behind its gate, as its own pages talk to it: kernels, terminals, files."""

import base64
import contextlib
import json
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import requests
import websockets.sync.client
from websockets.sync.client import ClientConnection

KERNEL_PROTOCOL = "v1.kernel.websocket.jupyter.org"
CHUNK_BYTES = 1024**2  # as JupyterLab's own uploads


class Lab:
    """Calls with the cookie of a browser that was let in."""

    def __init__(self, base: str, cookie: str) -> None:
        self.base = base  # with the prefix and a slash at the end
        self.cookie = cookie  # the whole Cookie header
        self.origin = "{0.scheme}://{0.netloc}".format(urlsplit(base))

    def call(self, method: str, path: str, **arguments: Any) -> requests.Response:
        headers = {"Cookie": self.cookie, "Origin": self.origin, **arguments.pop("headers", {})}
        return requests.request(method, self.base + path, headers=headers, timeout=60, **arguments)

    def status(self) -> int:
        return self.call("GET", "api/status").status_code

    @contextmanager
    def websocket(self, path: str, **options: Any) -> Iterator[ClientConnection]:
        """An open websocket; our own pings are off, as browsers have none."""
        with websockets.sync.client.connect(
            self.base.replace("http", "ws", 1) + path,
            additional_headers={"Cookie": self.cookie},
            origin=self.origin,
            ping_interval=None,
            max_size=None,
            open_timeout=90,
            **options,
        ) as connection:
            yield connection

    @contextmanager
    def kernel(self) -> Iterator["Kernel"]:
        """A new kernel, which ends with the block."""
        answer = self.call("POST", "api/kernels", json={})
        assert answer.status_code == 201, answer.text
        path = f"api/kernels/{answer.json()['id']}"
        with self.websocket(
            f"{path}/channels?session_id={uuid4().hex}", subprotocols=[KERNEL_PROTOCOL]
        ) as connection:
            assert connection.subprotocol == KERNEL_PROTOCOL
            yield Kernel(connection)
        with contextlib.suppress(requests.ConnectionError):  # the notebook may be gone
            self.call("DELETE", path)

    def upload(self, name: str, chunks: int, chunk: bytes) -> None:
        """A file in pieces, as JupyterLab uploads it by the contents API."""
        content = base64.b64encode(chunk).decode()
        for number in range(1, chunks + 1):
            body = {
                "type": "file",
                "format": "base64",
                "content": content,
                "chunk": number if number < chunks else -1,
            }
            answer = self.call("PUT", f"api/contents/{name}", json=body)
            assert answer.ok, (number, answer.status_code, answer.text)


class Kernel:
    """One connection to a kernel."""

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection

    def run(self, code: str, *, timeout_s: float = 60) -> str:
        """What a cell says: its output and its result."""
        identity = uuid4().hex
        content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
        header = {
            "msg_id": identity,
            "msg_type": "execute_request",
            "username": "",
            "session": uuid4().hex,
            "version": "5.3",
            "date": "",
        }
        self._connection.send(_packed("shell", header, content))
        said, deadline = "", time.monotonic() + timeout_s
        while True:
            data = self._connection.recv(timeout=deadline - time.monotonic())
            assert isinstance(data, bytes)
            header, parent, content = _unpacked(data)
            if parent.get("msg_id") != identity:
                continue
            match header["msg_type"]:
                case "stream":
                    said += content["text"]
                case "execute_result":
                    said += content["data"]["text/plain"]
                case "error":
                    raise AssertionError("\n".join(content["traceback"]))
                case "status" if content["execution_state"] == "idle":
                    return said

    def listen(self, until_s: float) -> None:
        """Hears whatever is said.

        Args:
            until_s: monotonic time.

        Raises:
            TimeoutError: then it was still open.
            ConnectionClosed: it was closed before.
        """
        while True:
            self._connection.recv(timeout=until_s - time.monotonic())


def _packed(channel: str, header: dict[str, Any], content: dict[str, Any]) -> bytes:
    """One message: a table of offsets, then channel, header, parent, metadata and content."""
    parts = [channel.encode(), *(json.dumps(part).encode() for part in (header, {}, {}, content))]
    offsets = [8 * (len(parts) + 2)]
    for part in parts:
        offsets.append(offsets[-1] + len(part))
    table = struct.pack(f"<{len(offsets) + 1}Q", len(offsets), *offsets)
    return table + b"".join(parts)


def _unpacked(data: bytes) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Header, parent header and content of one message."""
    (count,) = struct.unpack_from("<Q", data)
    offsets = struct.unpack_from(f"<{count}Q", data, 8)
    parts = [data[offsets[i] : offsets[i + 1]] for i in range(len(offsets) - 1)]
    return json.loads(parts[1]), json.loads(parts[2]), json.loads(parts[4])
