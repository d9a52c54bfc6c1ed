"""The filter that hands a pod's calls over: files by name, addresses, and a few more. Pure."""

from __future__ import annotations

import struct

from onebox.node.plain.calls import OTHERS, SIGNATURES, STEERED, numbers

_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_LOAD_WORD, _RETURN, _JUMP_EQUAL, _JUMP_ANY_BIT = 0x20, 0x06, 0x15, 0x45
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_ARGUMENTS = 0, 4, 16
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_AT_EMPTY_PATH = 0x1000
_EVERYBODY = 0xFFFFFFFF


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def build_filter(machine: str) -> bytes:
    """Return the filter program for a machine type as uname gives it.

    Raises:
        KeyError: the type is not known.
    """
    table = numbers(machine)
    allow = _instruction(_RETURN, _ALLOW)
    notify = _instruction(_RETURN, _NOTIFY)

    def when(name: str, argument: int, test: int, value: int, *, then: bytes) -> list[bytes]:
        """One return for a call whose argument passes a test (low half), the other if not."""
        if name not in table:
            return []
        other = allow if then == notify else notify
        return [
            _instruction(_JUMP_EQUAL, table[name], if_false=4),
            _instruction(_LOAD_WORD, _OFFSET_ARGUMENTS + 8 * argument),
            _instruction(test, value, if_false=1),
            then,
            other,
        ]

    # A descriptor's own status, asked for with an empty path, is by far the most frequent call.
    conditional = {"newfstatat", "statx"}
    parts = [
        _instruction(_LOAD_WORD, _OFFSET_ARCH),
        _instruction(_JUMP_EQUAL, _AUDIT[machine], if_true=1),
        allow,  # the other filter refuses calls of other architectures
        _instruction(_LOAD_WORD, _OFFSET_NUMBER),
        *when("newfstatat", 3, _JUMP_ANY_BIT, _AT_EMPTY_PATH, then=allow),
        *when("statx", 2, _JUMP_ANY_BIT, _AT_EMPTY_PATH, then=allow),
        *when("sendto", 4, _JUMP_EQUAL, 0, then=allow),
        *when("kill", 0, _JUMP_EQUAL, _EVERYBODY, then=notify),
    ]
    for name in (*SIGNATURES, *STEERED, *OTHERS):
        if name in table and name not in conditional:
            parts.append(_instruction(_JUMP_EQUAL, table[name], if_false=1))
            parts.append(notify)
    parts.append(allow)
    return b"".join(parts)
