"""Websockets of the portal: opens them with a token, and says in words why one is over."""

from __future__ import annotations

import ssl
from typing import Any
from urllib.parse import urlencode

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, InvalidURI
from websockets.sync.client import ClientConnection, connect

from .exits import NOT_FOUND, NOT_SIGNED_IN, REFUSED, ClientError
from .refusals import certificate_error, not_homeport
from .rest import Query, Rest, tls_context
from .sanitize import one_line
from .tls_socket import SharedTlsSocket

MAX_FRAME_BYTES = 32 * 1024**2
# What a lost, refused or silent connection looks like; worth another try.
LOST = (ConnectionClosed, InvalidHandshake, OSError, EOFError, TimeoutError)
_FORBIDDEN = (401, 403)
_BUSY = (429, 500, 502, 503, 504)


def open_socket(rest: Rest, path: str, query: Query | None = None) -> ClientConnection:
    """A websocket at `/ws/<path>`, which a `with` closes.

    Raises:
        ClientError: trying again is of no use.
        LOST: it may be.
    """
    asked = {key: value for key, value in (query or {}).items() if value}
    url = "ws" + rest.url[len("http") :] + f"/ws/{path}" + (f"?{urlencode(asked)}" if asked else "")
    options: dict[str, Any] = {}
    if url.startswith("wss:"):
        options["ssl"] = tls_context(rest.ca_file)
        options["ssl"].sslsocket_class = SharedTlsSocket
    try:
        opened: ClientConnection = connect(
            url,
            additional_headers={"Authorization": rest.headers["Authorization"]},
            user_agent_header=rest.headers["User-Agent"],
            max_size=MAX_FRAME_BYTES,
            open_timeout=15,
            close_timeout=2,
            **options,
        )
    except InvalidStatus as error:
        status = error.response.status_code
        if status in _BUSY:
            raise
        if status in _FORBIDDEN:
            raise ClientError(
                f"{rest.url} refuses the connection for logs (HTTP {status}).",
                f"Sign in again: homeport login {rest.url}",
                NOT_SIGNED_IN,
            ) from error
        raise not_homeport(rest.url) from error
    except InvalidURI as error:
        raise not_homeport(rest.url) from error
    except ssl.SSLCertVerificationError as error:
        raise certificate_error(rest.url, one_line(error)) from error
    return opened


def give_up_on(closed: ConnectionClosed, rest: Rest, what: str) -> None:
    """Raises ClientError where a close code says that trying again is of no use."""
    code = closed.rcvd.code if closed.rcvd is not None else None
    if code == 4401:
        raise ClientError(
            "You are not signed in any more.",
            f"Sign in again: homeport login {rest.url}",
            NOT_SIGNED_IN,
        ) from closed
    if code == 4404:
        raise ClientError(f"{what} no longer exists.", "", NOT_FOUND) from closed
    if code == 1009:
        raise ClientError("The portal refuses what was sent.", "", REFUSED) from closed
