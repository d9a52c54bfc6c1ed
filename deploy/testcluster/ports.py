"""Ports for servers that take one by number, some moments after it was found to be free."""

import atexit
import random
import socket

# Below those that Linux gives to outgoing connections (32768 to 60999), one of which could come
# between, and below NodePorts (30000 to 32767).
_RANGE = range(20000, 30000)
# By this process; whoever has one may not listen yet. A name that only one socket of this machine
# can have tells other processes, for as long as this one lives.
_given: dict[int, socket.socket] = {}


def free_port() -> int:
    """A TCP port that nobody listens on, on any address, and that no other call gave away, be it
    in another process that still lives.

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
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0homeport-port-{port}")
        except OSError:
            claim.close()
            continue
        _given[port] = claim
        return port
    raise OSError("no free port was found")


@atexit.register
def _give_back() -> None:
    while _given:
        _given.popitem()[1].close()
