# ruff: noqa: N818 (each class names the situation; "Error" would add nothing)
"""What can go wrong in a call to Kubernetes, one class per thing a caller decides about.

The classes hide the HTTP library: a caller sees a `ClusterError` whatever happened. Rules of the
server's answers: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/
"""

import math
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any


class ClusterError(Exception):
    """A call did not do what was asked.

    Attributes:
        status: HTTP status; 0 when there was no answer at all.
        reason: the one word of the Status object, such as `AlreadyExists`.
        message: a sentence.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message


class CredentialsError(ClusterError):
    """There is no usable kubeconfig and no in-cluster account; nothing was called."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "NoCredentials", message)


class NotFound(ClusterError):
    """No object of that name."""


class AlreadyExists(ClusterError):
    """An object of that name is there already."""


class Conflict(ClusterError):
    """The object changed meanwhile, or belongs to somebody else."""


class Invalid(ClusterError):
    """The server understood and refuses the object as it is (400, 415, 422)."""


class Forbidden(ClusterError):
    """Our account may not, or an admission rule says no."""


class QuotaExceeded(Forbidden):
    """A ResourceQuota of the namespace says no (or has not been counted yet)."""


class TooManyRequests(ClusterError):
    """The server asks us to wait `retry_after_s` seconds; nothing was done."""

    def __init__(self, status: int, reason: str, message: str, retry_after_s: float = 1.0) -> None:
        super().__init__(status, reason, message)
        self.retry_after_s = retry_after_s


class Gone(ClusterError):
    """The resourceVersion or continue token is too old: list again (410)."""


class Unavailable(ClusterError):
    """No connection, no answer in time, or 5xx. A write may have been done all the same."""


_MAX_WAIT_S = 300.0  # a server that asks for more is asked again after this
_QUOTA_WORDS = ("exceeded quota", "status unknown for quota", "insufficient quota")


def retry_after_s(header: str | None, now: datetime | None = None) -> float:
    """Seconds to wait of a Retry-After header: a number, a date, or (garbage, absent) 1."""
    text = (header or "").strip()
    try:
        wait_s = float(text)
    except ValueError:
        try:
            when = parsedate_to_datetime(text)
        except ValueError:
            return 1.0
        if when.tzinfo is None:
            when = when.replace(tzinfo=UTC)
        wait_s = when.timestamp() - (now.timestamp() if now else time.time())
    if math.isnan(wait_s):
        return 1.0
    return min(max(wait_s, 0.0), _MAX_WAIT_S)


def error_of(status: int, body: Mapping[str, Any], headers: Mapping[str, str]) -> ClusterError:
    """The error that an HTTP answer of 400 or above stands for.

    Args:
        status: the HTTP status.
        body: the Status object; empty when the answer held none.
        headers: of the answer, for Retry-After.
    """
    reason = str(body.get("reason") or "")
    message = str(body.get("message") or f"the cluster answered {status} without a reason")
    if status == 404:
        return NotFound(status, reason or "NotFound", message)
    if status == 409 and reason == "AlreadyExists":
        return AlreadyExists(status, reason, message)
    if status == 409:
        return Conflict(status, reason or "Conflict", message)
    if status in {400, 415, 422}:
        return Invalid(status, reason or "Invalid", message)
    if status == 403 and any(word in message for word in _QUOTA_WORDS):
        return QuotaExceeded(status, reason or "Forbidden", message)
    if status == 403:
        return Forbidden(status, reason or "Forbidden", message)
    if status == 429:
        wait_s = retry_after_s(headers.get("Retry-After"))
        return TooManyRequests(status, reason or "TooManyRequests", message, wait_s)
    if status == 410:
        return Gone(status, reason or "Expired", message)
    if status >= 500:
        return Unavailable(status, reason or "ServerError", message)
    return ClusterError(status, reason or "Unknown", message)
