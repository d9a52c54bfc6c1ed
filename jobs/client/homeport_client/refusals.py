"""Turns what a portal, or the way to it, says no with into errors in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import urllib3
from urllib3.exceptions import ConnectTimeoutError, MaxRetryError, NewConnectionError, SSLError

from .answers import parts
from .exits import (
    ERROR,
    NOT_FOUND,
    NOT_SIGNED_IN,
    REFUSED,
    ClientError,
    RefusedField,
    UnreachableError,
)
from .sanitize import one_line

MAX_REFUSALS = 250
_CODES = {401: NOT_SIGNED_IN, 404: NOT_FOUND}


def refused(url: str, status: int, answer: Any, path: str, *, has_token: bool) -> ClientError:
    """The error for an answer of 400 and more, as far as it has a form."""
    refusals = [
        RefusedField(
            str(row.get("field", "")),
            str(row.get("code", "")),
            str(row.get("text", "")),
            line if isinstance(line := row.get("line"), int) else 0,
        )
        for row in parts(answer, "errors")[:MAX_REFUSALS]
    ]
    text = "; ".join(one_line(refusal.text_with(refusal.field)) for refusal in refusals)
    if status in {502, 503, 504}:
        return UnreachableError(text or f"{url} is not ready (HTTP {status}).", "Try again later.")
    step = ""
    if status == 401 and has_token:
        text = "You are not signed in any more: " + (text or "the token is not known")
        step = f"Sign in again: homeport login {url}"
    elif status == 429:
        text, step = text or "Too many attempts.", "Wait a minute."
    elif status >= 500:
        text = f"Homeport has failed at it (HTTP {status}). {text}".rstrip()
        step = "Try again; tell your admin if it repeats."
    elif not refusals and status == 404:
        text = f"{url} has no {path.split('/')[0]!r}."
        step = "It may be older than this command, or no Homeport."
    elif not refusals:
        text = f"{url} refuses it (HTTP {status}) and does not say why."
    code = _CODES.get(status, REFUSED if status < 500 else ERROR)
    return ClientError(text, step, code, status=status, refusals=refusals)


def sent_elsewhere(url: str, location: str) -> ClientError:
    """A redirect, which no token follows."""
    return ClientError(
        f"{url} sends you elsewhere: {one_line(location)[:200]}",
        "Sign in at the address that it names, if that is your portal.",
    )


def not_homeport(url: str) -> ClientError:
    """An answer that no Homeport gives."""
    return ClientError(
        f"{url} does not answer as Homeport does.",
        "Check the address: homeport login URL; update this command if the portal is newer.",
    )


@contextmanager
def in_words(url: str, *, is_safe: bool = True) -> Iterator[None]:
    """What urllib3 raises inside becomes an error in words. `is_safe`: to ask twice does no harm."""
    try:
        yield
    except urllib3.exceptions.HTTPError as error:
        cause: BaseException = error
        while isinstance(cause, MaxRetryError) and cause.reason is not None:
            cause = cause.reason
        text = one_line(cause)
        if isinstance(cause, SSLError) or "CERTIFICATE_VERIFY_FAILED" in text:
            raise certificate_error(url, text) from error
        was_never_sent = isinstance(cause, (NewConnectionError, ConnectTimeoutError))
        raise UnreachableError(
            f"{url} cannot be reached: {_short(text)}",
            "Check the address and your network, or ask your admin whether the portal is up.",
            may_have_happened=not (was_never_sent or is_safe),
        ) from error


def certificate_error(url: str, text: str) -> ClientError:
    """A certificate that is not trusted is no lost connection: trying again is of no use."""
    return UnreachableError(
        f"The certificate of {url} is not trusted: {_short(text)}",
        "If it is your own: --ca-file FILE, or SSL_CERT_FILE=FILE in the environment.",
        is_final=True,
    )


def _short(text: str) -> str:
    """urllib3 begins with the name of an object: `<...HTTPConnection(...)>: what happened`."""
    return text.rpartition(">: ")[2][:300]
