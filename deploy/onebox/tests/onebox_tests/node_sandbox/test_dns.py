"""The name server: the wire format, the names of services, and lookups from real pods."""

from __future__ import annotations

import asyncio
import socket
import struct

import pytest

from onebox.node.dns import (
    HostResolvers,
    NameServer,
    Zone,
    build_reply,
    parse_question,
    read_resolvers,
)
from onebox.node.endpoints import Endpoint, Service, service_names
from onebox.node.services import Services

from .bench import Bench

SEARCH = ("lab.svc.cluster.local", "svc.cluster.local", "cluster.local")


def query(name: str, kind: int = 1, number: int = 7, edns_bytes: int = 0) -> bytes:
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".") if part)
    packet = struct.pack("!6H", number, 0x0100, 1, 0, 0, 1 if edns_bytes else 0)
    packet += labels + b"\0" + struct.pack("!HH", kind, 1)
    if edns_bytes:
        packet += b"\0" + struct.pack("!HHIH", 41, edns_bytes, 0, 0)
    return packet


def read_reply(reply: bytes, question: bytes) -> tuple[int, bool, list[str]]:
    """Return (code, truncated, addresses) and check the rest."""
    number, flags, questions, answers, _authorities, extra = struct.unpack_from("!6H", reply)
    assert (number, questions, flags & 0x8000) == (7, 1, 0x8000)
    end = len(question) - (11 if struct.unpack_from("!H", question, 10)[0] else 0)
    assert reply[12:end] == question[12:end]
    ips = []
    for position in range(end, end + 16 * answers, 16):
        pointer, kind, class_, ttl, size = struct.unpack_from("!HHHIH", reply, position)
        assert (pointer, kind, class_, ttl, size) == (0xC00C, 1, 1, 5, 4)
        ips.append(socket.inet_ntoa(reply[position + 12 : position + 16]))
    assert len(reply) == end + 16 * answers + 11 * extra
    return flags & 0xF, bool(flags & 0x0200), ips


def make_server(**names: list[str]) -> NameServer:
    zone = Zone()
    zone.set(("lab", "x"), {f"{name}.lab.svc.cluster.local": ips for name, ips in names.items()})
    return NameServer(zone)


def ask(server: NameServer, packet: bytes, *, over_tcp: bool = False) -> tuple[int, bool, list]:
    reply = server.answer(packet, over_tcp=over_tcp)
    assert reply
    return read_reply(reply, packet)


def test_a_known_name_has_its_addresses():
    server = make_server(web=["10.96.0.5"], many=["10.244.0.2", "10.244.0.3"])
    assert ask(server, query("web.lab.svc.cluster.local")) == (0, False, ["10.96.0.5"])
    assert ask(server, query("WEB.Lab.svc.CLUSTER.local"))[2] == ["10.96.0.5"]
    code, _truncated, ips = ask(server, query("many.lab.svc.cluster.local", edns_bytes=1232))
    assert (code, sorted(ips)) == (0, ["10.244.0.2", "10.244.0.3"])


def test_the_order_of_several_addresses_changes():
    ips = [f"10.244.0.{n}" for n in range(2, 12)]
    server = make_server(many=ips)
    firsts = {ask(server, query("many.lab.svc.cluster.local"))[2][0] for _ in range(200)}
    assert len(firsts) > 5


@pytest.mark.parametrize("kind", [28, 16, 33, 65])
def test_another_kind_of_record_of_a_known_name_is_an_empty_answer(kind):
    server = make_server(web=["10.96.0.5"])
    assert ask(server, query("web.lab.svc.cluster.local", kind)) == (0, False, [])


@pytest.mark.parametrize(
    "name",
    ["no.lab.svc.cluster.local", "cluster.local", "pypi.org", "", "2.0.244.10.in-addr.arpa", "web"],
)
def test_every_other_name_does_not_exist(name):
    server = make_server(web=["10.96.0.5"])
    assert ask(server, query(name)) == (3, False, [])


def test_a_long_answer_is_truncated_over_udp_and_whole_over_tcp():
    server = make_server(many=[f"10.244.1.{n}" for n in range(200)])
    packet = query("many.lab.svc.cluster.local")
    assert ask(server, packet) == (0, True, [])
    assert len(ask(server, packet, over_tcp=True)[2]) == 200
    roomy = query("many.lab.svc.cluster.local", edns_bytes=4096)
    assert len(ask(server, roomy)[2]) == 200


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"x" * 11,
        b"x" * 12,
        query("a.b")[:-3],
        query("a.b")[:13],
        struct.pack("!6H", 7, 0x0100, 2, 0, 0, 0) + b"\0\0\1\0\1",
        struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + b"\xc0\x0c\0\1\0\1",
        struct.pack("!6H", 7, 0x0100, 1, 0, 0, 0) + b"\x3f" * 63,
    ],
)
def test_malformed_packets_get_at_most_a_format_error(packet):
    reply = make_server().answer(packet, over_tcp=False)
    assert reply is not None
    assert reply == b"" or reply[3] & 0xF == 1


def test_replies_are_never_answered():
    packet = bytearray(query("web.lab.svc.cluster.local"))
    packet[2] |= 0x80
    assert make_server().answer(bytes(packet), over_tcp=False) == b""


def test_every_short_mutation_is_survived():
    """Every byte of a query set to every value: no exception, no endless loop."""
    server = make_server(web=["10.96.0.5"])
    packet = query("web.lab.svc.cluster.local", edns_bytes=1232)
    for position in range(len(packet)):
        for value in range(0, 256, 5):
            changed = packet[:position] + bytes([value]) + packet[position + 1 :]
            server.answer(changed, over_tcp=False)


