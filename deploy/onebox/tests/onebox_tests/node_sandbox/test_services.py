"""ClusterIPs, NodePorts, the portal's address: real connections through real listeners."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
import pytest_asyncio

from onebox.node.endpoints import (
    Endpoint,
    Service,
    ServicePort,
    parse_endpoints,
    parse_service,
)
from onebox.node.proxy import Balancer, Forward, Listener, dial_host
from onebox.node.services import Services
from onebox_tests.ports import free_port

from .bench import DEADLINE_S, Bench, until
from .test_dns import endpoint_slice, service
from .test_network import exchange, start_echo


def local_server() -> socket.socket:
    server = socket.create_server(("127.0.0.1", 0))
    server.setblocking(False)
    return server


async def receive_all(connection: socket.socket) -> bytes:
    loop = asyncio.get_running_loop()
    data = bytearray()
    while part := await asyncio.wait_for(loop.sock_recv(connection, 1 << 20), DEADLINE_S):
        data += part
    return bytes(data)


async def serve(handler) -> tuple[asyncio.Server, int]:
    server = await asyncio.start_server(handler, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


@pytest_asyncio.fixture(loop_scope="module")
async def services(bench: Bench):
    made = Services(bench.sandbox)
    await made.start()
    yield made
    await made.close()


def ready(ip: str, **fields) -> dict:
    return {"addresses": [ip], "conditions": {"ready": True}, **fields}


async def test_a_cluster_ip_leads_to_the_ready_endpoints_in_turn(bench, services):
    pods = [await bench.pod(f"server-{n}") for n in range(3)]
    for pod in pods:
        await start_echo(bench, pod, 8080)
    services.set_services([service("web", "10.96.1.1", {"port": 80, "name": "http"})])
    unready = {"addresses": [pods[2].ip], "conditions": {"ready": False}}
    endpoints = [ready(pods[0].ip), ready(pods[1].ip), unready]
    ports = [{"name": "http", "port": 8080}]
    services.set_endpointslices([endpoint_slice("web", *endpoints, ports=ports)])
    await services.settled()
    client = await bench.pod("client")
    program = """
import socket
for _ in range(6):
    peer = socket.create_connection(("10.96.1.1", 80))
    peer.sendall(b"hello")
    print(peer.recv(10).decode())
"""
    assert await bench.python(client, program) == "hello\n" * 6
    served = services._served["lab", "web"]
    (port,) = served.values()
    assert port._balancer._turn == 6


async def test_a_pod_reaches_itself_through_its_service(bench, services):
    pod = await bench.pod("alone")
    await start_echo(bench, pod, 8080)
    services.set_services([service("web", "10.96.1.1", {"port": 80})])
    services.set_endpointslices([endpoint_slice("web", ready(pod.ip), ports=[{"port": 8080}])])
    await services.settled()
    program = """
import socket
peer = socket.create_connection(("10.96.1.1", 80))
peer.sendall(b"me")
print(peer.recv(10).decode())
"""
    assert await bench.python(pod, program) == "me\n"


async def test_a_cluster_ip_is_for_its_own_namespace(bench, services):
    """Nor does a service lead to a pod of another one, whatever its endpoints name."""
    if bench.sandbox.mode == "plain":
        pytest.skip("nobody can tell there who connects")
    own, other = await bench.pod("own"), await bench.pod("other", namespace="other")
    for pod in (own, other):
        await start_echo(bench, pod, 8080)
    services.set_services(
        [service("web", "10.96.1.1", {"port": 80}), service("wrong", "10.96.1.2", {"port": 80})]
    )
    slices = [
        endpoint_slice(name, ready(pod.ip), ports=[{"port": 8080}])
        for name, pod in (("web", own), ("wrong", other))
    ]
    services.set_endpointslices(slices)
    await services.settled()
    program = """
import socket
for ip in ("10.96.1.1", "10.96.1.2"):
    try:
        peer = socket.create_connection((ip, 80))
        peer.sendall(b"hello")
        print(peer.recv(10).decode() or "nothing")
    except OSError:
        print("nothing")
