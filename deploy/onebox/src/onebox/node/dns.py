"""The cluster's name server: names of services and pods, as every cluster has them.

Specification of the names: https://github.com/kubernetes/dns/blob/master/docs/specification.md.
The wire format is RFC 1035, with the size option of RFC 6891. Names under cluster.local are answered
from memory; any other does not exist, at once, unless a forwarder is given (pods with egress).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from onebox.node.proxy import Listener

DOMAIN = "cluster.local"
TTL_S = 5

Forwarder = Callable[[bytes], Awaitable[bytes | None]]

_HEADER = struct.Struct("!6H")
_TYPE_A, _TYPE_AAAA, _TYPE_OPT, _TYPE_ANY, _CLASS_IN = 1, 28, 41, 255, 1
_FLAG_REPLY, _FLAG_AUTHORITATIVE, _FLAG_TRUNCATED = 0x8000, 0x0400, 0x0200
_FLAG_RECURSION_WANTED, _FLAG_RECURSION_AVAILABLE, _OPCODE_MASK = 0x0100, 0x0080, 0x7800
_OK, _FORMAT_ERROR, _SERVER_FAILURE, _NO_SUCH_NAME, _NOT_IMPLEMENTED = 0, 1, 2, 3, 4
_PLAIN_UDP_BYTES, _MOST_UDP_BYTES = 512, 4096
_TCP_IDLE_S = 10.0
_FORWARD_TIMEOUT_S = 2.0
_MOST_FORWARDED = 256


class _MalformedError(Exception):
    """A packet that is no question."""


@dataclass(frozen=True)
class Question:
    """A question as asked; `raw` is its encoding, repeated in the reply.

    Args:
        udp_bytes: how long a reply over UDP may be.
    """

    number: int
    flags: int
    name: str
    kind: int
    raw: bytes
    udp_bytes: int
    has_options: bool


def parse_question(packet: bytes) -> Question:
    """Read a query; raises _MalformedError where it is none."""
    if len(packet) < _HEADER.size:
        raise _MalformedError
    number, flags, questions, _answers, _authorities, extra = _HEADER.unpack_from(packet)
    if flags & _FLAG_REPLY or questions != 1:
        raise _MalformedError
    labels = []
    position = _HEADER.size
    while True:
        if position >= len(packet):
            raise _MalformedError
        length = packet[position]
        position += 1
        if length == 0:
            break
        if length > 63 or position + length > len(packet):
            raise _MalformedError
        labels.append(packet[position : position + length].decode("ascii", "replace").lower())
        position += length
    if position + 4 > len(packet):
        raise _MalformedError
    kind = struct.unpack_from("!H", packet, position)[0]
    end = position + 4
    udp_bytes, has_options = _PLAIN_UDP_BYTES, False
    # Clients put the size option right behind the question.
    if extra and len(packet) >= end + 11 and packet[end] == 0:
        extra_kind, size = struct.unpack_from("!HH", packet, end + 1)
        if extra_kind == _TYPE_OPT:
            has_options = True
            udp_bytes = min(_MOST_UDP_BYTES, max(_PLAIN_UDP_BYTES, size))
    raw = packet[_HEADER.size : end]
    return Question(number, flags, ".".join(labels), kind, raw, udp_bytes, has_options)


def build_reply(question: Question, code: int, ips: Sequence[str], limit_bytes: int) -> bytes:
    """Return the reply with these addresses; marked truncated where it would exceed the limit."""
    # 0xC00C: "the name at offset 12", that is the question's.
    answer = struct.Struct("!HHHIH4s")
    answers = [
        answer.pack(0xC00C, _TYPE_A, _CLASS_IN, TTL_S, 4, socket.inet_aton(ip)) for ip in ips
    ]
    options = b""
    if question.has_options:
        options = b"\0" + struct.pack("!HHIH", _TYPE_OPT, _MOST_UDP_BYTES, 0, 0)
    flags = _FLAG_REPLY | _FLAG_AUTHORITATIVE | _FLAG_RECURSION_AVAILABLE | code
    flags |= question.flags & (_FLAG_RECURSION_WANTED | _OPCODE_MASK)
    size = _HEADER.size + len(question.raw) + sum(map(len, answers)) + len(options)
    if size > limit_bytes:
        flags |= _FLAG_TRUNCATED
        answers = []
    counts = (1, len(answers), 0, 1 if options else 0)
    header = _HEADER.pack(question.number, flags, *counts)
    return header + question.raw + b"".join(answers) + options


class Zone:
    """The names of the cluster; each belongs to an owner (a service), which replaces them whole."""

    def __init__(self) -> None:
        self._by_owner: dict[tuple[str, str], Mapping[str, Sequence[str]]] = {}
        self._by_name: dict[str, Sequence[str]] = {}

    def set(self, owner: tuple[str, str], names: Mapping[str, Sequence[str]]) -> None:
        """Replace the names of an owner: full name without the last dot -> addresses."""
        for name in self._by_owner.get(owner, {}):
            self._by_name.pop(name, None)
        lowered = {name.lower(): tuple(ips) for name, ips in names.items()}
        self._by_owner[owner] = lowered
        self._by_name.update(lowered)

    def remove(self, owner: tuple[str, str]) -> None:
        """Forget the names of an owner."""
        self.set(owner, {})
        del self._by_owner[owner]

    def find(self, name: str) -> Sequence[str] | None:
        """Return a name's addresses (perhaps none); None: there is no such name."""
        return self._by_name.get(name)


