"""Socket addresses as the kernel takes them: reading and rebuilding. Pure."""

from __future__ import annotations

import socket

_MAPPED = b"\0" * 10 + b"\xff\xff"
_ANY6, _LOCAL6 = b"\0" * 16, b"\0" * 15 + b"\x01"
ANY4 = b"\0" * 4


def family_of(address: bytes) -> int:
    """Return the family; -1 where there is none."""
    return int.from_bytes(address[:2], "little") if len(address) >= 2 else -1


def port_of(address: bytes) -> int:
    """Return the port of an address of IPv4 or IPv6."""
    return int.from_bytes(address[2:4], "big")


def ip4_of(address: bytes) -> bytes | None:
    """Return the IPv4 address that is meant, all addresses for IPv6's own and any; else None."""
    if family_of(address) == socket.AF_INET:
        return address[4:8] if len(address) >= 8 else None
    ip = address[8:24]
    if ip in (_ANY6, _LOCAL6):
        return ANY4
    return ip[12:] if ip[:12] == _MAPPED and len(ip) == 16 else None


def path_of(address: bytes) -> bytes:
    """Return the path of a local socket; empty for one without (abstract names)."""
    return address[2:].split(b"\0", 1)[0]


def rebuilt(address: bytes, ip: bytes, port: int) -> bytes:
    """Return an address of the same family with another IPv4 address and port."""
    head = address[:2] + port.to_bytes(2, "big")
    if family_of(address) == socket.AF_INET:
        return head + ip + address[8:]
    return head + address[4:8] + _MAPPED + ip + address[24:]


def made(family: int, ip: bytes) -> bytes:
    """Return an address with port 0."""
    head = family.to_bytes(2, "little")
    if family == socket.AF_INET:
        return head + bytes(2) + ip + bytes(8)
    return head + bytes(6) + _MAPPED + ip + bytes(4)


def nowhere(address: bytes) -> bytes:
    """Return an address of IPv6 at which a socket for IPv6 alone can be open, and nobody calls."""
    return address[:2] + bytes(6) + _LOCAL6 + address[24:]
