"""Exit codes, and errors in words with a next step.

Documented in docs/users/cli.md; scripts rely on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

OK = 0
ERROR = 1
USAGE = 2
NOT_SIGNED_IN = 3
NOT_FOUND = 4
REFUSED = 5
UNREACHABLE = 6
INTERRUPTED = 130
OUTPUT_CLOSED = 141  # as the shell says of a program that wrote into a closed pipe


class Refusal(NamedTuple):
    """One thing wrong with a request, as the portal says it."""

    field: str
    code: str
    text: str


@dataclass(eq=False)
class ClientError(Exception):
    """The command ends here: what went wrong, what to do next, and the exit code.

    `status` is HTTP's, and `refusals` are the reasons, where the portal said no.
    """

    text: str
    next_step: str = ""
    code: int = ERROR
    status: int = 0
    refusals: Sequence[Refusal] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(eq=False)
class UnreachableError(ClientError):
    """The portal does not answer. `may_have_happened`: the request was sent all the same."""

    code: int = UNREACHABLE
    may_have_happened: bool = False


def usage_error(text: str, next_step: str = "") -> ClientError:
    """The command cannot mean anything as it was typed."""
    return ClientError(text, next_step, USAGE)
