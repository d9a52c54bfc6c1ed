"""The way out: what the proxy lets through, and above all what it does not."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

import pytest

from onebox.node.egress import (
    Egress,
    EgressRefused,
    egress_env,
    is_public,
    parse_target,
    rewrite_head,
)
from onebox.node.proxy import Listener, dial_host
from onebox.node.services import Services
from tests.tools.addresses import CLOSED, OPEN, PRIVATE

from .test_services import local_server, receive_all, serve


@pytest.mark.parametrize("address", [*CLOSED, *PRIVATE])
def test_addresses_that_are_not_of_the_internet_are_refused(address):
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", OPEN)
def test_addresses_of_the_internet_are_allowed(address):
    assert is_public(ipaddress.ip_address(address))


def test_a_public_address_of_this_host_is_refused(monkeypatch):
    """As on a machine that is itself in the internet: its services are not for pods."""
    monkeypatch.setattr("onebox.node.egress._is_own", lambda address: True)
    assert not is_public(ipaddress.ip_address("8.8.8.8"))


def test_own_addresses_are_recognised():
    from onebox.node.egress import _is_own

    assert _is_own(ipaddress.ip_address("127.0.0.1"))
    assert not _is_own(ipaddress.ip_address("8.8.8.8"))


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("CONNECT pypi.org:443 HTTP/1.1", ("pypi.org", 443, "")),
        ("CONNECT [2606::1]:443 HTTP/1.1", ("2606::1", 443, "")),
        ("GET http://x.org/a?b=c HTTP/1.1", ("x.org", 80, "GET /a?b=c HTTP/1.1")),
        ("POST http://x.org:8080 HTTP/1.0", ("x.org", 8080, "POST / HTTP/1.0")),
    ],
)
def test_request_lines_are_read(line, target):
    assert parse_target(line) == target


@pytest.mark.parametrize(
    "line",
    [
        *("", "GET", "GET / HTTP/1.1", "CONNECT pypi.org HTTP/1.1", "CONNECT :443 HTTP/1.1"),
        *("CONNECT x:99999 HTTP/1.1", "GET ftp://x/y HTTP/1.1", "GET http:// HTTP/1.1"),
        *("CONNECT pypi.org:443 SPDY/3", "GET https://x/ HTTP/1.1", "CONNECT [::1:443 HTTP/1.1"),
    ],
)
def test_other_request_lines_are_refused(line):
    with pytest.raises(EgressRefused):
        parse_target(line)


def test_a_plain_request_is_passed_on_without_what_was_for_the_proxy():
    head = b"GET http://x/ HTTP/1.1\r\nHost: x\r\nProxy-Connection: keep-alive\r\nA: b"
    assert rewrite_head("GET / HTTP/1.1", head) == (
        b"GET / HTTP/1.1\r\nHost: x\r\nA: b\r\nConnection: close\r\n\r\n"
    )


async def through_proxy(egress: Egress, request: bytes) -> bytes:
    front = local_server()
    listener = Listener(front, egress)
    loop = asyncio.get_running_loop()
    with await dial_host(*front.getsockname()) as client:
        await loop.sock_sendall(client, request)
        client.shutdown(socket.SHUT_WR)
        answer = await receive_all(client)
    await listener.close()
    return answer


async def test_a_tunnel_and_a_plain_request_reach_an_allowed_target():
    async def target(reader, writer) -> None:
        line = await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nsaw " + line)
        writer.close()

    server, port = await serve(target)
    allowed = Egress(is_allowed=lambda address: str(address) == "127.0.0.1")
    tunnel = f"CONNECT 127.0.0.1:{port} HTTP/1.1\r\nHost: x\r\n\r\nhello\r\n".encode()
    answer = await through_proxy(allowed, tunnel)
    assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\n")
    assert answer.endswith(b"saw hello\r\n")
    plain = f"GET http://127.0.0.1:{port}/x HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    assert (await through_proxy(allowed, plain)).endswith(b"saw GET /x HTTP/1.1\r\n")
    server.close()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "169.254.169.254", "10.96.0.1", "[::1]"]
)
async def test_the_host_and_the_cluster_are_refused_in_words(host):
    dialled = []

    async def dial(ip: str, port: int) -> socket.socket:
        dialled.append(ip)
        raise OSError("must not be dialled")

    answer = await through_proxy(Egress(dial=dial), f"CONNECT {host}:22 HTTP/1.1\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert b"is not in the public internet" in answer
    assert dialled == []


async def test_the_address_that_was_checked_is_dialled():
    """A name that resolves to a public and then to a private address gains nothing."""
    dialled = []

    async def dial(ip: str, port: int) -> socket.socket:
        dialled.append((ip, port))
        raise ConnectionRefusedError("refused")

    answer = await through_proxy(Egress(dial=dial), b"CONNECT 93.184.216.34:443 HTTP/1.1\r\n\r\n")
    assert dialled == [("93.184.216.34", 443)]
    assert b"502 Bad Gateway" in answer
    assert b"93.184.216.34:443 does not answer: refused" in answer


async def test_a_head_without_end_is_refused():
    answer = await through_proxy(Egress(), b"GET http://x/ HTTP/1.1\r\nA: " + b"x" * 70_000)
    assert answer == b"" or b"431" in answer


def test_the_environment_of_pods_with_egress():
    env = egress_env(["train-ps-0.train", "train"])
    assert env["grpc_proxy"] == ""
    assert env["https_proxy"] == env["HTTP_PROXY"] == "http://10.244.0.1:3128"
    assert {"train-ps-0.train", "train", "localhost"} <= set(env["no_proxy"].split(","))


async def test_pods_find_the_proxy_only_when_egress_is_on(bench):
    program = """
import socket
try:
    peer = socket.create_connection(("10.244.0.1", 3128))
    peer.sendall(b"CONNECT 127.0.0.1:22 HTTP/1.1\\r\\n\\r\\n")
    print(peer.recv(12).decode())
except ConnectionRefusedError:
    print("refused")
"""
    pod = await bench.pod("client")
    for egress, expected in ((False, "refused\n"), (True, "HTTP/1.1 403\n")):
        services = Services(bench.sandbox, egress=egress)
        await services.start()
        assert await bench.python(pod, program) == expected
        await services.close()
