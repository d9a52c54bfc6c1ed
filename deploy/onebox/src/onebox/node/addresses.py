"""Which pod has which address (handed out in turn, so that a freed one rests longest), and which
bridge and namespace that is of."""

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


class Bridges:
    """A bridge for each namespace that has pods; numbers from 0, the lowest that is free."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._namespaces: dict[str, str] = {}

    def join(self, ip: str, namespace: str) -> int:
        """Note that a pod has an address; return the number of its namespace's bridge."""
        self._namespaces[ip] = namespace
        if namespace not in self._numbers:
            taken = set(self._numbers.values())
            self._numbers[namespace] = next(n for n in range(len(taken) + 1) if n not in taken)
        return self._numbers[namespace]

    def leave(self, ip: str) -> None:
        """Note that the pod is gone; the last of a namespace frees its bridge for another."""
        namespace = self._namespaces.pop(ip, None)
        if namespace is not None and namespace not in self._namespaces.values():
            del self._numbers[namespace]

    def namespace_of(self, ip: str) -> str | None:
        """Whose pod has an address; None: none has it."""
        return self._namespaces.get(ip)
