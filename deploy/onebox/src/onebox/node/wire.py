"""Messages between the node half and the programs of the sandbox: JSON over SEQPACKET sockets.

A message carries file descriptors and, translated by the kernel into the receiver's numbering, the
id of one process. One that is larger than a packet may be (10,000 environment variables) travels as
a memfd. Requests carry an id that the reply repeats, events carry none. The holder and the pod inits
use these functions as they are (and import nothing heavy by them), the node half through `link`.
"""

from __future__ import annotations

import array
import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

Fields = dict[str, Any]

# The kernel refuses packets above net.core.wmem_default (212,992 bytes by default).
_INLINE_BYTES = 60_000
_RECEIVE_BYTES = 1 << 17
_MOST_FDS = 200
_CREDENTIALS = struct.Struct("3i")
_ANCILLARY_BYTES = socket.CMSG_SPACE(4 * _MOST_FDS) + socket.CMSG_SPACE(_CREDENTIALS.size)


class ChannelClosed(Exception):  # noqa: N818 - an event rather than an error
    """The other side is gone."""


class Message:
    """One message as received; whoever receives it owns `fds`.

    Attributes:
        pid: the process that the sender named, else the sender, in the receiver's numbering.
    """

    def __init__(self, fields: Fields, fds: list[int], pid: int) -> None:
        self.fields = fields
        self.fds = fds
        self.pid = pid

    def close_fds(self) -> None:
        """Close the descriptors that nobody took."""
        for fd in self.fds:
            os.close(fd)
        self.fds.clear()


def make_pair() -> tuple[socket.socket, socket.socket]:
    """Return two joined sockets, both close-on-exec and fit for these messages."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours, theirs


def _spill(payload: bytes) -> int:
    fd = os.memfd_create("message", os.MFD_CLOEXEC)
    view = memoryview(payload)
    while view:
        view = view[os.write(fd, view) :]
    return fd


def send_message(
    channel: socket.socket, fields: Mapping[str, Any], fds: Sequence[int] = (), pid: int = 0
) -> None:
    """Send one message; the caller keeps its descriptors.

    Args:
        pid: a process to name to the receiver. Naming another than oneself takes CAP_SYS_ADMIN
            over the caller's pid namespace.

    Raises:
        BlockingIOError: the socket does not block and its queue is full; nothing was sent.
        ChannelClosed: the other side is gone.
    """
    payload = json.dumps(fields).encode()
    spilled = -1
    if len(payload) > _INLINE_BYTES:
        spilled = _spill(payload)
        payload, fds = b"M", [spilled, *fds]
    ancillary: list[tuple[int, int, bytes]] = []
    if fds:
        rights = array.array("i", fds).tobytes()
        ancillary.append((socket.SOL_SOCKET, socket.SCM_RIGHTS, rights))
    if pid:
        named = _CREDENTIALS.pack(pid, os.getuid(), os.getgid())
        ancillary.append((socket.SOL_SOCKET, socket.SCM_CREDENTIALS, named))
    try:
        channel.sendmsg([payload], ancillary)
    except (BrokenPipeError, ConnectionResetError, ConnectionRefusedError) as error:
        raise ChannelClosed from error
    finally:
        if spilled >= 0:
            os.close(spilled)


def receive_message(channel: socket.socket) -> Message:
    """Receive one message.

    Raises:
        BlockingIOError: the socket does not block and there is none.
        ChannelClosed: the other side is gone.
    """
    try:
        payload, ancillary, _flags, _address = channel.recvmsg(
            _RECEIVE_BYTES, _ANCILLARY_BYTES, socket.MSG_CMSG_CLOEXEC
        )
    except ConnectionResetError as error:
        raise ChannelClosed from error
    if not payload:
        raise ChannelClosed
    fds: list[int] = []
    pid = 0
    for level, kind, data in ancillary:
        if level != socket.SOL_SOCKET:
            continue
        if kind == socket.SCM_RIGHTS:
            fds.extend(array.array("i", data[: len(data) - len(data) % 4]))
        elif kind == socket.SCM_CREDENTIALS:
            pid = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])[0]
    if payload == b"M":
        payload = _unspill(fds.pop(0))
    return Message(json.loads(payload), fds, pid)


def _unspill(fd: int) -> bytes:
    with open(fd, "rb") as file:
        file.seek(0)
        return file.read()