"""
    assert await bench.python(await bench.pod("client"), program) == "hello\nnothing\n"
    stranger = await bench.pod("stranger", namespace="other")
    assert await bench.python(stranger, program) == "nothing\nnothing\n"


async def test_without_a_ready_endpoint_a_cluster_ip_refuses(bench, services):
    pod = await bench.pod("server")
    await start_echo(bench, pod, 8080)
    services.set_services([service("web", "10.96.1.1", {"port": 80})])
    await services.settled()
    with pytest.raises(ConnectionRefusedError):
        await bench.sandbox.connect("10.96.1.1", 80)
    slices = [endpoint_slice("web", ready(pod.ip), ports=[{"port": 8080}])]
    services.set_endpointslices(slices)
    await services.settled()
    kept = await bench.sandbox.connect("10.96.1.1", 80)
    assert await exchange(kept, b"before") == b"before"
    slices[0]["endpoints"][0]["conditions"]["ready"] = False
    services.set_endpointslices(slices)
    await services.settled()
    with pytest.raises(ConnectionRefusedError):
        await bench.sandbox.connect("10.96.1.1", 80)
    assert await exchange(kept, b"after") == b"after"  # what is open stays open
    slices[0]["endpoints"][0]["conditions"]["ready"] = True
    services.set_endpointslices(slices)
    await services.settled()
    again = await bench.sandbox.connect("10.96.1.1", 80)
    assert await exchange(again, b"again") == b"again"
    services.set_endpointslices([])
    await services.settled()
    for connection in (kept, again):  # the endpoint is gone, and so are its connections
        with contextlib.suppress(ConnectionResetError):
            assert await receive_all(connection) == b""
        connection.close()


async def test_not_ready_addresses_are_served_where_the_service_says_so(bench, services):
    pod = await bench.pod("server")
    await start_echo(bench, pod, 8080)
    web = service("web", "10.96.1.1", {"port": 80}, publishNotReadyAddresses=True)
    unready = {"addresses": [pod.ip], "conditions": {"ready": False}}
    services.set_services([web])
    services.set_endpointslices([endpoint_slice("web", unready, ports=[{"port": 8080}])])
    await services.settled()
    with await bench.sandbox.connect("10.96.1.1", 80) as connection:
        assert await exchange(connection, b"x") == b"x"


async def test_a_node_port_leads_from_the_host_to_the_pod(bench, services):
    pod = await bench.pod("server")
    await start_echo(bench, pod, 8080)
    node_port = free_port()
    web = service("web", "10.96.1.1", {"port": 80, "nodePort": node_port})
    services.set_services([web])
    await services.settled()
    early = await dial_host("127.0.0.1", node_port)  # held, but nobody is there yet
    with early, pytest.raises(ConnectionResetError):
        await exchange(early, b"x")
    services.set_endpointslices([endpoint_slice("web", ready(pod.ip), ports=[{"port": 8080}])])
    await services.settled()
    with await dial_host("127.0.0.1", node_port) as connection:
        assert await exchange(connection, b"through") == b"through"
        connection.shutdown(socket.SHUT_WR)
        assert await receive_all(connection) == b""
    services.set_services([])
    await services.settled()
    with pytest.raises(ConnectionRefusedError):
        await dial_host("127.0.0.1", node_port)


async def test_a_node_port_that_another_program_holds_is_said_and_tried_again(
    bench, services, monkeypatch
):
    monkeypatch.setattr("onebox.node.services._BIND_RETRY_S", 0.05)
    other = local_server()
    node_port = other.getsockname()[1]
    services.set_services([service("web", "10.96.1.1", {"port": 80, "nodePort": node_port})])
    await services.settled()
    text = services.problems["lab", "web"]
    assert text.startswith(f"the NodePort {node_port} cannot be served on 127.0.0.1")
    other.close()
    await until(lambda: not services.problems, "the NodePort")
    (await dial_host("127.0.0.1", node_port)).close()


async def test_udp_ports_are_said_not_to_be_relayed(bench, services):
    services.set_services([service("dns", "10.96.1.2", {"port": 53, "protocol": "UDP"})])
    await services.settled()
    assert services.problems["lab", "dns"] == "port 53 is UDP; only TCP is relayed"


async def test_a_changed_port_and_a_changed_address_are_followed(bench, services):
    pod = await bench.pod("server")
    await start_echo(bench, pod, 8080)
    services.set_endpointslices([endpoint_slice("web", ready(pod.ip), ports=[{"port": 8080}])])
    for ip, port in (("10.96.1.1", 80), ("10.96.1.1", 81), ("10.96.1.9", 81)):
        services.set_services([service("web", ip, {"port": port})])
        await services.settled()
        with await bench.sandbox.connect(ip, port) as connection:
            assert await exchange(connection, b"x") == b"x"
    with pytest.raises(ConnectionRefusedError):
        await bench.sandbox.connect("10.96.1.1", 80)


async def test_pods_reach_the_portal_at_the_gateway(bench):
    async def portal(reader, writer) -> None:
        writer.write(b"portal: " + await reader.readline())
        writer.close()

    server, port = await serve(portal)
    services = Services(bench.sandbox, forwards=[(port, 8000)])
    await services.start()
    pod = await bench.pod("client")
    program = """
