"""Logs pass through from the node as they come."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web

from onebox.api.pki import load_credentials
from onebox.api.registry import Api

from .conftest import DEADLINE_S, Http, eventually, pod

PODS = "/api/v1/namespaces/lab/pods"


@dataclass
class Node:
    """A log server as a node has it: HTTPS on loopback, its own certificate, a token."""

    port: int = 0
    requests: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    lines: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    refusal: tuple[int, str] | None = None
    left: bool = False

    async def serve(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request.path_qs)
        self.tokens.append(request.headers.get("Authorization", ""))
        if self.refusal:
            return web.Response(status=self.refusal[0], text=self.refusal[1])
        reply = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await reply.prepare(request)
        try:
            while (line := await self.lines.get()) is not None:
                await reply.write(line)
        except (ConnectionError, asyncio.CancelledError):
            self.left = True
            raise
        return reply


@pytest.fixture
async def node(api: Api, tmp_path: Path) -> AsyncIterator[Node]:
    made = Node()
    app = web.Application()
    app.router.add_get("/{path:.*}", made.serve)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    tls = load_credentials(tmp_path / "node-pki").server_context()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    made.port = runner.addresses[0][1]
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": made.port}},
    }
    api.create("nodes", None, {"metadata": {"name": "box"}, "status": status})
    (tmp_path / "node-token").write_text("secret-of-the-node\n")
    yield made
    await runner.cleanup()


def run_pod(api: Api, name: str = "p", containers: tuple[str, ...] = ("main",)) -> None:
    specs = [{"name": container, "image": "i"} for container in containers]
    api.create("pods", "lab", pod(name, containers=specs))
    api.bind("lab", name, "box")


async def test_lines_come_as_they_are_written(http: Http, api: Api, node: Node) -> None:
    run_pod(api)
    url = f"{http.base}{PODS}/p/log?follow=true&tailLines=5&timestamps=true"
    async with http.session.get(url) as reply:
        assert reply.status == 200
        assert reply.content_type == "text/plain"
        for line in (b"one\n", b"two \xff\n"):
            node.lines.put_nowait(line)
            got = await asyncio.wait_for(reply.content.readline(), DEADLINE_S)
            assert got == line
        node.lines.put_nowait(None)
        assert await reply.content.read() == b""
    path, _question, query = node.requests[0].partition("?")
    assert path == "/containerLogs/lab/p/main"
    assert set(query.split("&")) == {"follow=true", "tailLines=5", "timestamps=true"}
    assert node.tokens == ["Bearer secret-of-the-node"]


async def test_a_reader_that_leaves_frees_the_node(http: Http, api: Api, node: Node) -> None:
    run_pod(api)
    async with http.session.get(f"{http.base}{PODS}/p/log?follow=true") as reply:
        node.lines.put_nowait(b"one\n")
        await reply.content.readline()
    await eventually(lambda: node.left, "the node is told")


async def test_the_container_has_to_be_named_when_there_are_several(
    http: Http, api: Api, node: Node
) -> None:
    run_pod(api, "two", ("a", "b"))
    status, body = await http.get(f"{PODS}/two/log")
    assert (status, body["reason"]) == (400, "BadRequest")
    assert body["message"] == (
        "a container name must be specified for pod two, choose one of: [a b]"
    )
    status, body = await http.get(f"{PODS}/two/log?container=c")
    assert (status, body["message"]) == (400, "container c is not valid for pod two")
    node.lines.put_nowait(None)
    async with http.session.get(f"{http.base}{PODS}/two/log?container=b") as reply:
        assert reply.status == 200
    assert node.requests[-1].startswith("/containerLogs/lab/two/b")


async def test_the_nodes_refusals_are_passed_on(http: Http, api: Api, node: Node) -> None:
    run_pod(api)
    sentence = 'container "main" in pod "p" is waiting to start: ContainerCreating'
    node.refusal = (400, sentence)
    status, body = await http.get(f"{PODS}/p/log")
    assert (status, body["reason"], body["message"]) == (400, "BadRequest", sentence)
    node.refusal = (500, "broken")
    status, body = await http.get(f"{PODS}/p/log")
    assert (status, body["message"]) == (500, "Internal error occurred: broken")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("tailLines=-1", 422),
        ("limitBytes=0", 422),
        ("sinceSeconds=0", 422),
        ("tailLines=x", 400),
        ("follow=maybe", 400),
        ("sinceTime=yesterday", 400),
        ("sinceTime=2026-11-20T12:00:00Z&sinceSeconds=5", 422),
    ],
)
async def test_options_are_checked(
    http: Http, api: Api, node: Node, query: str, status: int
) -> None:
    run_pod(api)
    got, body = await http.get(f"{PODS}/p/log?{query}")
    assert (got, body["kind"]) == (status, "Status")
    assert node.requests == []


async def test_a_pod_without_a_node_has_no_log_yet(http: Http, api: Api) -> None:
    api.create("pods", "lab", pod())
    async with http.session.get(f"{http.base}{PODS}/p/log") as reply:
        assert (reply.status, await reply.read()) == (204, b"")
    status, body = await http.get(f"{PODS}/none/log")
    assert (status, body["message"]) == (404, 'pods "none" not found')


async def test_a_node_that_is_away_is_named(http: Http, api: Api, tmp_path: Path) -> None:
    run_pod(api)
    status, body = await http.get(f"{PODS}/p/log")
    assert (status, body["reason"]) == (500, "InternalError")
    assert "node box of the pod is not registered" in body["message"]
    status_of_node = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 1}},
    }
    api.create("nodes", None, {"metadata": {"name": "box"}, "status": status_of_node})
    _status, body = await http.get(f"{PODS}/p/log")
    assert "the token for the node's logs cannot be read" in body["message"]
    (tmp_path / "node-token").write_text("t")
    _status, body = await http.get(f"{PODS}/p/log")
    assert "the log server of node box does not answer" in body["message"]
