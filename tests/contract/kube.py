"""A small synchronous Kubernetes client for the contract: raw JSON, any kubeconfig, watches."""

from __future__ import annotations

import base64
import json
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlencode

import urllib3
import yaml

Json = dict[str, Any]
JSON = "application/json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TIMEOUT_S = 60.0


class StreamEndedError(AssertionError):
    """A watch ended or stayed silent before what was waited for came; the text shows what came."""


@dataclass(frozen=True)
class Reply:
    """An answer.

    Attributes:
        body: decoded JSON; the text where it is none.
        warnings: texts of the `Warning` headers.
    """

    code: int
    body: Any
    warnings: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        return str(self.body["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.body["metadata"]["uid"])

    @property
    def version(self) -> str:
        return str(self.body["metadata"]["resourceVersion"])


def address(path: str, query: Json) -> str:
    """A path with its query."""
    return f"{path}?{urlencode(query)}" if query else path


class Kube:
    """Speaks to the API server of a kubeconfig; may be shared by threads."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        chosen = next(c for c in config["contexts"] if c["name"] == config["current-context"])
        names = chosen["context"]
        cluster = next(c for c in config["clusters"] if c["name"] == names["cluster"])["cluster"]
        user = next(u for u in config["users"] if u["name"] == names["user"])["user"]
        self.server = str(cluster["server"]).rstrip("/")
        tls = ssl.create_default_context(cadata=_data(cluster, "certificate-authority").decode())
        if "client-certificate" in user or "client-certificate-data" in user:
            with tempfile.NamedTemporaryFile() as pem:
                pem.write(_data(user, "client-certificate") + b"\n" + _data(user, "client-key"))
                pem.flush()
                tls.load_cert_chain(pem.name)
        token = {"Authorization": f"Bearer {user['token']}"} if "token" in user else {}
        self._headers = {"User-Agent": "contract", **token}
        self._pool = urllib3.PoolManager(maxsize=32, block=False, ssl_context=tls, retries=False)

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        kind: str = JSON,
        accept: str = JSON,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send a request; errors are answers too."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {**self._headers, "Accept": accept, **(headers or {})}
        if data is not None:
            sent["Content-Type"] = kind
        reply = self._pool.request(
            method, self.server + path, body=data, headers=sent, timeout=TIMEOUT_S
        )
        warnings = [_warning(text) for text in reply.headers.getlist("Warning")]
        try:
            return Reply(reply.status, json.loads(reply.data), warnings)
        except ValueError:
            return Reply(reply.status, reply.data.decode(errors="replace"), warnings)

    def get(self, path: str, **query: Any) -> Reply:
        return self.send("GET", address(path, query))

    def must(self, method: str, path: str, body: Any = None, **more: Any) -> Json:
        """Send a request that has to succeed."""
        reply = self.send(method, path, body, **more)
        assert reply.code < 300, f"{method} {path}: {reply.code} {reply.body}"
        return reply.body

    def until(
        self, path: str, is_as_wanted: Callable[[Any], Any], timeout_s: float = 45.0
    ) -> Reply:
        """Ask until the answer's body is as wanted; a 404 is asked again, too.

        Raises:
            AssertionError: it never was; the text shows the last answer.
        """
        deadline_s = time.monotonic() + timeout_s
        while True:
            reply = self.send("GET", path)
            if reply.code == 200 and is_as_wanted(reply.body):
                return reply
            assert time.monotonic() < deadline_s, (
                f"{path} was never as wanted: {reply.code} {json.dumps(reply.body)[:3000]}"
            )
            time.sleep(0.05)

    def until_gone(self, path: str, timeout_s: float = 45.0) -> Reply:
        """Ask until there is nothing."""
        deadline_s = time.monotonic() + timeout_s
        while (reply := self.send("GET", path)).code != 404:
            assert time.monotonic() < deadline_s, f"{path} is still there: {reply.body}"
            time.sleep(0.05)
        return reply

    @contextmanager
    def follow(self, path: str, timeout_s: float = 60.0) -> Iterator[Iterator[str]]:
        """A text that grows, such as a followed log: its lines up to the end."""
        timeout = urllib3.Timeout(connect=10.0, read=timeout_s)
        reply = self._pool.request(
            "GET", self.server + path, headers=self._headers, preload_content=False, timeout=timeout
        )
        try:
            yield (chunk.decode() for chunk in reply.stream(64 * 1024))
        finally:
            reply.close()

    def watch(self, path: str, timeout_s: float = 60.0, accept: str = JSON) -> Stream:
        """Open a watch; the path has its whole query."""
        return Stream(
            self._pool.request(
                "GET",
                self.server + path,
                headers={**self._headers, "Accept": accept},
                preload_content=False,
                timeout=urllib3.Timeout(connect=10.0, read=timeout_s),
            ),
            path,
        )


class Stream:
    """An open watch."""

    def __init__(self, reply: urllib3.BaseHTTPResponse, path: str) -> None:
        self.code = reply.status
        self.seen: list[Json] = []
        self._reply = reply
        self._path = path
        self._lines = self._read()

    def _read(self) -> Iterator[Json]:
        rest = b""
        for chunk in self._reply.stream(64 * 1024):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield json.loads(line)
        if rest:
            yield json.loads(rest)

    def next(self) -> Json:
        """The next event.

        Raises:
            StreamEndedError: there is none.
        """
        try:
            event = next(self._lines)
        except (StopIteration, urllib3.exceptions.HTTPError) as error:
            seen = [(e["type"], e["object"].get("metadata", {}).get("name")) for e in self.seen]
            raise StreamEndedError(f"{self._path} ended ({error!r}) after {seen}") from error
        self.seen.append(event)
        return event

    def until(self, is_last: Callable[[Json], Any]) -> list[Json]:
        """The events up to and with the first for which the predicate holds."""
        found = [self.next()]
        while not is_last(found[-1]):
            found.append(self.next())
        return found

    def rest(self) -> list[Json]:
        """The events up to the end of the stream."""
        found = list(self._lines)
        self.seen += found
        return found

    def close(self) -> None:
        self._reply.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _data(section: Json, key: str) -> bytes:
    """A certificate or key, inline or in a file."""
    if f"{key}-data" in section:
        return base64.b64decode(section[f"{key}-data"])
    return Path(section[key]).read_bytes()


def _warning(header: str) -> str:
    """The text of `299 - "..."`."""
    text = header.partition('"')[2].rpartition('"')[0]
    return text.replace('\\"', '"').replace("\\\\", "\\")
