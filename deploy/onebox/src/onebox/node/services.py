"""The cluster's services on this node: names, ClusterIPs, NodePorts, and the ways out.

The kubelet side feeds it all Services and all EndpointSlices whenever one of them changed. Pods
reach a ClusterIP through a listener in the cluster network, people reach a NodePort through one on
the host's loopback address; both relay to the ready endpoints in turn. A ClusterIP without a ready
endpoint refuses connections, as kube-proxy does. A pod of another namespace gets none through a
ClusterIP, nor does anybody get to a pod that is of another namespace than the service.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from onebox.node.dns import HostResolvers, NameServer, Zone, read_resolvers
from onebox.node.egress import EGRESS_PORT, Egress
from onebox.node.endpoints import (
    Endpoint,
    Service,
    ServicePort,
    parse_endpoints,
    parse_service,
    service_names,
)
from onebox.node.proxy import Balancer, Forward, Listener, dial_host
from onebox.node.spec import GATEWAY_IP

logger = logging.getLogger(__name__)

DNS_PORT = 53
_LOOPBACK = "127.0.0.1"
_BIND_RETRY_S = 5.0
_SERVICE_NAME_LABEL = "kubernetes.io/service-name"

Key = tuple[str, str]  # namespace, name


class ClusterNetwork(Protocol):
    """What services need of the sandbox."""

    async def listen(self, ip: str, port: int) -> socket.socket:
        """Return a listening socket in the cluster network."""

    async def connect(self, ip: str, port: int) -> socket.socket:
        """Return a connection into the cluster network."""

    async def datagram(self, ip: str, port: int) -> socket.socket:
        """Return a bound UDP socket in the cluster network."""

    def may_connect(self, ip: str, namespace: str) -> bool:
        """Whether who has an address may reach what belongs to a namespace."""


class _ServedPort:
    """The listeners of one port of one service."""

    def __init__(self, network: ClusterNetwork, service: Service, port: ServicePort) -> None:
        self._network = network
        self._namespace = service.namespace
        self._cluster_ip = service.cluster_ip
        self._port = port
        self._balancer = Balancer(self._connect)
        self._inside: Listener | None = None
        self._outside: Listener | None = None

    async def update(self, endpoints: Sequence[Endpoint]) -> str:
        """Follow the endpoints; return what is wrong, or ""."""
        name = self._port.name
        targets = [(e.ip, e.ports[name]) for e in endpoints if e.ready and name in e.ports]
        self._balancer.set_endpoints(targets, {e.ip for e in endpoints})
        problem = await self._follow_inside()
        return problem or self._follow_outside()

    async def close(self) -> None:
        """Close the listeners and every connection through them."""
        for listener in (self._inside, self._outside):
            if listener is not None:
                await listener.close()
        self._inside = self._outside = None

    async def _follow_inside(self) -> str:
        """Listen at the ClusterIP while there is an endpoint, so that otherwise it refuses."""
        if self._cluster_ip is None:
            return ""
        if not self._balancer.has_ready:
            if self._inside is not None:
                self._inside.stop_accepting()
            return ""
        if self._inside is not None and self._inside.is_accepting:
            return ""
        try:
            server = await self._network.listen(self._cluster_ip, self._port.port)
        except OSError as error:
            return f"{self._cluster_ip}:{self._port.port} cannot be served: {error}"
        if self._inside is None:
            self._inside = Listener(server, self._relay_inside)
        else:
            self._inside.resume(server)
        return ""

    async def _relay_inside(self, client: socket.socket) -> None:
        """Relay a connection of the cluster network; OSError for a pod of another namespace."""
        ip, _port = client.getpeername()
        if not self._network.may_connect(ip, self._namespace):
            raise ConnectionRefusedError(f"{ip} is no pod of {self._namespace}")
        await self._balancer(client)

    async def _connect(self, ip: str, port: int) -> socket.socket:
        if not self._network.may_connect(ip, self._namespace):
            raise ConnectionRefusedError(f"{ip} is no pod of {self._namespace}")
        return await self._network.connect(ip, port)

    def _follow_outside(self) -> str:
        """Hold the NodePort from the first moment on, so that no other program takes it."""
        if self._port.node_port is None or self._outside is not None:
            return ""
        server = socket.socket()
        try:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((_LOOPBACK, self._port.node_port))
            server.listen(1024)
            server.setblocking(False)
        except OSError as error:
            server.close()
            return (
                f"the NodePort {self._port.node_port} cannot be served on {_LOOPBACK}: "
                f"{error.strerror}; another program may use that port"
            )
        self._outside = Listener(server, self._balancer)
        return ""


class Services:
    """All services, the name server, and the ways out of the cluster network.

    Args:
        forwards: (port on the host's loopback, port at 10.244.0.1 that leads to it), such as the
            portal's.
        egress: whether pods reach the internet, by the proxy at 10.244.0.1:3128.
    """

    def __init__(
        self,
        network: ClusterNetwork,
        *,
        forwards: Sequence[tuple[int, int]] = (),
        egress: bool = False,
    ) -> None:
        self._network = network
        self._forwards = tuple(forwards)
        self._egress = egress
        self._zone = Zone()
        forwarder = HostResolvers(read_resolvers()) if egress else None
        self._name_server = NameServer(self._zone, forwarder)
        self._gateways: list[Listener] = []
        self._services: dict[Key, Service] = {}
        self._endpoints: dict[Key, tuple[Endpoint, ...]] = {}
        self._named: dict[Key, Mapping[str, Sequence[str]]] = {}
        self._applied: dict[Key, tuple[Service, tuple[Endpoint, ...]]] = {}
        self._served: dict[Key, dict[ServicePort, _ServedPort]] = {}
        self._problems: dict[Key, str] = {}
        self._changed = asyncio.Event()
        self._settled = asyncio.Event()
        self._settled.set()
        self._following: asyncio.Task[None] | None = None

    @property
    def problems(self) -> Mapping[tuple[str, str], str]:
        """(namespace, name) -> what of a service cannot be served, in words."""
        return self._problems

    async def start(self) -> None:
        """Open the name server, the portal's address and the proxy; follow services from now on.

        Raises:
            OSError: one of them cannot be opened.
        """
        datagram = await self._network.datagram(GATEWAY_IP, DNS_PORT)
        await self._name_server.start(datagram, await self._network.listen(GATEWAY_IP, DNS_PORT))
        for port, pod_port in self._forwards:
            server = await self._network.listen(GATEWAY_IP, pod_port)
            self._gateways.append(Listener(server, Forward(dial_host, _LOOPBACK, port)))
        if self._egress:
            server = await self._network.listen(GATEWAY_IP, EGRESS_PORT)
            self._gateways.append(Listener(server, Egress()))
        self._following = asyncio.get_running_loop().create_task(self._follow())

    def set_services(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Take all Service objects of the cluster, in place of those before.

        Names hold at once; listeners follow in the background (`settled`).
        """
        services = [parse_service(obj) for obj in objects]
        self._services = {(service.namespace, service.name): service for service in services}
        self._changed_now()

    def set_endpointslices(self, objects: Iterable[Mapping[str, Any]]) -> None:
        """Take all EndpointSlice objects of the cluster, in place of those before."""
        slices: dict[Key, list[Mapping[str, Any]]] = {}
        for obj in objects:
            metadata = obj["metadata"]
            name = (metadata.get("labels") or {}).get(_SERVICE_NAME_LABEL)
            if name:
                slices.setdefault((metadata["namespace"], name), []).append(obj)
        self._endpoints = {key: parse_endpoints(found) for key, found in slices.items()}
        self._changed_now()

    async def settled(self) -> None:
        """Wait until the listeners follow what was set last."""
        await self._settled.wait()

    async def close(self) -> None:
        """Close everything."""
        if self._following is not None:
            self._following.cancel()
            await asyncio.gather(self._following, return_exceptions=True)
        for key in list(self._served):
            await self._close_ports(key, keep=())
        for gateway in self._gateways:
            await gateway.close()
        self._gateways.clear()
        await self._name_server.close()

    def _desired(self) -> dict[Key, tuple[Service, tuple[Endpoint, ...]]]:
        desired = {}
        for key, service in self._services.items():
            endpoints = self._endpoints.get(key, ())
            if service.publish_not_ready:
                endpoints = tuple(replace(endpoint, ready=True) for endpoint in endpoints)
            desired[key] = (service, endpoints)
        return desired

    def _changed_now(self) -> None:
        names = {key: service_names(*known) for key, known in self._desired().items()}
        for key in [key for key in self._named if key not in names]:
            self._zone.remove(key)
        for key, of_service in names.items():
            if self._named.get(key) != of_service:
                self._zone.set(key, of_service)
        self._named = dict(names)
        self._settled.clear()
        self._changed.set()

    async def _follow(self) -> None:
        while True:
            # What failed (a NodePort that another program holds) is tried again after a while.
            timeout_s = _BIND_RETRY_S if self._problems else None
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._changed.wait()
            self._changed.clear()
            try:
                await self._apply_all()
            except Exception:  # the fence: one service must not end all others
                logger.exception("the services could not be followed; trying again")
                await asyncio.sleep(_BIND_RETRY_S)
                self._changed.set()
            if not self._changed.is_set():
                self._settled.set()

    async def _apply_all(self) -> None:
        desired = self._desired()
        for key in [key for key in self._applied if key not in desired]:
            await self._close_ports(key, keep=())
            del self._applied[key], self._served[key]
            self._problems.pop(key, None)
        for key, known in desired.items():
            if self._applied.get(key) != known or key in self._problems:
                await self._apply(key, *known)

    async def _apply(self, key: Key, service: Service, endpoints: Sequence[Endpoint]) -> None:
        before = self._applied.get(key)
        if before is not None and before[0].cluster_ip != service.cluster_ip:
            await self._close_ports(key, keep=())
        served = self._served.setdefault(key, {})
        self._applied[key] = (service, tuple(endpoints))
        await self._close_ports(key, keep=service.ports)
        problems = []
        for port in service.ports:
            if service.cluster_ip is None and port.node_port is None:
                continue
            if port.protocol != "TCP":
                problems.append(f"port {port.port} is {port.protocol}; only TCP is relayed")
                continue
            if port not in served:
                served[port] = _ServedPort(self._network, service, port)
            problem = await served[port].update(endpoints)
            if problem:
                problems.append(problem)
        self._note_problems(key, problems)

    async def _close_ports(self, key: Key, keep: Sequence[ServicePort]) -> None:
        served = self._served.get(key, {})
        for port in [port for port in served if port not in keep]:
            await served.pop(port).close()

    def _note_problems(self, key: Key, problems: Sequence[str]) -> None:
        text = "; ".join(problems)
        if text and self._problems.get(key) != text:
            logger.warning("service %s/%s: %s", *key, text)
        if text:
            self._problems[key] = text
        else:
            self._problems.pop(key, None)