class NameServer:
    """Answers over UDP and TCP.

    Args:
        forwarder: asked for names outside the cluster; None: there are none.
    """

    def __init__(self, zone: Zone, forwarder: Forwarder | None = None) -> None:
        self._zone = zone
        self._forwarder = forwarder
        self._forwarding = 0
        self._transport: asyncio.DatagramTransport | None = None
        self._listener: Listener | None = None

    async def start(self, datagram: socket.socket, server: socket.socket) -> None:
        """Serve on a bound UDP socket and a listening TCP socket; owns both."""
        loop = asyncio.get_running_loop()
        self._transport, _protocol = await loop.create_datagram_endpoint(
            lambda: _Datagrams(self), sock=datagram
        )
        self._listener = Listener(server, self._serve_stream)

    async def close(self) -> None:
        """Stop serving."""
        if self._transport is not None:
            self._transport.close()
        if self._listener is not None:
            await self._listener.close()

    def answer(self, packet: bytes, *, over_tcp: bool) -> bytes | None:
        """Return the reply to a query, b"" where none is due, None where it must be forwarded."""
        try:
            question = parse_question(packet)
        except _MalformedError:
            if len(packet) < _HEADER.size or packet[2] & 0x80:
                return b""
            flags = _FLAG_REPLY | _FORMAT_ERROR
            return packet[:2] + _HEADER.pack(0, flags, 0, 0, 0, 0)[2:]
        limit = 65535 if over_tcp else question.udp_bytes
        if question.flags & _OPCODE_MASK:
            return build_reply(question, _NOT_IMPLEMENTED, (), limit)
        if not _is_ours(question.name):
            if self._forwarder is not None and self._forwarding < _MOST_FORWARDED:
                return None
            return build_reply(question, _NO_SUCH_NAME, (), limit)
        ips = self._zone.find(question.name)
        if ips is None:
            return build_reply(question, _NO_SUCH_NAME, (), limit)
        if question.kind not in (_TYPE_A, _TYPE_ANY):
            return build_reply(question, _OK, (), limit)
        # Clients that take the first address are spread over all.
        shuffled = random.sample(ips, len(ips))
        return build_reply(question, _OK, shuffled, limit)

    async def forward(self, packet: bytes, *, over_tcp: bool) -> bytes:
        """Return what the forwarder says to a query that `answer` did not answer."""
        question = parse_question(packet)
        limit = 65535 if over_tcp else question.udp_bytes
        if self._forwarder is None:
            return build_reply(question, _NO_SUCH_NAME, (), limit)
        self._forwarding += 1
        try:
            reply = await self._forwarder(packet)
        finally:
            self._forwarding -= 1
        if reply is None:
            return build_reply(question, _SERVER_FAILURE, (), limit)
        if len(reply) > limit:
            return build_reply(question, _OK, (), limit_bytes=0)  # truncated: ask again by TCP
        return reply

    async def _serve_stream(self, connection: socket.socket) -> None:
        """Serve queries over TCP, each behind its length, until the client stops asking."""
        loop = asyncio.get_running_loop()
        data = b""
        while True:
            while len(data) < 2 or len(data) < 2 + int.from_bytes(data[:2], "big"):
                async with asyncio.timeout(_TCP_IDLE_S):
                    part = await loop.sock_recv(connection, 65537)
                if not part:
                    return
                data += part
            size = int.from_bytes(data[:2], "big")
            packet, data = data[2 : 2 + size], data[2 + size :]
            reply = self.answer(packet, over_tcp=True)
            if reply is None:
                reply = await self.forward(packet, over_tcp=True)
            if not reply:
                return
            await loop.sock_sendall(connection, len(reply).to_bytes(2, "big") + reply)


