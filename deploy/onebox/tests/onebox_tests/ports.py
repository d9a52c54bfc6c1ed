"""Ports of this machine for tests that have to say one beforehand."""

import socket


def free_port() -> int:
    """A TCP port of the loopback on which nobody listens just now."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
