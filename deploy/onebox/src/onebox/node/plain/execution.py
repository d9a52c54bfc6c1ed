"""What a process needs in its memory to execute a file of the pod by its path on the machine.

A script's first line names its interpreter by a path of the container, which the kernel would not
find, and a script is told its own path: so it is started as the kernel would, interpreter first.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from onebox.node.plain.answers import Arguments
from onebox.node.plain.links import follow
from onebox.node.plain.memory import Memory
from onebox.node.plain.view import View

# As the kernel reads a first line (BINPRM_BUF_SIZE).
_LINE_BYTES = 256
_MOST_ARGUMENTS = 1 << 16


class Script(NamedTuple):
    """How to start a script.

    Args:
        real: the interpreter's path on the machine.
        words: what comes before the script's own arguments.
    """

    real: bytes
    words: Sequence[bytes]


def find_script(view: View, path: bytes, real: bytes) -> Script | None:
    """Return how to start a script; None where the file is something else.

    Raises:
        OSError: the file cannot be read.
    """
    with open(real, "rb") as file:
        line = file.read(_LINE_BYTES)
    if not line.startswith(b"#!"):
        return None
    words = line[2:].split(b"\n", 1)[0].strip().split(None, 1)
    if not words or words[0][:1] != b"/":
        return None
    place = view.find(words[0])
    if place is None or place.real == words[0]:
        return Script(words[0], (*words, path))
    return Script(follow(view, words[0], place, stays=False).real, (*words, path))


def with_path(argument: int, path: bytes, address: int) -> Arguments:
    """Return what to write at an address, and the arguments that make a call use that path."""
    return path + b"\0", {argument: address}


def with_script(argument: int, script: Script, arguments: Sequence[int], address: int) -> Arguments:
    """Return the same for an interpreter and its words.

    Args:
        argument: which argument of the call is the path; the next one is the list of words.
        arguments: addresses of the script's own arguments, without its name.
    """
    text = b""
    places = []
    for word in (script.real, *script.words):
        places.append(address + len(text))
        text += word + b"\0"
    text += b"\0" * (-len(text) % 8)
    words = (*places[1:], *arguments, 0)
    return text + struct.pack(f"={len(words)}Q", *words), {
        argument: places[0],
        argument + 1: address + len(text),
    }


def read_arguments(memory: Memory, tid: int, address: int) -> list[int]:
    """Return the addresses in a list of arguments, without the first.

    Raises:
        OSError: it cannot be read.
    """
    found: list[int] = []
    while address and len(found) < _MOST_ARGUMENTS:
        pointer = struct.unpack("=Q", memory.read(tid, address, 8))[0]
        if not pointer:
            break
        found.append(pointer)
        address += 8
    return found[1:]
