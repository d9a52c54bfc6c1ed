"""Which addresses code may be fetched from, and how one is named in sentences that others read."""

import ipaddress
import socket
from collections.abc import Collection
from urllib.parse import urlsplit

from jobs.pod.errors import PodError
from jobs.pod.protocol import codes

_PORTS = {"https": 443, "ssh": 22}
# Half a minute in all: where policies are enforced, the network lets a new pod through seconds after it began.
TRIES = 5


def pause_s(attempt: int) -> float:
    """Before a try that follows others; 0 is the first."""
    return 2.0**attempt if attempt else 0.0


def unreachable(text: str) -> PodError:
    return PodError(codes.SOURCE_UNREACHABLE, text)


def check_url(url: str, schemes: Collection[str] = ("http", "https")) -> None:
    """Refuses what is no address of these schemes, and what leads to the node's own services.

    Which hosts can be reached is for the network policy to say; this catches only addresses that
    never hold code: link-local ones (the metadata service of clouds), unspecified, multicast.

    Raises:
        PodError: source_unreachable, in words.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORTS.get(parts.scheme, 80)
    except ValueError as error:
        raise unreachable(f"{shown(url)} is no web address") from error
    if parts.scheme not in schemes or not host:
        raise unreachable(f"{shown(url)} is no web address; it must begin with https://")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return  # perhaps a proxy knows the name; if not, opening it says so
    for row in found:
        address = ipaddress.ip_address(str(row[4][0]).split("%")[0])
        address = getattr(address, "ipv4_mapped", None) or address
        if address.is_link_local or address.is_multicast or address.is_unspecified:
            text = f"{shown(url)} leads to {address}, which holds no code"
            raise unreachable(text)


def shown(url: str) -> str:
    """The address without what may be secret in it: user, password, path, query."""
    try:
        parts = urlsplit(url)
        host = parts.netloc.rsplit("@", 1)[-1]
    except ValueError:
        return "the address"
    return f"{parts.scheme}://{host}"[:300]
