"""Cluster addresses and node ports of Services.

What is taken is read from the stored Services, so nothing can leak and nothing has to be
repaired: an address is free again the moment its Service is gone.
"""

from __future__ import annotations

import ipaddress
import random
from collections import Counter
from collections.abc import Iterator

from onebox.api.resources import Obj
from onebox.api.store import Change, Store

SERVICE_NETWORK = ipaddress.IPv4Network("10.96.0.0/16")
NODE_PORTS = range(30000, 32768)

# .1 is where upstream has the API itself, .10 its DNS: programs with built-in habits must not
# find somebody's Service there.
_RESERVED = (1, 10)


class AllocationError(Exception):
    """An address or port that cannot be given; the message is upstream's."""


class RangeFullError(AllocationError):
    """Nothing is left to give."""

    def __init__(self) -> None:
        super().__init__("range is full")


def _taken(service: Obj) -> Iterator[str | int]:
    spec = service.get("spec", {})
    for address in spec.get("clusterIPs", ()):
        if address != "None":
            yield address
    for port in spec.get("ports", ()):
        if port.get("nodePort"):
            yield port["nodePort"]
    if spec.get("healthCheckNodePort"):
        yield spec["healthCheckNodePort"]


class Allocator:
    """Gives out addresses and ports, following the Services in the store."""

    def __init__(
        self,
        store: Store,
        *,
        network: ipaddress.IPv4Network = SERVICE_NETWORK,
        node_ports: range = NODE_PORTS,
    ) -> None:
        self.network = network
        self.node_ports = node_ports
        self._used: Counter[str | int] = Counter()
        for service in store.list("services"):
            self._used.update(_taken(service))
        store.subscribe(self._follow)

    def _follow(self, change: Change) -> None:
        if change.plural != "services":
            return
        if change.previous is not None:
            self._used.subtract(_taken(change.previous))
        if change.type != "DELETED":
            self._used.update(_taken(change.obj))
        self._used = +self._used

    def pick_address(self) -> str:
        """Give a free cluster address.

        Raises:
            RangeFullError: none is left.
        """
        count = self.network.num_addresses
        start = random.randrange(count)
        for step in range(count):
            offset = (start + step) % count
            address = str(self.network[offset])
            if self._is_usable(offset) and not self._used[address]:
                return address
        raise RangeFullError

    def _is_usable(self, offset: int) -> bool:
        return 0 < offset < self.network.num_addresses - 1 and offset not in _RESERVED

    def check_address(self, address: str) -> None:
        """Check an address that a user asks for.

        Raises:
            AllocationError: it is outside the network or taken.
        """
        try:
            offset = int(ipaddress.IPv4Address(address)) - int(self.network.network_address)
        except ValueError:
            offset = -1
        if not self._is_usable(offset):
            raise AllocationError(
                f"the provided IP ({address}) is not in the valid range. "
                f"The range of valid IPs is {self.network}"
            )
        if self._used[address]:
            raise AllocationError("provided IP is already allocated")

    def pick_port(self, besides: set[int]) -> int:
        """Give a free node port that is not in `besides` either.

        Raises:
            RangeFullError: none is left.
        """
        ports = self.node_ports
        start = random.randrange(len(ports))
        for step in range(len(ports)):
            port = ports[(start + step) % len(ports)]
            if not self._used[port] and port not in besides:
                return port
        raise RangeFullError

    def check_port(self, port: int) -> None:
        """Check a node port that a user asks for.

        Raises:
            AllocationError: it is outside the range or taken.
        """
        if port not in self.node_ports:
            low, high = self.node_ports[0], self.node_ports[-1]
            raise AllocationError(
                f"provided port is not in the valid range. The range of valid ports is {low}-{high}"
            )
        if self._used[port]:
            raise AllocationError("provided port is already allocated")