import socket
peer = socket.create_connection(("10.244.0.1", 8000))
peer.sendall(b"hello\\n")
print(peer.makefile().read())
"""
    assert await bench.python(pod, program) == "portal: hello\n\n"
    await services.close()
    server.close()


async def test_a_relay_carries_much_both_ways_and_half_closes():
    received = []

    async def upstream(reader, writer) -> None:
        received.append(len(await reader.read()))  # until the client has shut its side
        writer.write(b"y" * 5_000_000)
        await writer.drain()
        writer.close()

    server, port = await serve(upstream)
    front = local_server()
    listener = Listener(front, Forward(dial_host, "127.0.0.1", port))
    loop = asyncio.get_running_loop()
    with await dial_host(*front.getsockname()) as client:
        await loop.sock_sendall(client, b"x" * 3_000_000)
        client.shutdown(socket.SHUT_WR)
        assert len(await receive_all(client)) == 5_000_000
    assert received == [3_000_000]
    await listener.close()
    server.close()


async def test_a_slow_reader_slows_the_sender_down():
    sent = 0

    async def upstream(_reader, writer) -> None:
        nonlocal sent
        for _ in range(1000):
            writer.write(b"z" * 65536)
            await writer.drain()
            sent += 65536
        writer.close()

    server, port = await serve(upstream)
    front = local_server()
    listener = Listener(front, Forward(dial_host, "127.0.0.1", port))
    with await dial_host(*front.getsockname()) as client:
        await until(lambda: sent > 0)
        stalled = -1
        while stalled != sent:  # it comes to a halt although nobody reads
            stalled = sent
            await asyncio.sleep(0.05)
        assert sent < 40_000_000
        assert len(await receive_all(client)) == 1000 * 65536
    await listener.close()
    server.close()


async def test_closing_a_listener_ends_its_connections():
    async def upstream(reader, writer) -> None:
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    server, port = await serve(upstream)
    front = local_server()
    address = front.getsockname()
    listener = Listener(front, Forward(dial_host, "127.0.0.1", port))
    clients = [await dial_host(*address) for _ in range(20)]
    await until(lambda: len(listener._tasks) == 20)
    await listener.close()
    for client in clients:
        with contextlib.suppress(ConnectionResetError):
            assert await receive_all(client) == b""
        client.close()
    with pytest.raises(ConnectionRefusedError):
        await dial_host(*address)
    server.close()


async def test_an_endpoint_that_does_not_answer_is_skipped():
    async def upstream(_reader, writer) -> None:
        writer.write(b"alive")
        writer.close()

    server, port = await serve(upstream)
    balancer = Balancer(dial_host)
    balancer.set_endpoints([("127.0.0.1", free_port()), ("127.0.0.1", port)], {"127.0.0.1"})
    front = local_server()
    listener = Listener(front, balancer)
    for _ in range(4):
        with await dial_host(*front.getsockname()) as client:
            assert await receive_all(client) == b"alive"
    await listener.close()
    server.close()


def test_objects_of_the_api_are_read():
    obj = {
        "metadata": {"namespace": "lab", "name": "web"},
        "spec": {
            "clusterIP": "10.96.0.4",
            "ports": [
                {"name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080},
                {"port": 53, "protocol": "UDP"},
            ],
        },
    }
    assert parse_service(obj) == Service(
        "lab",
        "web",
        "10.96.0.4",
        (ServicePort("http", 80, "TCP", 30080), ServicePort("", 53, "UDP")),
    )
    headless = {"metadata": obj["metadata"], "spec": {"clusterIP": "None"}}
    assert parse_service(headless).cluster_ip is None
    slices = [
        endpoint_slice("web", {"addresses": ["10.1.1.1"]}, ports=[{"name": "a", "port": 1}]),
        endpoint_slice(
            "web",
            {"addresses": ["10.1.1.1", "10.1.1.2"], "conditions": {"ready": False}},
            ports=[{"name": "b", "port": 2}],
        ),
        {"addressType": "IPv6", "endpoints": [{"addresses": ["::1"]}]},
    ]
    assert parse_endpoints(slices) == (
        Endpoint("10.1.1.1", True, None, {"a": 1, "b": 2}),
        Endpoint("10.1.1.2", False, None, {"b": 2}),
    )
