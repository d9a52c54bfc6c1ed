"""The way out for pods: an HTTP proxy at 10.244.0.1:3128, switched on by the operator.

It serves CONNECT (https) and plain http requests with an absolute URL. It dials from the host's
network and only public addresses: never this host itself, the cluster, the local network, or cloud
metadata. The address that was checked is the one that is dialled.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Iterable, Sequence
from urllib.parse import urlsplit

from onebox.node.proxy import Dial, dial_host, prepare, relay
from onebox.node.spec import GATEWAY_IP

EGRESS_PORT = 3128

_HEAD_BYTES = 64 * 1024
_HEAD_TIMEOUT_S = 20.0
_CONNECT_TIMEOUT_S = 15.0
# What is never the internet, in our own words: Python's differ with its patch releases. The policy of
# a namespace on other clusters has the same list (tenants/manifests.py).
CLOSED_CIDRS = (
    "0.0.0.0/8",
    "100.64.0.0/10",  # between a provider and its customers; 100.100.100.200: metadata at Alibaba
    "127.0.0.0/8",
    "168.63.129.16/32",  # the host agent at Azure
    "169.254.0.0/16",  # link-local; 169.254.169.254: metadata, with the node's credentials
    "192.0.0.0/24",  # 192.0.0.192: metadata at Oracle
    "192.0.2.0/24",
    "192.88.99.0/24",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/4",
    "240.0.0.0/4",
    "::/128",
    "::1/128",
    "64:ff9b:1::/48",
    "100::/64",
    "2001::/23",
    "2001:db8::/32",
    "3fff::/20",
    "5f00::/16",
    "fc00::/7",
    "fe80::/10",
    "fec0::/10",
    "ff00::/8",
)
# Of labs and homes; on other clusters CLUSTER_CIDRS names them.
PRIVATE_CIDRS = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")
_CLOSED = tuple(map(ipaddress.ip_network, (*CLOSED_CIDRS, *PRIVATE_CIDRS)))
# All of IPv6 that is given out to anybody.
_IPV6_INTERNET = ipaddress.IPv6Network("2000::/3")
# An IPv6 address of this network stands for the IPv4 address in its last four bytes (RFC 6052).
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class EgressRefused(Exception):  # noqa: N818 - becomes an HTTP answer
    """A request that is not served, with the HTTP status line's number and words."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(text)
        self.status = status


def is_public(address: Address) -> bool:
    """Whether an address lies in the public internet and is not one of this host's own."""
    if isinstance(address, ipaddress.IPv6Address):
        if address in _NAT64:
            return is_public(ipaddress.IPv4Address(address.packed[-4:]))
        inner = address.ipv4_mapped or address.sixtofour
        if inner is not None:
            return is_public(inner)
        if address not in _IPV6_INTERNET:
            return False
    return not any(address in network for network in _CLOSED) and not _is_own(address)


def _is_own(address: Address) -> bool:
    """Whether this host has the address: only then can a socket be bound to it."""
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((str(address), 0))
        except OSError:
            return False
    return True


def egress_env(names: Iterable[str] = ()) -> dict[str, str]:
    """Return the environment that makes programs use the proxy.

    Args:
        names: every name by which peers in the cluster are addressed; no_proxy matches whole
            names and, in most programs, what ends in them.

    gRPC would send even cluster traffic through the proxy, hence the empty grpc_proxy.
    """
    url = f"http://{GATEWAY_IP}:{EGRESS_PORT}"
    own = ("localhost", "127.0.0.1", "::1", GATEWAY_IP, ".svc", ".cluster.local", "cluster.local")
    exceptions = ",".join(dict.fromkeys((*own, *names)))
    env = {"grpc_proxy": "", "no_proxy": exceptions, "NO_PROXY": exceptions}
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        env[name] = url
    return env