def test_an_owners_names_are_replaced_whole():
    zone = Zone()
    zone.set(("a", "b"), {"one.cluster.local": ["1.1.1.1"], "Two.cluster.local": ["2.2.2.2"]})
    zone.set(("a", "b"), {"two.cluster.local": ["3.3.3.3"]})
    assert (zone.find("one.cluster.local"), zone.find("two.cluster.local")) == (None, ("3.3.3.3",))
    zone.remove(("a", "b"))
    assert zone.find("two.cluster.local") is None


def test_a_service_brings_its_names():
    endpoints = [
        Endpoint("10.244.0.2", ready=True, hostname="w-0"),
        Endpoint("10.244.0.3", ready=False, hostname="w-1"),
        Endpoint("10.244.0.4", ready=True),
    ]
    headless = Service("lab", "train", None)
    assert service_names(headless, endpoints) == {
        "train.lab.svc.cluster.local": ["10.244.0.2", "10.244.0.4"],
        "w-0.train.lab.svc.cluster.local": ["10.244.0.2"],
    }
    virtual = Service("lab", "web", "10.96.0.9")
    assert service_names(virtual, endpoints) == {"web.lab.svc.cluster.local": ["10.96.0.9"]}


class Upstream(asyncio.DatagramProtocol):
    """A name server of the host that knows one name; first sends a forged reply."""

    def connection_made(self, transport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr) -> None:
        question = parse_question(data)
        ips = ["93.184.216.34"] if question.name == "example.org" else []
        reply = build_reply(question, 0 if ips else 3, ips, 512)
        self.transport.sendto(b"\0\0" + build_reply(question, 0, ["6.6.6.6"], 512)[2:], addr)
        self.transport.sendto(reply, addr)


async def test_outside_names_are_asked_of_the_hosts_servers():
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Upstream, local_addr=("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    server = NameServer(Zone(), HostResolvers(["127.0.0.1"], port))
    packet = query("example.org")
    assert server.answer(packet, over_tcp=False) is None
    reply = await server.forward(packet, over_tcp=False)
    assert read_reply(reply, packet) == (0, False, ["93.184.216.34"])
    assert server.answer(query("x.cluster.local"), over_tcp=False)  # never asked outside
    transport.close()


async def test_without_an_answer_from_outside_it_is_a_server_failure():
    server = NameServer(Zone(), HostResolvers(["127.0.0.1"], 1))
    packet = query("example.org")
    assert read_reply(await server.forward(packet, over_tcp=False), packet)[0] == 2


def test_the_hosts_servers_are_read(tmp_path):
    file = tmp_path / "resolv.conf"
    file.write_text(
        "# x\nnameserver 10.0.0.1\nnameserver fe80::1\nsearch a b\nnameserver 1.2.3.4\n"
    )
    assert read_resolvers(file) == ("10.0.0.1", "1.2.3.4")
    assert read_resolvers(tmp_path / "none") == ()


def service(name: str, cluster_ip: str | None, *ports: dict, **spec) -> dict:
    return {
        "metadata": {"namespace": "lab", "name": name},
        "spec": {"clusterIP": cluster_ip or "None", "ports": list(ports), **spec},
    }


def endpoint_slice(name: str, *endpoints: dict, ports: list[dict] | None = None) -> dict:
    labels = {"kubernetes.io/service-name": name}
    return {
        "metadata": {"namespace": "lab", "name": f"{name}-abc", "labels": labels},
        "addressType": "IPv4",
        "endpoints": list(endpoints),
        "ports": ports or [],
    }


async def test_pods_look_names_up(bench: Bench):
    services = Services(bench.sandbox)
    await services.start()
    pod = await bench.pod("client", dns_search=SEARCH)
    many = [{"addresses": [f"10.244.7.{n}"], "hostname": f"w-{n}"} for n in range(1, 101)]
    services.set_services([service("web", "10.96.3.3"), service("train", None)])
    services.set_endpointslices([endpoint_slice("train", *many)])
    program = """
import socket, sys, time
for name in sys.argv[1:]:
    began = time.monotonic()
    try:
        found = sorted({entry[4][0] for entry in socket.getaddrinfo(name, 80)})
        text = found[0] if len(found) == 1 else str(len(found))
    except socket.gaierror as error:
        text = error.errno == socket.EAI_NONAME and "no such name" or str(error)
    print(name, text, "slow" if time.monotonic() - began > 1.5 else "fast")
"""
    names = ["web", "web.lab", "web.lab.svc", "web.lab.svc.cluster.local", "w-7.train", "train"]
    names += ["missing", "pypi.org", "w-0.train"]
    ended, text = await bench.run(pod, "/usr/bin/env", *python(program), *names)
    assert ended.code == 0, text
    assert text.splitlines() == [
        "web 10.96.3.3 fast",
        "web.lab 10.96.3.3 fast",
        "web.lab.svc 10.96.3.3 fast",
        "web.lab.svc.cluster.local 10.96.3.3 fast",
        "w-7.train 10.244.7.7 fast",
        "train 100 fast",  # over TCP, for it does not fit into a datagram
        "missing no such name fast",
        "pypi.org no such name fast",
        "w-0.train no such name fast",
    ]
    services.set_services([service("late", "10.96.3.4")])
    ended, text = await bench.run(pod, "/usr/bin/env", *python(program), "late", "web")
    assert text.splitlines() == ["late 10.96.3.4 fast", "web no such name fast"]
    await services.close()


def python(program: str) -> tuple[str, ...]:
    from .bench import PYTHON

    return (PYTHON, "-I", "-S", "-c", program)
