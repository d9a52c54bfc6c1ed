"""Binds and connects the sockets of a pod: to its own address, and to where others really are."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
import threading
from collections.abc import Callable

from deploy.onebox.node.plain.calls import numbers
from deploy.onebox.node.plain.descriptors import borrow
from deploy.onebox.node.plain.files import LET_THROUGH, Answer, Value
from deploy.onebox.node.plain.loopback import Loopback
from deploy.onebox.node.plain.memory import Memory
from deploy.onebox.node.plain.notify import Call
from deploy.onebox.node.plain.view import View

_MOST_ADDRESS_BYTES = 128
_MOST_DATAGRAM_BYTES = 1 << 16
_MAPPED = b"\0" * 10 + b"\xff\xff"
_ANY6, _LOCAL6 = b"\0" * 16, b"\0" * 15 + b"\x01"
_ANY4 = b"\0" * 4
_IP_BIND_ADDRESS_NO_PORT = 24
_IPV6_V6ONLY = 26
# Whoever asks these for a name asks the machine's own programs, which know none of the cluster's.
_REFUSED_SOCKETS = (b"/run/nscd/", b"/var/run/nscd/", b"/run/systemd/resolve/")

_libc = ctypes.CDLL(None, use_errno=True)


class Sockets:
    """Answers the calls of one container.

    Args:
        ip: the pod's address, as the cluster knows it.
        later: answers a call from another thread, when it may take its time.
    """

    def __init__(
        self,
        ip: str,
        loopback: Loopback,
        view: View,
        memory: Memory,
        later: Callable[[Call, int], None],
    ) -> None:
        self._own = loopback.real(socket.inet_aton(ip))
        self._loopback = loopback
        self._view = view
        self._memory = memory
        self._later = later
        known = numbers(os.uname().machine)
        self._bind, self._connect, self._sendto = known["bind"], known["connect"], known["sendto"]

    def answer(self, call: Call) -> Answer | None:
        """Return the answer (None: this is no call on sockets, or it is answered later).

        Raises:
            OSError: it failed, which is its answer.
        """
        if call.number == self._bind:
            return self._answer_bind(call)
        if call.number == self._connect:
            return self._answer_connect(call)
        return self._answer_sendto(call)

    def takes(self, number: int) -> bool:
        """Whether a call is one of these."""
        return number in (self._bind, self._connect, self._sendto)

    def _answer_bind(self, call: Call) -> Answer:
        given = self._address(call.tid, call.args[1], call.args[2])
        family = _family(given)
        if family == socket.AF_UNIX:
            return self._local(call, given, _libc.bind)
        if family not in (socket.AF_INET, socket.AF_INET6):
            return LET_THROUGH
        ip, port = _ip4(given), int.from_bytes(given[2:4], "big")
        if ip is None:
            return LET_THROUGH
        real = self._target(ip)
        if real[0] != 127:
            return LET_THROUGH
        fd = borrow(call.tid, call.args[0])
        try:
            if family == socket.AF_INET6 and _is_v6_only(fd):
                # Pods have no addresses of IPv6: it is open, and nobody calls there.
                given = given[:2] + bytes(6) + _LOCAL6 + given[24:]
                return Value(_checked(_libc.bind(fd, given, len(given))))
            new = _rebuilt(given, real, self._loopback.real_port(real, port))
            return Value(_checked(_libc.bind(fd, new, len(new))))
        finally:
            os.close(fd)

    def _answer_connect(self, call: Call) -> Answer | None:
        given = self._address(call.tid, call.args[1], call.args[2])
        family = _family(given)
        if family == socket.AF_UNIX:
            return self._local(call, given, _libc.connect)
        if family not in (socket.AF_INET, socket.AF_INET6):
            return LET_THROUGH
        ip, port = _ip4(given), int.from_bytes(given[2:4], "big")
        fd = borrow(call.tid, call.args[0])
        is_lent = False
        try:
            kind = _option(fd, socket.SOL_SOCKET, socket.SO_TYPE)
            real = self._target(ip) if ip is not None else None
            if real is None or not self._loopback.is_of_cluster(real):
                if kind == socket.SOCK_STREAM:
                    # As on a network with no way out.
                    return Value(-errno.ENETUNREACH)
                self._take_source(fd, family, kind)
                return Value(0)
            new = _rebuilt(given, real, self._loopback.real_port(real, port))
            self._take_source(fd, family, kind)
            if kind != socket.SOCK_STREAM or not os.get_blocking(fd):
                return Value(_checked(_libc.connect(fd, new, len(new))))
            is_lent = True
            threading.Thread(target=self._connect_later, args=(call, fd, new), daemon=True).start()
            return None
        finally:
            if not is_lent:
                os.close(fd)

    def _connect_later(self, call: Call, fd: int, address: bytes) -> None:
        result = _libc.connect(fd, address, len(address))
        self._later(call, -ctypes.get_errno() if result < 0 else result)
        os.close(fd)

    def _answer_sendto(self, call: Call) -> Answer:
        given = self._address(call.tid, call.args[4], call.args[5])
        ip = _ip4(given) if _family(given) in (socket.AF_INET, socket.AF_INET6) else None
        if ip is None:
            return LET_THROUGH
        real = self._target(ip)
        if not self._loopback.is_of_cluster(real):
            return Value(-errno.ENETUNREACH)
        port = self._loopback.real_port(real, int.from_bytes(given[2:4], "big"))
        size = call.args[2]
        if size > _MOST_DATAGRAM_BYTES:
            return Value(-errno.EMSGSIZE)
        data = self._memory.read(call.tid, call.args[1], size) if size else b""
        new = _rebuilt(given, real, port)
        fd = borrow(call.tid, call.args[0])
        try:
            flags = int(call.args[3]) & 0xFFFFFFFF
            return Value(_checked(_libc.sendto(fd, data, size, flags, new, len(new))))
        finally:
            os.close(fd)

    def _local(self, call: Call, given: bytes, do: Callable[[int, bytes, int], int]) -> Answer:
        """A socket with a path: reached through its folder, for the real path may be too long."""
        path = given[2:].split(b"\0", 1)[0]
        if path.startswith(_REFUSED_SOCKETS) and do is _libc.connect:
            return Value(-errno.ECONNREFUSED)
        place = self._view.find(path) if path[:1] == b"/" else None
        if place is None or place.real == path:
            return LET_THROUGH
        folder_path, _, name = place.real.rpartition(b"/")
        if do is _libc.bind and place.is_read_only:
            return Value(-errno.EROFS)
        folder = os.open(folder_path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        fd = borrow(call.tid, call.args[0])
        try:
            new = given[:2] + f"/proc/self/fd/{folder}/".encode() + name + b"\0"
            return Value(_checked(do(fd, new, len(new))))
        finally:
            os.close(fd)
            os.close(folder)

    def _target(self, ip: bytes) -> bytes:
        """Return where an address leads from this pod."""
        real = self._loopback.real(ip)
        if ip == _ANY4 or (real[0] == 127 and not self._loopback.is_of_cluster(real)):
            return self._own
        return real

    def _take_source(self, fd: int, family: int, kind: int) -> None:
        """Let others see this pod's address as the sender's, unless it has chosen one."""
        name = _name_of(fd)
        if int.from_bytes(name[2:4], "big"):
            return
        with socket.socket(fileno=os.dup(fd)) as view:
            if kind == socket.SOCK_STREAM:
                view.setsockopt(socket.SOL_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
        address = struct.pack("=H", family) + bytes(2) + self._own + bytes(8)
        if family == socket.AF_INET6:
            address = struct.pack("=H", family) + bytes(6) + _MAPPED + self._own + bytes(4)
        _libc.bind(fd, address, len(address))  # a socket for IPv6 alone has no such address

    def _address(self, tid: int, pointer: int, size: int) -> bytes:
        size &= 0xFFFFFFFF
        if not pointer or not 2 <= size <= _MOST_ADDRESS_BYTES:
            return b""
        return self._memory.read(tid, pointer, size)


def _family(address: bytes) -> int:
    return int.from_bytes(address[:2], "little") if len(address) >= 2 else -1


def _ip4(address: bytes) -> bytes | None:
    """Return the IPv4 address that is meant; None where there is none."""
    if _family(address) == socket.AF_INET:
        return address[4:8] if len(address) >= 8 else None
    ip = address[8:24]
    if ip in (_ANY6, _LOCAL6):
        return _ANY4
    return ip[12:] if ip[:12] == _MAPPED and len(ip) == 16 else None


def _rebuilt(address: bytes, ip: bytes, port: int) -> bytes:
    head = address[:2] + port.to_bytes(2, "big")
    if _family(address) == socket.AF_INET:
        return head + ip + address[8:]
    return head + address[4:8] + _MAPPED + ip + address[24:]


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _option(fd: int, level: int, name: int) -> int:
    value, size = ctypes.c_int(0), ctypes.c_uint(4)
    _checked(_libc.getsockopt(fd, level, name, ctypes.byref(value), ctypes.byref(size)))
    return value.value


def _is_v6_only(fd: int) -> bool:
    return bool(_option(fd, socket.IPPROTO_IPV6, _IPV6_V6ONLY))


def _name_of(fd: int) -> bytes:
    buffer, size = ctypes.create_string_buffer(_MOST_ADDRESS_BYTES), ctypes.c_uint(128)
    _checked(_libc.getsockname(fd, buffer, ctypes.byref(size)))
    return buffer.raw
