"""Who may read a node's logs under an upstream control plane: the API server, by its certificate."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from onebox.node.logaccess import CertificateAccess
from onebox.node.logs import LogRun
from onebox.node.logserver import LogServer
from onebox_tests.node_kubelet.authority import Authority

READER = "kube-apiserver-kubelet-client"


class Node:
    """A log server with certificates, and readers of all sorts."""

    def __init__(self, folder: Path, log: Path) -> None:
        self.authority = Authority(folder / "ca")
        self.other = Authority(folder / "other")
        certificate, key = self.authority.sign("node")
        access = CertificateAccess(certificate, key, self.authority.certificate_file, READER)
        self.server = LogServer(
            access, lambda *_names: LogRun(log, lambda: True, asyncio.Event(), lambda: None)
        )

    def reader(self, name: str, authority: Authority) -> ssl.SSLContext:
        context = self.anybody()
        context.load_cert_chain(*authority.sign(name))
        return context

    def anybody(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority.certificate_file))

    async def get(self, tls: ssl.SSLContext, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"https://127.0.0.1:{self.port}{path}", ssl=tls) as reply,
        ):
            return reply.status, await reply.text()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    log = tmp_path / "0.log"
    log.write_text("2026-11-20T12:00:00.000000000Z stdout F hello\n")
    made = Node(tmp_path, log)
    made.port = await made.server.start()
    yield made
    await made.server.close()


LOG = "/containerLogs/ns/pod/main"


async def test_the_api_server_reads(node: Node):
    assert await node.get(node.reader(READER, node.authority), LOG) == (200, "hello\n")


async def test_another_user_of_the_cluster_does_not(node: Node):
    status, text = await node.get(node.reader("ada", node.authority), LOG)
    assert status == 403
    assert READER in text


async def test_who_shows_no_certificate_is_told_so(node: Node):
    status, text = await node.get(node.anybody(), LOG)
    assert status == 401
    assert "certificate" in text


async def test_a_certificate_of_another_cluster_opens_nothing(node: Node):
    with pytest.raises((aiohttp.ClientError, ConnectionError)):
        await node.get(node.reader(READER, node.other), LOG)


async def test_what_a_kubelet_does_besides_is_refused_in_words(node: Node):
    reader = node.reader(READER, node.authority)
    status, text = await node.get(reader, "/exec/ns/pod/main?command=ls")
    assert status == 501
    assert "exec is not offered" in text
    assert (await node.get(node.anybody(), "/exec/ns/pod/main"))[0] == 401
