"""Pods on the cluster network: addresses, names of their own, reaching each other and the node."""

from __future__ import annotations

import asyncio
import socket

import pytest

from onebox.node.addresses import Addresses, AddressesExhausted, Bridges
from onebox.node.netlink import BRIDGE_ADDRESS
from onebox.node.sandbox import GATEWAY_IP

from .bench import DEADLINE_S, PYTHON, Bench, until

ECHO = """
import socket, sys, threading
server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("listening", flush=True)
def serve(peer):
    while data := peer.recv(65536):
        peer.sendall(data)
    peer.shutdown(socket.SHUT_WR)
while True:
    threading.Thread(target=serve, args=(server.accept()[0],), daemon=True).start()
"""


async def start_echo(bench: Bench, pod, port: int):
    container = await bench.start(pod, PYTHON, "-I", "-S", "-c", ECHO, str(port))
    log = bench.last_log
    await until(lambda: b"listening" in log.read_bytes(), "the server")
    return container


async def exchange(connection: socket.socket, data: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, data)
    return await asyncio.wait_for(loop.sock_recv(connection, 65536), DEADLINE_S)


async def test_pods_reach_each_other_by_address(bench):
    server, client = await bench.pod("server"), await bench.pod("client")
    assert server.ip != client.ip
    await start_echo(bench, server, 80)
    program = f"""
import socket
peer = socket.create_connection(("{server.ip}", 80))
peer.sendall(b"hello")
print(peer.recv(10).decode(), peer.getsockname()[0])
"""
    assert await bench.python(client, program) == f"hello {client.ip}\n"


# Each line: what was tried, and what came back.
REACH = """
import socket, struct, sys
def tcp(ip, port, options=b""):
    with socket.socket() as peer:
        peer.settimeout(4)
        if options:
            peer.setsockopt(socket.IPPROTO_IP, 4, options)
        peer.connect((ip, port))
        peer.sendall(b"hello")
        return peer.recv(10)
def udp(ip, port):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as peer:
        peer.settimeout(4)
        peer.connect((ip, port))
        peer.send(b"hello")
        return peer.recv(10)
def routed(ip, port):  # by way of the gateway, which the packet itself asks for
    return tcp("10.244.0.1", port, struct.pack("!BBB4sB", 131, 7, 4, socket.inet_aton(ip), 1))
for way in (tcp, udp, routed):
    try:
        print(way.__name__, way(sys.argv[1], 2222).decode())
    except OSError:
        print(way.__name__, "nothing")
"""
SERVE = """
import socket, threading
box = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
box.bind(("0.0.0.0", 2222))
def answer():
    while True:
        data, peer = box.recvfrom(100)
        box.sendto(data, peer)
threading.Thread(target=answer, daemon=True).start()
server = socket.create_server(("0.0.0.0", 2222))
print("listening", flush=True)
while True:
    peer, _ = server.accept()
    peer.sendall(peer.recv(10))
"""


async def start_server(bench: Bench, pod) -> None:
    await bench.start(pod, PYTHON, "-I", "-S", "-c", SERVE)
    log = bench.last_log
    await until(lambda: b"listening" in log.read_bytes(), "the server")


async def reach(bench: Bench, client, ip: str) -> dict[str, str]:
    ended, text = await bench.run(client, PYTHON, "-I", "-S", "-c", REACH, ip)
    assert ended.code == 0, text
    return dict(line.split(" ", 1) for line in text.splitlines())


async def test_pods_of_different_namespaces_do_not_reach_each_other(bench):
    if bench.sandbox.mode == "plain":
        pytest.skip("there is one network for all")
    nothing = {"tcp": "nothing", "udp": "nothing", "routed": "nothing"}
    gone = await bench.pod("gone", namespace="gone")
    ada = await bench.pod("ada", namespace="ada")
    await start_server(bench, ada)
    await gone.remove()
    # On the bridge that is free again.
    lin, too = await bench.pod("lin", namespace="lin"), await bench.pod("too", namespace="ada")
    assert await reach(bench, lin, ada.ip) == nothing
    assert await reach(bench, too, ada.ip) == {**nothing, "tcp": "hello", "udp": "hello"}
    connection = await bench.sandbox.connect(ada.ip, 2222)  # the node itself
    assert await exchange(connection, b"ping") == b"ping"
    connection.close()


def test_a_bridge_is_given_to_another_namespace_when_its_last_pod_is_gone():
    bridges = Bridges()
    assert [bridges.join("10.0.0.2", "a"), bridges.join("10.0.0.3", "b")] == [0, 1]
    assert bridges.join("10.0.0.4", "a") == 0
    bridges.leave("10.0.0.2")
    assert bridges.join("10.0.0.5", "c") == 2
    bridges.leave("10.0.0.4")
    assert bridges.join("10.0.0.6", "d") == 0
    assert [bridges.namespace_of(f"10.0.0.{n}") for n in (2, 3, 6)] == [None, "b", "d"]


