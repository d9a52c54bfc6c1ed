# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""Calls from a pod to the portal, transfers over the links that it gives, and how long to try again."""

import contextlib
import http.client
import json
import os
import re
import time
from typing import Any, BinaryIO, Callable, Dict, Optional
from urllib.parse import SplitResult, urlsplit

from jobs.pod.errors import PodError, PortalError
from jobs.pod.protocol import codes

NET_TIMEOUT_S = 30  # longer than the portal lets a question wait (jobs/pod_api/hosts.py)
SEND_BYTES = 256 * 1024
MOST_RETRY_AFTER_S = 60  # of what an answer asks for
STARTING_RETRY_S = 180  # of a pod whose program has not begun
INSUFFICIENT_STORAGE = 507
# Names a file of authorities that are trusted beside those of the person's image.
AUTHORITIES = "HOMEPORT_AUTHORITIES"


class PortalClient:
    """Calls to `/internal/v1/` with the job's token, and transfers over the links it gives."""

    def __init__(self, portal_url: str, token: str) -> None:
        self._base = portal_url.rstrip("/") + "/internal/v1/"
        self.token = token

    def post(self, path: str, body: Dict[str, Any]) -> Dict[str, Any]:
        """One call.

        Raises:
            PortalError: without a status after no answer, a time-out, 429 or 5xx; with that of any
                other answer than success.
        """
        data = json.dumps(body).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(data))}
        return self._call("POST", path, headers, data)

    def get(self, path: str) -> Dict[str, Any]:
        """A question, whose answer may take 25 s. Raises as `post` does."""
        return self._call("GET", path, {}, b"")

    def _call(self, method: str, path: str, headers: Dict[str, str], data: bytes) -> Dict[str, Any]:
        headers = {"Authorization": "Bearer " + self.token, **headers}
        answer = _exchange(
            method, self._base + path, headers, lambda connection: connection.send(data)
        )
        try:
            parsed = json.loads(answer.decode() or "{}")
        except ValueError:
            raise PortalError(f"{self._base} answered what is not JSON") from None
        return parsed if isinstance(parsed, dict) else {}

    def put(self, link: Dict[str, Any], file: BinaryIO, size_bytes: int) -> None:
        """Sends exactly `size_bytes` of the file to a link.

        Raises:
            PodError: the file is shorter than that.
            PortalError: as `post`.
        """
        headers = {name: str(text) for name, text in (link.get("headers") or {}).items()}
        headers["Content-Length"] = str(size_bytes)

        def send(connection: http.client.HTTPConnection) -> None:
            left = size_bytes
            while left > 0:
                data = file.read(min(SEND_BYTES, left))
                if not data:
                    raise PodError(codes.FILE_CHANGED, "it became shorter")
                connection.send(data)
                left -= len(data)

        _exchange(link.get("method") or "PUT", link["url"], headers, send)


def _connection(parts: SplitResult) -> http.client.HTTPConnection:
    """
    Raises:
        PortalError: the file of authorities cannot be used.
    """
    host = parts.hostname or ""
    if parts.scheme != "https":
        return http.client.HTTPConnection(host, parts.port, timeout=NET_TIMEOUT_S)
    context = None
    authorities = os.environ.get(AUTHORITIES)
    if authorities:
        import ssl  # a Python may have been built without it

        context = ssl.create_default_context()
        try:
            context.load_verify_locations(authorities)
        except OSError as error:
            raise PortalError(f"{AUTHORITIES}={authorities} cannot be used: {error}") from error
    return http.client.HTTPSConnection(host, parts.port, timeout=NET_TIMEOUT_S, context=context)


