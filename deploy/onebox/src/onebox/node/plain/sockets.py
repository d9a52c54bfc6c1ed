"""Binds and connects the sockets of a pod: to its own address, and to where others really are.

What is done is done on a copy of the socket. Where such copies are not allowed the process does it
itself, with the address that is meant.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import socket
from collections.abc import Callable

from onebox.node.plain import sockaddr
from onebox.node.plain.answers import LET_THROUGH, Answer, Arguments, Steer, Value, Waits
from onebox.node.plain.calls import numbers
from onebox.node.plain.descriptors import BorrowRefused, borrow
from onebox.node.plain.loopback import Loopback
from onebox.node.plain.memory import Memory
from onebox.node.plain.notify import Call
from onebox.node.plain.view import View

_MOST_ADDRESS_BYTES = 128
_MOST_DATAGRAM_BYTES = 1 << 16
_MOST_PATH_BYTES = 107
_IP_BIND_ADDRESS_NO_PORT = 24
_IPV6_V6ONLY = 26
_INTERNET = (socket.AF_INET, socket.AF_INET6)
# Whoever asks these for a name asks the machine's own programs, which know none of the cluster's.
_REFUSED_SOCKETS = (b"/run/nscd/", b"/var/run/nscd/", b"/run/systemd/resolve/")

_libc = ctypes.CDLL(None, use_errno=True)

Do = Callable[[int, bytes, int], int]


class Sockets:
    """Answers the calls of one container.

    Args:
        ip: the pod's address, as the cluster knows it.
    """

    def __init__(self, ip: str, loopback: Loopback, view: View, memory: Memory) -> None:
        self._own = loopback.real(socket.inet_aton(ip))
        self._loopback = loopback
        self._view = view
        self._memory = memory
        known = numbers(os.uname().machine)
        self._answers = {
            known["bind"]: self._answer_bind,
            known["connect"]: self._answer_connect,
            known["sendto"]: self._answer_sendto,
        }

    def answer(self, call: Call) -> Answer | None:
        """Return the answer; None: this is no call on sockets.

        Raises:
            OSError: it failed, which is its answer.
        """
        answer = self._answers.get(call.number)
        return answer(call) if answer is not None else None

    def _answer_bind(self, call: Call) -> Answer:
        given = self._address(call, 1)
        family = sockaddr.family_of(given)
        if family == socket.AF_UNIX:
            return self._local(call, given, _libc.bind)
        ip = sockaddr.ip4_of(given) if family in _INTERNET else None
        real = self._target(ip) if ip is not None else sockaddr.ANY4
        if real[0] != 127:
            return LET_THROUGH
        new = self._rebuilt(given, real)
        try:
            fd = borrow(call.tid, call.args[0])
        except BorrowRefused:
            return _steer(given, new, 1)
        try:
            if family == socket.AF_INET6 and _option(fd, socket.IPPROTO_IPV6, _IPV6_V6ONLY):
                # Pods have no addresses of IPv6.
                new = sockaddr.nowhere(given)
            return Value(_checked(_libc.bind(fd, new, len(new))))
        finally:
            os.close(fd)

    def _answer_connect(self, call: Call) -> Answer:
        given = self._address(call, 1)
        family = sockaddr.family_of(given)
        if family == socket.AF_UNIX:
            return self._local(call, given, _libc.connect)
        if family not in _INTERNET:
            return LET_THROUGH
        ip = sockaddr.ip4_of(given)
        real = self._target(ip) if ip is not None else sockaddr.ANY4
        is_reached = self._loopback.is_of_cluster(real)
        new = self._rebuilt(given, real) if is_reached else b""
        try:
            fd = borrow(call.tid, call.args[0])
        except BorrowRefused:
            return _steer(given, new, 1) if is_reached else Value(-errno.ENETUNREACH)
        return self._connect(fd, family, new)

    def _connect(self, fd: int, family: int, address: bytes) -> Answer:
        """Connect our copy of a socket and close it; to nowhere, when there is no address."""
        is_lent = False
        try:
            is_stream = _option(fd, socket.SOL_SOCKET, socket.SO_TYPE) == socket.SOCK_STREAM
            if not address and is_stream:
                return Value(-errno.ENETUNREACH)  # as on a network with no way out
            self._take_source(fd, family, is_stream=is_stream)
            if not address:
                return Value(0)  # so a program asks which address it has
            if not is_stream or not os.get_blocking(fd):
                return Value(_checked(_libc.connect(fd, address, len(address))))
            is_lent = True
            return Waits(functools.partial(_connect_and_close, fd, address))
        finally:
            if not is_lent:
                os.close(fd)

    def _answer_sendto(self, call: Call) -> Answer:
        given = self._address(call, 4)
        family = sockaddr.family_of(given)
        ip = sockaddr.ip4_of(given) if family in _INTERNET else None
        if ip is None:
            return LET_THROUGH
        real = self._target(ip)
        if not self._loopback.is_of_cluster(real):
            return Value(-errno.ENETUNREACH)
        size = call.args[2]
        if size > _MOST_DATAGRAM_BYTES:
            return Value(-errno.EMSGSIZE)
        new = self._rebuilt(given, real)
        try:
            fd = borrow(call.tid, call.args[0])
        except BorrowRefused:
            return _steer(given, new, 4)
        try:
            data = self._memory.read(call.tid, call.args[1], size) if size else b""
            flags = call.args[3] & 0xFFFFFFFF
            return Value(_checked(_libc.sendto(fd, data, size, flags, new, len(new))))
        finally:
            os.close(fd)

    def _local(self, call: Call, given: bytes, do: Do) -> Answer:
        """A socket with a path: reached through its folder, for the real path may be too long."""
        path = sockaddr.path_of(given)
        if path.startswith(_REFUSED_SOCKETS) and do is _libc.connect:
            return Value(-errno.ECONNREFUSED)
        place = self._view.find(path) if path[:1] == b"/" else None
        if place is None or place.real == path:
            return LET_THROUGH
        if do is _libc.bind and place.is_read_only:
            return Value(-errno.EROFS)
        try:
            fd = borrow(call.tid, call.args[0])
        except BorrowRefused:
            if len(place.real) > _MOST_PATH_BYTES:
                return Value(-errno.ENAMETOOLONG)
            return _steer(given, given[:2] + place.real + b"\0", 1)
        folder_path, _, name = place.real.rpartition(b"/")
        folder = -1
        try:
            folder = os.open(folder_path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            new = given[:2] + f"/proc/self/fd/{folder}/".encode() + name + b"\0"
            return Value(_checked(do(fd, new, len(new))))
        finally:
            os.close(fd)
            if folder >= 0:
                os.close(folder)

    def _target(self, ip: bytes) -> bytes:
        """Return where an address leads from this pod."""
        real = self._loopback.real(ip)
        if ip == sockaddr.ANY4 or (real[0] == 127 and not self._loopback.is_of_cluster(real)):
            return self._own
        return real

    def _rebuilt(self, given: bytes, real: bytes) -> bytes:
        port = self._loopback.real_port(real, sockaddr.port_of(given))
        return sockaddr.rebuilt(given, real, port)

    def _take_source(self, fd: int, family: int, *, is_stream: bool) -> None:
        """Let others see this pod's address as the sender's, unless the socket is bound."""
        if sockaddr.port_of(_name_of(fd)):
            return
        if is_stream:
            one = ctypes.c_int(1)
            _libc.setsockopt(
                fd, socket.SOL_IP, _IP_BIND_ADDRESS_NO_PORT, ctypes.byref(one), ctypes.sizeof(one)
            )
        address = sockaddr.made(family, self._own)
        _libc.bind(fd, address, len(address))  # a socket for IPv6 alone has no such address

    def _address(self, call: Call, argument: int) -> bytes:
        pointer, size = call.args[argument], call.args[argument + 1] & 0xFFFFFFFF
        if not pointer or not 2 <= size <= _MOST_ADDRESS_BYTES:
            return b""
        return self._memory.read(call.tid, pointer, size)


def _steer(given: bytes, address: bytes, argument: int) -> Answer:
    """Let the process use an address, and let it through when it comes back with that."""
    if given == address:
        return LET_THROUGH

    def make(place: int) -> Arguments:
        return address, {argument: place, argument + 1: len(address)}

    return Steer(make)


def _connect_and_close(fd: int, address: bytes) -> Value:
    try:
        return Value(_checked(_libc.connect(fd, address, len(address))))
    finally:
        os.close(fd)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return result


def _option(fd: int, level: int, name: int) -> int:
    value, size = ctypes.c_int(0), ctypes.c_uint(4)
    _checked(_libc.getsockopt(fd, level, name, ctypes.byref(value), ctypes.byref(size)))
    return value.value


def _name_of(fd: int) -> bytes:
    buffer, size = ctypes.create_string_buffer(_MOST_ADDRESS_BYTES), ctypes.c_uint(128)
    _checked(_libc.getsockname(fd, buffer, ctypes.byref(size)))
    return buffer.raw
