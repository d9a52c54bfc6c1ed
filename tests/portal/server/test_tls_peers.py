"""A connection over TLS costs little before it says anything, and stands in the row until it is gone."""

import asyncio
import ssl
import tracemalloc
from asyncio.sslproto import SSLProtocolState
from typing import Any
from unittest.mock import Mock

import pytest

from portal.server import peers, tls
from portal.server.http_protocol import HeadDeadlineProtocol


class _Inner(asyncio.Protocol):
    outer: Any = None

    def __init__(self, **_options: Any) -> None: ...


def test_a_silent_connection_is_small_and_leaves_the_row_with_its_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tls, "HeadDeadlineProtocol", _Inner)
    row = peers.Peers()
    monkeypatch.setattr(tls, "peers", row)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    async def connect() -> None:
        tracemalloc.start()
        made = [tls.TlsProtocol(context) for _n in range(50)]
        each_bytes = tracemalloc.get_traced_memory()[0] / len(made)
        tracemalloc.stop()
        assert each_bytes < 64 * 1024
        one: Any = made[0]
        one.connection_made(Mock(get_write_buffer_size=lambda: 0))
        row.let_go(one)  # as after the handshake
        one._state = SSLProtocolState.WRAPPED
        monkeypatch.setattr(one, "_do_flush", lambda: None)
        one._start_shutdown()
        assert len(row) == 1
        one.connection_lost(None)
        assert len(row) == 0

    asyncio.run(connect())
    assert peers.MAX_WAITING <= 4096


def test_what_lies_below_tls_is_to_be_taken_too() -> None:
    protocol: Any = HeadDeadlineProtocol.__new__(HeadDeadlineProtocol)
    protocol.transport = Mock(get_write_buffer_size=lambda: 3)
    assert protocol._untaken_bytes() == 3
    protocol.outer = Mock(untaken_bytes=lambda: 40_000)
    assert protocol._untaken_bytes() == 40_003
