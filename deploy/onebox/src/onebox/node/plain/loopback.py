"""Where the cluster's addresses really lie when there is no network of its own: in 127.0.0.0/8.

Every address of 127/8 is the machine's own and can be bound without rights. A block of two networks
stands for the pods' and the services': 10.244.a.b is 127.88.a.b, 10.96.a.b is 127.89.a.b. Programs
hear the cluster's addresses (from names, variables, the API); what they connect to is translated.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass

from onebox.node.spec import GATEWAY_IP

# The first of each block's two networks; a second onebox on the machine takes the next block.
BLOCKS = range(88, 126, 2)
FIRST_PLAIN_PORT = 1024
_LOW_PORTS_AT = 64512
_GATEWAY_PORTS_AT, _GATEWAY_PORTS = 61000, 3500
_PODS, _SERVICES = bytes((10, 244)), bytes((10, 96))
_GATEWAY = socket.inet_aton(GATEWAY_IP)


@dataclass(frozen=True)
class Loopback:
    """The translation of addresses.

    Args:
        block: second number of the pods' addresses.
        moves_low_ports: ports below 1024 cannot be bound here and are moved to high ones.
    """

    block: int
    moves_low_ports: bool

    def real(self, ip: bytes) -> bytes:
        """Return where an address of the cluster lies (four bytes each); others stay."""
        if ip[:2] == _PODS:
            return bytes((127, self.block)) + ip[2:]
        if ip[:2] == _SERVICES:
            return bytes((127, self.block + 1)) + ip[2:]
        return ip

    def is_of_cluster(self, real_ip: bytes) -> bool:
        """Whether a real address stands for one of the cluster's."""
        return real_ip[0] == 127 and real_ip[1] in (self.block, self.block + 1)

    def real_port(self, real_ip: bytes, port: int) -> int:
        """Return the port that stands for `port` at an address of the cluster."""
        if 0 < port < FIRST_PLAIN_PORT:
            return _LOW_PORTS_AT + port if self.moves_low_ports else port
        if 0 < port < _GATEWAY_PORTS_AT and real_ip == self.real(_GATEWAY):
            # A program of the machine may listen on all addresses at such a port: the portal.
            return _GATEWAY_PORTS_AT + port % _GATEWAY_PORTS
        return port

    def locate(self, ip: str, port: int) -> tuple[str, int]:
        """Return the real address and port of one in the cluster network.

        Raises:
            OSError: `ip` is no IPv4 address.
        """
        real = self.real(socket.inet_aton(ip))
        if not self.is_of_cluster(real):
            return ip, port
        return socket.inet_ntoa(real), self.real_port(real, port)