class _Datagrams(asyncio.DatagramProtocol):
    """The UDP side of a name server."""

    def __init__(self, server: NameServer) -> None:
        self._server = server
        self._transport: asyncio.DatagramTransport | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # On Python 3.11 the transport of a datagram socket is no subclass of DatagramTransport.
        self._transport = cast("asyncio.DatagramTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        for task in self._tasks:
            task.cancel()

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        reply = self._server.answer(data, over_tcp=False)
        if reply:
            self._send(reply, addr)
        elif reply is None:
            task = asyncio.get_running_loop().create_task(self._forward(data, addr))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(self, data: bytes, addr: tuple[str, int]) -> None:
        self._send(await self._server.forward(data, over_tcp=False), addr)

    def _send(self, reply: bytes, addr: tuple[str, int]) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.sendto(reply, addr)


def _is_ours(name: str) -> bool:
    """Whether no one else may answer: the cluster's domain, and addresses backwards."""
    return name.endswith(("." + DOMAIN, ".in-addr.arpa", ".ip6.arpa")) or name == DOMAIN


def read_resolvers(path: Path = Path("/etc/resolv.conf")) -> tuple[str, ...]:
    """Return the addresses of the host's own name servers, IPv4 only, at most three."""
    found = []
    with contextlib.suppress(OSError):
        for line in path.read_text().splitlines():
            words = line.split()
            if len(words) >= 2 and words[0] == "nameserver" and ":" not in words[1]:
                found.append(words[1])
    return tuple(found[:3])


class HostResolvers:
    """A forwarder: asks the host's name servers, from the host's network, one after the other."""

    def __init__(self, servers: Sequence[str], port: int = 53) -> None:
        self._servers = servers
        self._port = port

    async def __call__(self, packet: bytes) -> bytes | None:
        """Return the reply; None where no server gives one."""
        for server in self._servers:
            with contextlib.suppress(OSError):
                async with asyncio.timeout(_FORWARD_TIMEOUT_S):
                    return await self._ask(server, packet)
        return None

    async def _ask(self, server: str, packet: bytes) -> bytes:
        loop = asyncio.get_running_loop()
        # A number of our own: the client's is known to the pod, which could forge replies.
        number = random.SystemRandom().randbytes(2)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
            channel.setblocking(False)
            await loop.sock_connect(channel, (server, self._port))
            await loop.sock_sendall(channel, number + packet[2:])
            while True:
                reply = await loop.sock_recv(channel, 65535)
                if reply[:2] == number:
                    return packet[:2] + reply[2:]
