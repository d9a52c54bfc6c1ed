"""Makes sockets for the node half and hands them over, as both kinds of holder do.

A socket belongs to the network in which it was made, so the holder makes it.
"""

from __future__ import annotations

import socket

from onebox.node.wire import Message, send_message


def hand_sockets(channel: socket.socket, message: Message) -> None:
    """Reply with as many unconnected TCP sockets as are asked for."""
    sockets = [socket.socket() for _ in range(message.fields["count"])]
    send_message(channel, {"id": message.fields["id"]}, [made.fileno() for made in sockets])
    for made in sockets:
        made.close()


def hand_listener(channel: socket.socket, message: Message, address: tuple[str, int]) -> None:
    """Reply with a socket that listens (TCP) or is bound (UDP) at an address.

    Raises:
        OSError: the address cannot be had.
    """
    is_udp = message.fields["udp"]
    kind = socket.SOCK_DGRAM if is_udp else socket.SOCK_STREAM
    with socket.socket(socket.AF_INET, kind) as made:
        if not is_udp:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        if not is_udp:
            made.listen(1024)
        send_message(channel, {"id": message.fields["id"]}, [made.fileno()])
