"""Speaks with the REST API of one portal: tokens, errors in words, patience.

A portal that is busy (429, 503) is asked again, with growing pauses or after what it says; a lost
connection is tried again where nothing can happen twice: reading, and what has an Idempotency-Key if the
portal knows such keys. What comes back is believed only as far as it has the form of an answer of Homeport.
"""

from __future__ import annotations

import itertools
import json
import random
import ssl
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Callable, Optional
from urllib.parse import quote, urlencode, urlsplit

import urllib3

from .address import parse_address
from .answers import Json
from .exits import ClientError, UnreachableError
from .refusals import in_words, not_homeport, refused, sent_elsewhere
from .version import own_version

TRIES = 6
FIRST_PAUSE_S = 0.5
MAX_PAUSE_S = 60.0
MAX_ANSWER_BYTES = 64 * 1024**2
PAGE_SIZE = 200
CHUNK_BYTES = 256 * 1024

_KEY = "Idempotency-Key"
_FEATURES, _VERSION = "Homeport-Features", "Homeport-Version"

Query = Mapping[str, Optional[object]]


def once() -> dict[str, str]:
    """Headers of a request that the portal carries out once, however often it is sent."""
    return {_KEY: str(uuid.uuid4())}


def tls_context(ca_file: str) -> ssl.SSLContext:
    """Certificates to trust: the system's and those of SSL_CERT_FILE, and those of this file.

    Raises:
        ClientError: the file cannot be used.
    """
    made = ssl.create_default_context()
    if ca_file:
        try:
            made.load_verify_locations(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ClientError(
                f"The certificates in {ca_file} cannot be used: {error}",
                "Name a PEM file by --ca-file.",
            ) from error
    return made


class Rest:
    """The REST API as one person sees it."""

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        ca_file: str = "",
        is_hasty: bool = False,
        tell: Callable[[str], None] = lambda text: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`tell` hears why something takes longer. `is_hasty`: one try of a second (for Tab)."""
        self.url = url
        self.token = token
        self.ca_file = ca_file
        self.tell = tell
        self._sleep = sleep
        self._is_hasty = is_hasty
        self._knows_keys: bool | None = None  # as the latest answer says; None: there was none
        self.features: list[str] = []  # of the portal, as the latest answer says
        self.version = ""  # likewise
        short, long = urllib3.Timeout(total=1), urllib3.Timeout(connect=10, read=120)
        options: dict[str, Any] = {
            "ssl_context": tls_context(ca_file),
            "timeout": short if is_hasty else long,
            "retries": False,
            "maxsize": 4,
        }
        parts = urlsplit(url)
        proxy = urllib.request.getproxies().get(parts.scheme)
        self._pool: urllib3.PoolManager = (
            urllib3.ProxyManager(proxy, **options)
            if proxy and not urllib.request.proxy_bypass(parts.hostname or "")
            else urllib3.PoolManager(**options)
        )

    # --- what commands use ---
    def get(self, path: str, query: Query | None = None) -> Any:
        return self.call("GET", path, query=query)

    def post(self, path: str, body: Any = None) -> Any:
        return self.call("POST", path, body={} if body is None else body)

    def post_once(self, path: str, body: Any) -> Any:
        """What is to happen once even if the answer to it is lost."""
        return self.call("POST", path, body=body, headers=once())

    def delete(self, path: str) -> None:
        self.call("DELETE", path)

    def page(self, path: str, query: Query | None = None) -> tuple[list[Json], int]:
        """One page of a list, and how many there are in all."""
        answer = self.get(path, query)
        rows = answer.get("results") if isinstance(answer, dict) else None
        if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
            raise not_homeport(self.url)
        count = answer.get("count")
        return rows, count if isinstance(count, int) else len(rows)

    def every(self, path: str, query: Query | None = None) -> Iterator[Json]:
        """All rows of a list, page by page."""
        for number in itertools.count(1):
            asked = {**(query or {}), "page": number, "page_size": PAGE_SIZE}
            rows, count = self.page(path, asked)
            yield from rows
            if not rows or number * PAGE_SIZE >= count:
                return

    def call(self, method: str, path: str, *, body: Any = None, **options: Any) -> Any:
        """The JSON of an answer, None when there is none; `options` as of `open`.

        Raises:
            UnreachableError, ClientError: in words.
        """
        if body is not None:
            options["content"] = json.dumps(body).encode()
            headers = options.get("headers") or {}
            options["headers"] = {"Content-Type": "application/json", **headers}
        return self.read_json(self.open(method, path, **options))

    def open(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        content: Any = None,
        headers: Mapping[str, str] | None = None,
        patient: bool = True,
    ) -> urllib3.BaseHTTPResponse:
        """A good answer whose body is still to be read; the caller gives the connection back.

        `content` is bytes, or gives those of each try. `patient` False: one try. What has a key (`once`)
        is sent again when the connection is lost, if the portal knows keys.
        """
        asked = {key: value for key, value in (query or {}).items() if value is not None}
        url = f"{self.url}/api/v1/{quote(path)}" + (f"?{urlencode(asked)}" if asked else "")
        tries = TRIES if patient and not self._is_hasty else 1
        sent = {**self.headers, **(headers or {})}
        number, was_sent = 0, False
        while True:
            number += 1
            try:
                with in_words(self.url, is_safe=method == "GET"):
                    answer = self._pool.request(
                        method,
                        url,
                        body=content() if callable(content) else content,
                        headers=sent,
                        preload_content=False,
                        redirect=False,
                    )
            except UnreachableError as error:
                was_sent = error.may_have_happened = was_sent or error.may_have_happened
                # Half of the tries: who mistyped an address should not wait for half a minute.
                is_last = number >= min(tries, TRIES // 2) or error.is_final
                if is_last or (was_sent and not (_KEY in sent and self._still_knows_keys())):
                    raise
                self._pause(number, None, "The portal does not answer")
                continue
            if answer.status < 500:  # others may be of a proxy
                self.features = answer.headers.get(_FEATURES, "").split(", ")
                self.version = answer.headers.get(_VERSION, "")
                self._knows_keys = _KEY.lower() in self.features
            if answer.status < 300:
                return answer
            wait_s = _asked_wait_s(answer)
            is_worth_waiting = wait_s is None or wait_s <= MAX_PAUSE_S
            # A first try whose connection was lost came first by a moment: 409 that says when to come back.
            may_pass = answer.status in {429, 503} or (answer.status == 409 and wait_s is not None)
            if not may_pass or number == tries or not is_worth_waiting:
                raise self._refusal(answer, path)
            answer.drain_conn()
            self._pause(number, wait_s, "The portal is busy")

    def ask(
        self, method: str, address: str, content: str = "", headers: Mapping[str, str] | None = None
    ) -> tuple[int, Mapping[str, str]]:
        """Status and headers of what is not REST's, such as a gate; without the token, in one try.

        Raises:
            UnreachableError: nobody answers.
        """
        with in_words(address):
            answer = self._pool.request(
                method, address, body=content, headers=headers, redirect=False, timeout=15
            )
        return answer.status, answer.headers

    def _still_knows_keys(self) -> bool:
        """Whether the portal carries out once what has a key: the one that lost the reply, and the one now.

        An older one ignores keys, and the reply may be lost because one replaces the other.
        """
        if self._knows_keys is False:
            return False
        self._knows_keys = None
        with suppress(ClientError):
            # Read to its end: what is left would be taken for the next answer of the connection.
            self.open("GET", "me/").drain_conn()
        return self._knows_keys is True

    @property
    def headers(self) -> dict[str, str]:
        """What every request says about us."""
        found = {"Accept": "application/json", "User-Agent": f"homeport/{own_version()}"}
        return {**found, "Authorization": f"Token {self.token}"} if self.token else found

    def _pause(self, number: int, wait_s: float | None, why: str) -> None:
        if wait_s is None:
            wait_s = FIRST_PAUSE_S * 2 ** (number - 1) * random.uniform(0.8, 1.2)
        if wait_s >= 2:
            self.tell(f"{why}; trying again in {wait_s:.0f} s.")
        self._sleep(wait_s)

    # --- answers ---
    def read_json(self, answer: urllib3.BaseHTTPResponse) -> Any:
        """The JSON of an open answer, which is over then; None when there is none."""
        try:
            if answer.status == 204:
                return None
            with in_words(self.url, is_safe=False):
                data = answer.read(MAX_ANSWER_BYTES + 1)
            if len(data) > MAX_ANSWER_BYTES:
                raise not_homeport(self.url)
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            raise not_homeport(self.url) from error
        finally:
            answer.release_conn()

    def chunks(self, answer: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        """The body as it comes, which is over then; what came before it broke off is not lost.

        Raises:
            ClientError: it broke off.
        """
        try:
            with in_words(self.url):
                while data := answer.read1(CHUNK_BYTES):
                    yield data
        finally:
            answer.release_conn()

    def _refusal(self, answer: urllib3.BaseHTTPResponse, path: str) -> ClientError:
        """Why an answer is no good one."""
        if answer.status < 400:
            answer.drain_conn()
            return sent_elsewhere(
                self.url, answer.headers.get("Location", "") or str(answer.status)
            )
        try:
            said = self.read_json(answer)
        except ClientError:
            said = None
        return refused(self.url, answer.status, said, path, has_token=bool(self.token))


def _asked_wait_s(answer: urllib3.BaseHTTPResponse) -> float | None:
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() and len(text) < 7 else None


def final_address(url: str, ca_file: str) -> str:
    """Where the portal says that it lives; only steps that no token fears are followed."""
    pool = Rest(url, ca_file=ca_file)._pool
    for _step in range(3):
        with in_words(url):
            answer = pool.request("GET", f"{url}/healthz", redirect=False, timeout=15)
        location = answer.headers.get("Location", "")
        if not 300 <= answer.status < 400 or "://" not in location:
            return url
        target = parse_address(location)
        hosts = {urlsplit(url).hostname, urlsplit(target).hostname}
        if len(hosts) > 1 and not hosts <= {"localhost", "127.0.0.1", "::1"}:
            raise ClientError(
                f"{url} sends you to {target}.", f"If that is your portal: homeport login {target}"
            )
        url = target
    return url