def _exchange(
    method: str,
    url: str,
    headers: Dict[str, str],
    send: Callable[[http.client.HTTPConnection], None],
) -> bytes:
    parts = urlsplit(url)
    connection = _connection(parts)
    target = (parts.path or "/") + ("?" + parts.query if parts.query else "")
    try:
        connection.putrequest(method, target)
        for name, text in headers.items():
            connection.putheader(name, text)
        connection.endheaders()
        # Refused before all was sent: the answer may be there already.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send(connection)
        response = connection.getresponse()
        body = response.read(4 * 1024 * 1024)
    # Before Python 3.7 the certificate of another name is a ValueError.
    except (OSError, ValueError, http.client.HTTPException) as error:
        # Never the whole URL: a link carries its signature.
        where = f"{parts.scheme}://{parts.netloc}"
        raise PortalError(f"{where} does not answer: {error or type(error).__name__}") from error
    finally:
        connection.close()
    if 200 <= response.status < 300:
        return body
    text = f"{parts.netloc} answered {response.status}: {_sentence(body)}"
    if response.status in (408, 425, 429) or response.status >= 500:
        wait_s = retry_after_s(response.getheader("Retry-After"))
        is_full = response.status == INSUFFICIENT_STORAGE
        raise PortalError(text, is_full=is_full, retry_after_s=wait_s)
    raise PortalError(text, response.status)


def retry_after_s(header: Optional[str]) -> int:
    """How many seconds a server asks to wait by `Retry-After`, at most `MOST_RETRY_AFTER_S`; 0: it does not."""
    is_number = header and re.match(r"[0-9]{1,6}\Z", header)
    return min(MOST_RETRY_AFTER_S, int(header)) if header and is_number else 0


def _sentence(body: bytes) -> str:
    text = body[:2000].decode("utf-8", "replace")
    try:
        return str(json.loads(text)["errors"][0]["text"])
    except (ValueError, KeyError, IndexError, TypeError):
        return text[:200]


class RetryBudget:
    """How long to try again: for ever while the program runs, then for a bounded time.

    A signal handler writes `hard_deadline`, so plain attributes are polled and nothing is locked.

    Args:
        retry_s: how long after the program's end.
        full_retry_s: the same where it is a full disk that refuses, which takes a person to mend.
    """

    def __init__(self, retry_s: float, full_retry_s: float) -> None:
        self._retry_s = retry_s
        self._full_retry_s = full_retry_s
        self._is_spent = False  # what comes after what was given up is tried once
        self.ending_at: Optional[float] = None
        self.hard_deadline: Optional[float] = None

    def _limit(self, first_failure_at: float, is_full: bool) -> float:
        """The monotonic time after which a call that keeps failing is given up."""
        if self._is_spent:
            return first_failure_at
        limit = float("inf")
        if self.ending_at is not None:
            retry_s = self._full_retry_s if is_full else self._retry_s
            limit = max(first_failure_at, self.ending_at) + retry_s
        if self.hard_deadline is not None:
            limit = min(limit, self.hard_deadline)
        return limit

    def keep_trying(self, action: Callable[[], Any]) -> Any:
        """What the action returns; it is repeated with back-off while the portal is unreachable, and not before
        the time that it has asked for.

        Raises:
            PortalError: it is refused, or the budget is spent.
        """
        first_failure_at: Optional[float] = None
        pause_s = 1.0
        while True:
            try:
                return action()
            except PortalError as error:
                if error.status:
                    raise
                now = time.monotonic()
                first_failure_at = now if first_failure_at is None else first_failure_at
                again_at = now + max(pause_s, error.retry_after_s)
                while time.monotonic() < again_at:
                    if time.monotonic() >= self._limit(first_failure_at, error.is_full):
                        self._is_spent = True
                        raise
                    time.sleep(min(0.25, pause_s))
                pause_s = min(30.0, pause_s * 2)


def starting_budget(config: Dict[str, Any]) -> RetryBudget:
    """Of a pod that waits for the portal before its program can begin."""
    retry_s = min(STARTING_RETRY_S, float(config.get("retry_s") or STARTING_RETRY_S))
    budget = RetryBudget(retry_s, retry_s)
    budget.ending_at = time.monotonic()
    return budget
