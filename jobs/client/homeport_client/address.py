"""Which addresses a token may be sent to: https ones, and http only on this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from .exits import ClientError, usage_error


def is_this_machine(host: str) -> bool:
    """Whether a host name is this machine by its name alone, so that nobody can listen between."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def parse_address(text: str) -> str:
    """The address of a portal as `scheme://host[:port]`.

    Raises:
        ClientError: not an address, or one to which no token should be sent.
    """
    given = text.strip()
    if "://" not in given:
        host = given.partition("/")[0].rpartition(":")[0] or given.partition("/")[0]
        given = f"{'http' if is_this_machine(host) else 'https'}://{given}"
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError as error:
        raise _no_address(text) from error
    host = (parts.hostname or "").rstrip(".")
    is_plain = all(letter.isalnum() or letter in "-._:" for letter in host)
    if parts.scheme not in {"http", "https"} or not host or not is_plain or not host.isascii():
        raise _no_address(text)
    if parts.username is not None or parts.password is not None:
        raise usage_error(
            "An address must hold no name and no password.",
            f"Write {parts.scheme}://{host} and give the name with --user.",
        )
    if parts.scheme == "http" and not is_this_machine(host):
        raise usage_error(
            f"{host} would get your token over an unencrypted connection.",
            f"Use https://{host}; if its certificate is your own, say --ca-file FILE.",
        )
    name = f"[{host}]" if ":" in host else host
    is_default = port in {None, 80 if parts.scheme == "http" else 443}
    return f"{parts.scheme}://{name}" + ("" if is_default else f":{port}")


def _no_address(text: str) -> ClientError:
    return usage_error(
        f"{text[:80]!r} is not an address of a portal.", "Write for example https://homeport.lab."
    )
