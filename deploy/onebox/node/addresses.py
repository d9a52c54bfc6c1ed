"""Which pod has which address: handed out in turn, so that a freed one rests longest."""

from __future__ import annotations

import ipaddress


class AddressesExhausted(Exception):  # noqa: N818 - names the state of affairs
    """Every address of the pod network is in use."""


class Addresses:
    """The addresses of a network, except its own, the gateway's and the broadcast address.

    Kept in memory: pods never survive the node half, so neither do their addresses.
    """

    def __init__(self, network: str, gateway: str) -> None:
        self._network = ipaddress.IPv4Network(network)
        self._first = int(self._network.network_address) + 1
        self._count = self._network.num_addresses - 2
        self._reserved = ipaddress.IPv4Address(gateway)
        self._used: set[ipaddress.IPv4Address] = set()
        self._next = 0

    def take(self) -> str:
        """Return an address that is free, the one after the last that was handed out.

        Raises:
            AddressesExhausted: there is none.
        """
        for _ in range(self._count):
            address = ipaddress.IPv4Address(self._first + self._next)
            self._next = (self._next + 1) % self._count
            if address != self._reserved and address not in self._used:
                self._used.add(address)
                return str(address)
        raise AddressesExhausted(f"all {len(self._used)} addresses of {self._network} are in use")

    def free(self, ip: str) -> None:
        """Give an address back; it is handed out again when all others have had their turn."""
        self._used.discard(ipaddress.IPv4Address(ip))
