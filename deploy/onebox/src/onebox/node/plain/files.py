"""Does calls on files in a pod's stead, with the paths that are meant."""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import stat

from onebox.node import syscalls
from onebox.node.plain.answers import (
    LET_THROUGH,
    Answer,
    Opened,
    Steer,
    Value,
    Waits,
)
from onebox.node.plain.calls import SIGNATURES, STEERED, Signature, numbers
from onebox.node.plain.descriptors import BorrowRefused, borrow
from onebox.node.plain.execution import (
    find_script,
    read_arguments,
    with_path,
    with_script,
)
from onebox.node.plain.links import follow
from onebox.node.plain.memory import Memory
from onebox.node.plain.notify import Call
from onebox.node.plain.view import Place, View

_AT_FDCWD = -100
_AT_SYMLINK_NOFOLLOW = 0x100
_NEW = os.O_CREAT | os.O_EXCL
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_TEMPORARY = os.O_TMPFILE & ~os.O_DIRECTORY
_MOST_BYTES = 1 << 16
_NODE_NAME_AT, _FIELD_BYTES = 65, 65
_UTSNAME_BYTES = 6 * _FIELD_BYTES


CallArguments = list[int | bytes | ctypes.Array[ctypes.c_char]]


class Files:
    """Answers the calls of one container."""

    def __init__(self, view: View, memory: Memory, hostname: str) -> None:
        self._view = view
        self._memory = memory
        self._hostname = hostname.encode()
        machine = os.uname().machine
        known = numbers(machine)
        self._signatures = {
            known[name]: signature for name, signature in SIGNATURES.items() if name in known
        }
        self._steered = {known[name]: at for name, at in STEERED.items()}
        self._chdir, self._getcwd, self._uname = known["chdir"], known["getcwd"], known["uname"]

    def answer(self, call: Call) -> Answer | None:
        """Return the answer; None: this is no call on files.

        Raises:
            OSError: what the call points to cannot be read; or it failed, which is its answer.
        """
        signature = self._signatures.get(call.number)
        if signature is not None:
            return self._answer_path(call, signature)
        if call.number in self._steered:
            return self._steer(call, self._steered[call.number])
        if call.number == self._getcwd:
            return self._working_directory(call)
        if call.number == self._uname:
            return self._name(call)
        return None

    def _answer_path(self, call: Call, signature: Signature) -> Answer:
        paths: dict[int, bytes] = {}
        places: dict[int, Place] = {}
        for index, word in enumerate(signature.words):
            if word != "path" or not call.args[index]:
                continue
            path = paths[index] = self._memory.read_string(call.tid, call.args[index])
            if path[:1] == b"/":
                place = self._view.find(path)
                if place is not None and place.real != path:
                    place = follow(self._view, path, place, stays=_stays(call, signature))
                if place is not None:
                    places[index] = place
        if all(place.real == paths[index] for index, place in places.items()):
            refused = self._refuse(call, signature, places) if places else 0
            return Value(-refused) if refused else LET_THROUGH
        refused = self._refuse(call, signature, places)
        if refused:
            return Value(-refused)
        return self._do(call, signature, paths, places)

    def _refuse(self, call: Call, signature: Signature, places: dict[int, Place]) -> int:
        """Return the error number of a call that mounts refuse, or 0."""
        writes = signature.changes
        if signature.flags_at >= 0:
            writes = bool(call.args[signature.flags_at] & _WRITING)
        if signature.mode_at >= 0:
            writes = bool(call.args[signature.mode_at] & os.W_OK)
        for place in places.values():
            if signature.removes and place.is_mount:
                return errno.EBUSY
            if writes and place.is_read_only:
                flags = call.args[signature.flags_at] if signature.flags_at >= 0 else 0
                only_creates = flags & _WRITING == os.O_CREAT
                if only_creates and os.path.lexists(place.real):
                    continue
                return errno.EROFS
        return 0

    def _do(
        self, call: Call, signature: Signature, paths: dict[int, bytes], places: dict[int, Place]
    ) -> Answer:
        arguments: CallArguments = []
        results: list[tuple[int, ctypes.Array[ctypes.c_char], bool]] = []
        borrowed = -1
        for index, word in enumerate(signature.words):
            value = call.args[index]
            kind, _, size_text = word.partition(":")
            if kind == "path":
                arguments.append(self._path(call, signature, index, paths, places))
            elif kind == "dir":
                arguments.append(_AT_FDCWD)
            elif kind == "text":
                arguments.append(self._memory.read_string(call.tid, value))
            elif kind == "fd":
                try:
                    borrowed = borrow(call.tid, value)
                except BorrowRefused:
                    path_at, place = next(iter(places.items()))
                    return Steer(functools.partial(with_path, path_at, place.real))
                arguments.append(borrowed)
            elif kind in ("in", "inn"):
                size = int(size_text) if kind == "in" else call.args[int(size_text)]
                arguments.append(self._input(call.tid, value, size))
            elif kind in ("out", "outn"):
                size = int(size_text) if kind == "out" else call.args[int(size_text)]
                buffer = ctypes.create_string_buffer(min(size, _MOST_BYTES))
                results.append((value, buffer, kind == "outn"))
                arguments.append(buffer if size else 0)
            else:
                arguments.append(_signed(value))
        if signature.opens:
            flags = call.args[signature.flags_at] if signature.flags_at >= 0 else os.O_CREAT
            place = next(iter(places.values()))
            if not flags & (os.O_NONBLOCK | os.O_PATH) and _is_pipe(place.real):
                # Whoever opens a pipe waits for its other end: nobody else's calls may wait too.
                return Waits(functools.partial(_open, call.number, arguments, flags, -1))
            return _open(call.number, arguments, flags, _umask_of(call, flags))
        try:
            result = _make(call, signature, arguments)
        finally:
            if borrowed >= 0:
                os.close(borrowed)
        for address, buffer, has_length in results:
            data = buffer.raw[:result] if has_length else buffer.raw
            if data and address:
                self._memory.write(call.tid, address, data)
        return Value(result)

    def _path(
        self,
        call: Call,
        signature: Signature,
        index: int,
        paths: dict[int, bytes],
        places: dict[int, Place],
    ) -> bytes | int:
        if index in places:
            return places[index].real
        if index not in paths:
            return 0
        if paths[index][:1] == b"/":
            return paths[index]
        # The other path of two is a relative one: it begins where the process is.
        base = f"/proc/{call.tid}/cwd/"
        if index and signature.words[index - 1] == "dir":
            folder = _signed(call.args[index - 1])
            if folder != _AT_FDCWD:
                base = f"/proc/{call.tid}/fd/{folder}/"
        return base.encode() + paths[index]

    def _input(self, tid: int, address: int, size: int) -> ctypes.Array[ctypes.c_char] | int:
        if not address or not size:
            return 0
        data = self._memory.read(tid, address, min(size, _MOST_BYTES))
        return ctypes.create_string_buffer(data, len(data))

    def _steer(self, call: Call, argument: int) -> Answer:
        path = self._memory.read_string(call.tid, call.args[argument])
        if path[:1] != b"/":
            return LET_THROUGH
        place = self._view.find(path)
        if place is None or place.real == path:
            return LET_THROUGH
        place = follow(self._view, path, place, stays=False)
        if call.number != self._chdir:
            os.stat(place.real)  # most are tries along PATH
            if os.access(place.real, os.R_OK | os.X_OK) and os.path.isfile(place.real):
                script = find_script(self._view, path, place.real)
                if script is not None:
                    words = read_arguments(self._memory, call.tid, call.args[argument + 1])
                    return Steer(functools.partial(with_script, argument, script, words))
        return Steer(functools.partial(with_path, argument, place.real))

    def _working_directory(self, call: Call) -> Answer:
        found = self._view.virtual(os.readlink(f"/proc/{call.tid}/cwd").encode())
        if found is None:
            return LET_THROUGH
        text = found + b"\0"
        if len(text) > call.args[1]:
            return Value(-errno.ERANGE)
        self._memory.write(call.tid, call.args[0], text)
        return Value(len(text))

    def _name(self, call: Call) -> Answer:
        buffer = ctypes.create_string_buffer(_UTSNAME_BYTES)
        syscalls.raw("uname", self._uname, buffer)
        name = self._hostname[: _FIELD_BYTES - 1].ljust(_FIELD_BYTES, b"\0")
        text = buffer.raw[:_NODE_NAME_AT] + name + buffer.raw[_NODE_NAME_AT + _FIELD_BYTES :]
        self._memory.write(call.tid, call.args[0], text)
        return Value(0)


