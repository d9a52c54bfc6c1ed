"""Exit codes, and errors in words with a next step.

Documented in docs/users/cli.md; scripts rely on them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

OK = 0
ERROR = 1
USAGE = 2
NOT_SIGNED_IN = 3
NOT_FOUND = 4
REFUSED = 5
UNREACHABLE = 6
INTERRUPTED = 130
OUTPUT_CLOSED = 141  # as the shell says of a program that wrote into a closed pipe


@dataclass(frozen=True)
class Refusal:
    """One thing wrong with a request, as the portal says it."""

    field: str
    code: str
    text: str


class ClientError(Exception):
    """The command ends here: what went wrong, what to do next, and the exit code.

    `status` is HTTP's, and `refusals` are the reasons, where the portal said no.
    """

    def __init__(
        self,
        text: str,
        next_step: str = "",
        code: int = ERROR,
        *,
        status: int = 0,
        refusals: Sequence[Refusal] = (),
    ) -> None:
        self.text = text
        self.next_step = next_step
        self.code = code
        self.status = status
        self.refusals = refusals
        super().__init__(text)


def usage_error(text: str, next_step: str = "") -> ClientError:
    """The command cannot mean anything as it was typed."""
    return ClientError(text, next_step, USAGE)


class UnreachableError(ClientError):
    """The portal does not answer. `may_have_happened`: the request was sent all the same."""

    def __init__(self, text: str, next_step: str = "", *, may_have_happened: bool = False) -> None:
        super().__init__(text, next_step, UNREACHABLE)
        self.may_have_happened = may_have_happened
