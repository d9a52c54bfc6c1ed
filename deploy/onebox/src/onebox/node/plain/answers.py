"""What a call of a pod can be answered with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

Arguments = tuple[bytes, Mapping[int, int]]
"""Bytes for the process's memory, and new values of the call's arguments by their numbers."""


class LetThrough(NamedTuple):
    """The kernel does the call as it was made."""


class Value(NamedTuple):
    """The call's result; negative is an error number."""

    value: int


class Opened(NamedTuple):
    """The call's result is a copy of this descriptor of ours."""

    fd: int
    closes_on_exec: bool


class Steer(NamedTuple):
    """The process makes the call itself, with other arguments.

    Args:
        make: given where its bytes will lie, returns the arguments.
    """

    make: Callable[[int], Arguments]


class Waits(NamedTuple):
    """The call may take its time: it is made in a thread.

    Args:
        make: returns the answer, or raises OSError.
    """

    make: Callable[[], Value | Opened]


Answer = LetThrough | Value | Opened | Steer | Waits
LET_THROUGH = LetThrough()