def _stays(call: Call, signature: Signature) -> bool:
    """Whether a link at the end of a path is what is meant, and not what it leads to."""
    if signature.link_flags_at >= 0:
        return bool(call.args[signature.link_flags_at] & _AT_SYMLINK_NOFOLLOW)
    if signature.flags_at >= 0:
        flags = call.args[signature.flags_at]
        return bool(flags & os.O_NOFOLLOW) or flags & _NEW == _NEW
    return signature.stays


def _signed(value: int) -> int:
    """Return an argument as the int that most calls take."""
    low = value & 0xFFFFFFFF
    if value >> 32 in (0, 0xFFFFFFFF):
        return low - (1 << 32) if low >> 31 else low
    return value


def _make(call: Call, signature: Signature, arguments: CallArguments) -> int:
    """Make a call that opens nothing."""
    if not signature.creates:
        return syscalls.raw("call", call.number, *arguments)
    before = os.umask(_umask_of(call, os.O_CREAT))
    try:
        return syscalls.raw("call", call.number, *arguments)
    finally:
        os.umask(before)


def _open(number: int, arguments: CallArguments, flags: int, umask: int) -> Opened:
    before = os.umask(umask) if umask >= 0 else -1
    try:
        fd = syscalls.raw("open", number, *arguments)
    finally:
        if before >= 0:
            os.umask(before)
    return Opened(fd, bool(flags & os.O_CLOEXEC))


def _umask_of(call: Call, flags: int) -> int:
    """Return the umask of who makes a file; -1 where none is made."""
    if not flags & (os.O_CREAT | _TEMPORARY):
        return -1
    with open(f"/proc/{call.tid}/status") as file:
        for line in file:
            if line.startswith("Umask:"):
                return int(line.split()[1], 8)
    return 0o022


def _is_pipe(path: bytes) -> bool:
    try:
        return stat.S_ISFIFO(os.stat(path).st_mode)
    except OSError:
        return False
