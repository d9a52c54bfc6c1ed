"""Ports for servers that take one by number, some moments after it was found to be free."""

import random
import socket

# Below those that Linux gives to outgoing connections (32768 to 60999), one of which could come
# between, and below NodePorts (30000 to 32767).
_RANGE = range(20000, 30000)
_given: set[int] = set()  # by this process; whoever has one may not listen yet


def free_port() -> int:
    """A TCP port that nobody listens on, on any address, and another one with each call.

    Raises:
        OSError: none was found.
    """
    for port in random.sample(_RANGE, 100):
        if port in _given:
            continue
        with socket.socket() as probe:
            # As servers set it: what a connection of before has left behind is no hindrance.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise OSError("no free port was found")