def parse_target(line: str) -> tuple[str, int, str]:
    """Read a request line.

    Returns:
        (host, port, request line for the server; "" for CONNECT).

    Raises:
        EgressRefused: not a request that a proxy serves.
    """
    words = line.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise EgressRefused("400 Bad Request", "this is a proxy for HTTP/1.1")
    method, target, version = words
    try:
        if method == "CONNECT":
            parts = urlsplit("//" + target)
            host, port = parts.hostname, parts.port
            onward = ""
        else:
            parts = urlsplit(target)
            host, port = parts.hostname, parts.port or 80
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            onward = f"{method} {path} {version}"
            if parts.scheme != "http":
                host = None
    except ValueError:
        host = port = None
    if not host or not port:
        raise EgressRefused("400 Bad Request", f"cannot tell the target of {target[:200]!r}")
    return host, port, onward


def rewrite_head(onward: str, head: bytes) -> bytes:
    """Return a plain request's head for the server: own request line, one request only."""
    dropped = (b"proxy-connection:", b"proxy-authorization:", b"connection:")
    lines = head.split(b"\r\n")[1:]
    kept = [line for line in lines if line and not line.lower().startswith(dropped)]
    return b"\r\n".join([onward.encode("latin-1"), *kept, b"Connection: close", b"", b""])


class Egress:
    """A connection handler that is an HTTP proxy.

    Args:
        is_allowed: decides about an address before it is dialled.
    """

    def __init__(
        self, is_allowed: Callable[[Address], bool] = is_public, dial: Dial | None = None
    ) -> None:
        self._is_allowed = is_allowed
        self._dial = dial or dial_host

    async def __call__(self, client: socket.socket) -> None:
        """Serve one connection."""
        loop = asyncio.get_running_loop()
        try:
            head, rest = await _read_head(client)
            host, port, onward = parse_target(head.split(b"\r\n")[0].decode("latin-1"))
            upstream = await self._connect(host, port)
        except EgressRefused as refusal:
            body = f"{refusal}\n".encode()
            answer = f"HTTP/1.1 {refusal.status}\r\nContent-Type: text/plain; charset=utf-8\r\n"
            answer += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            await loop.sock_sendall(client, answer.encode() + body)
            return
        prepare(upstream)
        try:
            if onward:
                await loop.sock_sendall(upstream, rewrite_head(onward, head) + rest)
            else:
                await loop.sock_sendall(client, b"HTTP/1.1 200 Connection established\r\n\r\n")
                if rest:
                    await loop.sock_sendall(upstream, rest)
        except BaseException:
            upstream.close()
            raise
        await relay(client, upstream)

    async def _connect(self, host: str, port: int) -> socket.socket:
        addresses = await self._resolve(host, port)
        allowed = [address for address in addresses if self._is_allowed(address)]
        if not allowed:
            text = (
                f"{host} is not in the public internet; pods reach only that through this proxy. "
                "Names of the cluster are reached directly: put them into no_proxy"
            )
            raise EgressRefused("403 Forbidden", text)
        problem: OSError = OSError("no address")
        for address in allowed:
            try:
                async with asyncio.timeout(_CONNECT_TIMEOUT_S):
                    return await self._dial(str(address), port)
            except OSError as error:
                problem = error
        text = f"{host}:{port} does not answer: {problem or 'timed out'}"
        raise EgressRefused("502 Bad Gateway", text)

    async def _resolve(self, host: str, port: int) -> Sequence[Address]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            text = f"{host} cannot be resolved: {error}"
            raise EgressRefused("502 Bad Gateway", text) from error
        # IPv4 first: many machines have IPv6 addresses that lead nowhere.
        addresses = [ipaddress.ip_address(entry[4][0]) for entry in found]
        return sorted(dict.fromkeys(addresses), key=lambda address: address.version)


async def _read_head(client: socket.socket) -> tuple[bytes, bytes]:
    """Return a request's head, without the empty line at its end, and what came behind it."""
    loop = asyncio.get_running_loop()
    data = b""
    async with asyncio.timeout(_HEAD_TIMEOUT_S):
        while b"\r\n\r\n" not in data:
            if len(data) > _HEAD_BYTES:
                raise EgressRefused("431 Request Header Fields Too Large", "the head is too long")
            part = await loop.sock_recv(client, 65536)
            if not part:
                raise ConnectionResetError("the client went away")
            data += part
    head, _, rest = data.partition(b"\r\n\r\n")
    return head, rest