async def test_pods_may_use_the_same_port(bench):
    for name in ("one", "two", "three"):
        await start_echo(bench, await bench.pod(name), 2222)


async def test_the_node_reaches_pods(bench, pod):
    await start_echo(bench, pod, 8888)
    for _ in range(40):  # more than are fetched in advance
        connection = await bench.sandbox.connect(pod.ip, 8888)
        assert await exchange(connection, b"ping") == b"ping"
        connection.close()


async def test_a_port_where_nothing_listens_refuses(bench, pod):
    with pytest.raises(ConnectionRefusedError):
        await bench.sandbox.connect(pod.ip, 1)


async def test_pods_reach_what_the_node_listens_on(bench, pod):
    server = await bench.sandbox.listen(GATEWAY_IP, 8000)
    virtual = await bench.sandbox.listen("10.96.7.7", 443)
    program = f"""
import socket
for address in (("{GATEWAY_IP}", 8000), ("10.96.7.7", 443)):
    socket.create_connection(address).sendall(b"x")
"""
    await bench.python(pod, program)
    loop = asyncio.get_running_loop()
    for listening in (server, virtual):
        peer, _address = await asyncio.wait_for(loop.sock_accept(listening), DEADLINE_S)
        assert await loop.sock_recv(peer, 1) == b"x"
        peer.close()
        listening.close()


NEIGHBOUR = f"""
import socket
try:
    socket.create_connection(("{GATEWAY_IP}", 9), 2)
except OSError:
    pass
for line in open("/proc/net/arp"):
    if line.startswith("{GATEWAY_IP} "):
        print(line.split()[3])
"""


async def test_the_gateway_keeps_its_address_when_pods_come_and_go(bench, pod):
    """Else those that stay send to an address that is no more, for up to a minute."""
    seen = {await bench.python(pod, NEIGHBOUR)}
    others = [await bench.pod(f"other-{number}") for number in range(6)]
    for other in others:
        seen.add(await bench.python(other, NEIGHBOUR))
        await other.remove()
    assert seen == {BRIDGE_ADDRESS.hex(":") + "\n"}


async def test_an_address_in_use_cannot_be_listened_on_twice(bench):
    with (
        await bench.sandbox.listen(GATEWAY_IP, 8000),
        pytest.raises(OSError, match="Address already in use"),
    ):
        await bench.sandbox.listen(GATEWAY_IP, 8000)


async def test_a_service_address_without_a_listener_refuses(bench, pod):
    program = """
import socket
try:
    socket.create_connection(("10.96.0.1", 443), timeout=5)
except ConnectionRefusedError:
    print("refused")
"""
    assert await bench.python(pod, program) == "refused\n"


async def test_a_pod_knows_its_own_names(bench):
    pod = await bench.pod(
        "w0",
        hostname="train-worker-0",
        domain="train.lab.svc.cluster.local",
        dns_search=("lab.svc.cluster.local", "svc.cluster.local", "cluster.local"),
        host_aliases=(("10.1.1.1", "storage"),),
    )
    program = """
import socket
print(socket.gethostname(), socket.getfqdn())
print(socket.gethostbyname("train-worker-0"), socket.gethostbyname("storage"))
print(socket.gethostbyname("localhost"))
"""
    lines = (await bench.python(pod, program)).splitlines()
    assert lines == [
        "train-worker-0 train-worker-0.train.lab.svc.cluster.local",
        f"{pod.ip} 10.1.1.1",
        "127.0.0.1",
    ]
    text = await bench.shell(pod, "cat /etc/resolv.conf /etc/hostname")
    assert text.splitlines() == [
        "nameserver 10.244.0.1",
        "search lab.svc.cluster.local svc.cluster.local cluster.local",
        "options ndots:5 timeout:2 attempts:3",
        "train-worker-0",
    ]


async def test_an_address_is_freed_and_not_reused_at_once(bench):
    first = await bench.pod()
    await first.remove()
    second = await bench.pod()
    assert second.ip != first.ip


def test_addresses_are_handed_out_in_turn_and_reused_last():
    addresses = Addresses("10.0.0.0/29", "10.0.0.1")
    taken = [addresses.take() for _ in range(5)]
    assert taken == ["10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6"]
    with pytest.raises(AddressesExhausted, match="addresses of 10"):
        addresses.take()
    addresses.free("10.0.0.4")
    addresses.free("10.0.0.2")
    assert [addresses.take(), addresses.take()] == ["10.0.0.2", "10.0.0.4"]
