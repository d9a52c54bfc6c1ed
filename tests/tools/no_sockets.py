"""Pages, REST and what people ask for are made from the database alone: a way to see that."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import pytest


def _deny(*_arguments: Any, **_more: Any) -> NoReturn:
    raise AssertionError("a page tried to speak to the network")


@contextmanager
def without_sockets() -> Iterator[None]:
    """While the block runs nothing in this process speaks to the network."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex", "bind", "sendto"):
            patch.setattr(socket.socket, name, _deny)
        for name in ("create_connection", "getaddrinfo"):
            patch.setattr(socket, name, _deny)
        yield
