"""Checks of probes and hooks: what counts as success, and what is said of a failure."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from onebox.node.checks import Checker, Target
from onebox.node.logaccess import self_signed_context
from onebox.node.spec import PodGone

LOOPBACK = "127.0.0.1"


class Network:
    """Stands for the sandbox's network: connects on this machine."""

    async def connect(self, ip: str, port: int) -> socket.socket:
        raw = socket.socket()
        raw.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(raw, (ip, port))
        except BaseException:
            raw.close()
            raise
        return raw


class Program:
    """Stands for a container in which programs end as told."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    async def exec(self, argv: tuple[str, ...], timeout_s: float) -> tuple[int, bytes]:
        self.asked.append(argv)
        if argv[0] == "gone":
            raise PodGone("the container has ended")
        return {"true": (0, b""), "slow": (-1, b"")}.get(argv[0], (3, b"it is broken\n"))


@pytest.fixture
async def ports() -> AsyncIterator[dict[str, int]]:
    async def handle(request: web.Request) -> web.Response:
        if request.path == "/redirect":
            raise web.HTTPFound("/ok")
        if request.path == "/away":
            raise web.HTTPFound("http://elsewhere.invalid/")
        if request.path == "/loop":
            raise web.HTTPFound("/loop")
        if request.path == "/slow":
            await asyncio.sleep(60)
        if request.path == "/header":
            return web.Response(status=200 if request.headers.get("X-Me") == "probe" else 403)
        return web.Response(status=200 if request.path == "/ok" else 500)

    app = web.Application()
    app.router.add_get("/{path:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, LOOPBACK, 0).start()
    await web.TCPSite(runner, LOOPBACK, 0, ssl_context=self_signed_context(LOOPBACK)).start()
    plain, secure = (address[1] for address in runner.addresses)
    with socket.socket() as unused:
        unused.bind((LOOPBACK, 0))
        yield {"plain": plain, "secure": secure, "closed": unused.getsockname()[1]}
    await runner.cleanup()


def checker(ports: dict[str, int]) -> Checker:
    named = [{"name": name, "containerPort": port} for name, port in ports.items()]
    return Checker(Target(Network(), Program(), {"ports": named}, LOOPBACK))


HTTP: list[tuple[dict[str, Any], bool, str]] = [
    ({"path": "/ok", "port": "plain"}, True, ""),
    ({"path": "ok", "port": "plain"}, True, ""),
    ({"path": "/ok", "port": "secure", "scheme": "HTTPS"}, True, ""),
    ({"path": "/redirect", "port": "plain"}, True, ""),
    ({"path": "/away", "port": "plain"}, True, ""),
    ({"path": "/loop", "port": "plain"}, False, "redirects"),
    ({"path": "/broken", "port": "plain"}, False, "statuscode: 500"),
    ({"path": "/slow", "port": "plain"}, False, "no answer within 0.3s"),
    ({"path": "/ok", "port": "closed"}, False, "Connect call failed"),
    ({"path": "/ok", "port": "unknown"}, False, 'no port named "unknown"'),
    ({"path": "/header", "port": "plain"}, False, "statuscode: 403"),
    (
        {
            "path": "/header",
            "port": "plain",
            "httpHeaders": [{"name": "X-Me", "value": "probe"}],
        },
        True,
        "",
    ),
    (
        {"path": "/ok", "port": "plain", "httpHeaders": [{"name": "X", "value": "a\r\nb"}]},
        False,
        "line break",
    ),
]


@pytest.mark.parametrize(("action", "ok", "words"), HTTP)
async def test_http_checks(ports: dict[str, int], action: dict, ok: bool, words: str):
    timeout_s = 0.3 if action["path"] == "/slow" else 10.0
    outcome = await checker(ports).check({"httpGet": action}, timeout_s)
    assert outcome.ok is ok
    assert words in outcome.output


async def test_tcp_checks(ports: dict[str, int]):
    assert (await checker(ports).check({"tcpSocket": {"port": "plain"}}, 1)).ok
    assert not (await checker(ports).check({"tcpSocket": {"port": ports["closed"]}}, 1)).ok


@pytest.mark.parametrize(
    ("command", "ok", "words"),
    [
        (["true"], True, ""),
        (["false"], False, "it is broken"),
        (["slow", "one"], False, 'command "slow one" timed out'),
        (["gone"], False, "has ended"),
    ],
)
async def test_exec_checks(ports: dict[str, int], command: list[str], ok: bool, words: str):
    outcome = await checker(ports).check({"exec": {"command": command}}, 1)
    assert outcome.ok is ok
    assert words in outcome.output


async def test_a_grpc_check_counts_as_passed_and_an_unknown_one_does_not(ports: dict[str, int]):
    assert (await checker(ports).check({"grpc": {"port": 1}}, 1)).ok
    assert not (await checker(ports).check({"smoke": {}}, 1)).ok
