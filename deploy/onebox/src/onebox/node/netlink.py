"""Network links, addresses, routes and rules by rtnetlink: what `ip link`, `ip addr`, `ip route` and
`ip rule` do.

Constants and layouts: linux/rtnetlink.h, linux/if_link.h, linux/fib_rules.h. IPv4 only.
"""

from __future__ import annotations

import os
import socket
import struct

_RTM_NEWLINK, _RTM_NEWADDR, _RTM_NEWROUTE, _RTM_NEWRULE = 16, 20, 24, 32
_NLM_REQUEST_ACK = 0x0005
_NLM_CREATE_EXCL = 0x0600
_NLM_CREATE_REPLACE = 0x0500
_IFLA_ADDRESS = 1
_IFLA_IFNAME, _IFLA_MASTER, _IFLA_LINKINFO, _IFLA_NET_NS_PID = 3, 10, 18, 19
_IFLA_INFO_KIND, _IFLA_INFO_DATA, _VETH_INFO_PEER = 1, 2, 1
_IFA_ADDRESS, _IFA_LOCAL = 1, 2
_RTA_DST, _RTA_OIF, _RTA_GATEWAY = 1, 4, 5
_IFF_UP = 1
_TABLE_MAIN, _TABLE_LOCAL = 254, 255
_SCOPE_UNIVERSE, _SCOPE_LINK, _SCOPE_HOST = 0, 253, 254
_FRA_IIFNAME, _FRA_PRIORITY = 3, 6
_ACTION_UNREACHABLE = 7
_TYPE_UNICAST, _TYPE_LOCAL = 1, 2
_PROTOCOL_BOOT = 3


def _attribute(kind: int, value: bytes | str | int) -> bytes:
    if isinstance(value, str):
        value = value.encode() + b"\0"
    elif isinstance(value, int):
        value = struct.pack("I", value)
    length = 4 + len(value)
    return struct.pack("HH", length, kind) + value + b"\0" * (-length % 4)


def _request(
    kind: int, body: bytes, what: str, *, create: bool = False, replace: bool = False
) -> None:
    flags = _NLM_REQUEST_ACK | (_NLM_CREATE_EXCL if create else 0)
    flags |= _NLM_CREATE_REPLACE if replace else 0
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as channel:
        channel.send(struct.pack("IHHII", 16 + len(body), kind, flags, 1, 0) + body)
        reply = channel.recv(65536)
    code: int = struct.unpack("i", reply[16:20])[0]
    if code:
        raise OSError(-code, f"{what}: {os.strerror(-code)}")


def _link_header(index: int = 0, *, up: bool = False) -> bytes:
    flag = _IFF_UP if up else 0
    return struct.pack("BxHiII", socket.AF_UNSPEC, 0, index, flag, flag)


BRIDGE_ADDRESS = bytes.fromhex("0a580af40001")  # locally administered; 10.244.0.1 is its end


def add_bridge(name: str) -> None:
    """Make a bridge and switch it on."""
    kind = _attribute(_IFLA_LINKINFO, _attribute(_IFLA_INFO_KIND, "bridge"))
    body = _link_header(up=True) + _attribute(_IFLA_IFNAME, name) + kind
    # Without one of its own a bridge takes the lowest address of its ports: when that pod goes, all
    # others would send to an address that is no more, until their neighbour entry is old.
    body += _attribute(_IFLA_ADDRESS, BRIDGE_ADDRESS)
    _request(_RTM_NEWLINK, body, f"make the bridge {name}", create=True)


def add_veth(name: str, bridge: str, peer: str, peer_pid: int) -> None:
    """Make a cable: `name` here, plugged into the bridge; `peer` in the process's network."""
    other_end = _link_header() + _attribute(_IFLA_IFNAME, peer)
    other_end += _attribute(_IFLA_NET_NS_PID, peer_pid)
    info = _attribute(_IFLA_INFO_KIND, "veth")
    info += _attribute(_IFLA_INFO_DATA, _attribute(_VETH_INFO_PEER, other_end))
    body = _link_header(up=True) + _attribute(_IFLA_IFNAME, name)
    body += _attribute(_IFLA_MASTER, socket.if_nametoindex(bridge))
    body += _attribute(_IFLA_LINKINFO, info)
    _request(_RTM_NEWLINK, body, f"make the link {name}", create=True)


def set_up(name: str) -> None:
    """Switch a link on."""
    header = _link_header(socket.if_nametoindex(name), up=True)
    _request(_RTM_NEWLINK, header, f"switch {name} on")


def add_address(name: str, ip: str, prefix_length: int) -> None:
    """Give a link an address."""
    index = socket.if_nametoindex(name)
    packed = socket.inet_aton(ip)
    body = struct.pack("BBBBi", socket.AF_INET, prefix_length, 0, 0, index)
    body += _attribute(_IFA_LOCAL, packed) + _attribute(_IFA_ADDRESS, packed)
    _request(_RTM_NEWADDR, body, f"give {name} the address {ip}", create=True)


def add_default_route(gateway: str) -> None:
    """Send everything that is not local to `gateway`."""
    body = _route(0, _TABLE_MAIN, _SCOPE_UNIVERSE, _TYPE_UNICAST)
    body += _attribute(_RTA_GATEWAY, socket.inet_aton(gateway))
    _request(_RTM_NEWROUTE, body, f"route to {gateway}", create=True)


def add_host_route(ip: str, name: str) -> None:
    """Reach one address through a link, whichever it was reached through before."""
    body = _route(32, _TABLE_MAIN, _SCOPE_LINK, _TYPE_UNICAST)
    body += _attribute(_RTA_DST, socket.inet_aton(ip))
    body += _attribute(_RTA_OIF, socket.if_nametoindex(name))
    _request(_RTM_NEWROUTE, body, f"route {ip} through {name}", replace=True)


def forbid_forwarding(name: str, priority: int) -> None:
    """Let nothing that comes in through a link go on to anywhere; this machine still answers.

    Whoever sends it is told that there is no way, at once.
    """
    body = struct.pack("BBBBBBBBI", socket.AF_INET, 0, 0, 0, 0, 0, 0, _ACTION_UNREACHABLE, 0)
    body += _attribute(_FRA_PRIORITY, priority) + _attribute(_FRA_IIFNAME, name)
    _request(_RTM_NEWRULE, body, f"close {name} in", create=True)


def add_local_network(network: str, prefix_length: int) -> None:
    """Make every address of a network one of this machine's own ("AnyIP"): any can be bound."""
    body = _route(prefix_length, _TABLE_LOCAL, _SCOPE_HOST, _TYPE_LOCAL)
    body += _attribute(_RTA_DST, socket.inet_aton(network))
    body += _attribute(_RTA_OIF, socket.if_nametoindex("lo"))
    _request(_RTM_NEWROUTE, body, f"take the network {network}/{prefix_length}", create=True)


def _route(prefix_length: int, table: int, scope: int, kind: int) -> bytes:
    lengths = (socket.AF_INET, prefix_length, 0, 0)
    return struct.pack("BBBBBBBBI", *lengths, table, _PROTOCOL_BOOT, scope, kind, 0)
