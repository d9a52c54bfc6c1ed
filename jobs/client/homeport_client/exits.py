"""Exit codes, and errors in words with a next step.

Documented in docs/users/cli.md; scripts rely on them.
"""

from __future__ import annotations

OK = 0
ERROR = 1
USAGE = 2
NOT_SIGNED_IN = 3
NOT_FOUND = 4
REFUSED = 5
UNREACHABLE = 6
INTERRUPTED = 130
OUTPUT_CLOSED = 141  # as the shell says of a program that wrote into a closed pipe


class ClientError(Exception):
    """The command ends here: what went wrong, what to do next, and the exit code."""

    def __init__(self, text: str, next_step: str = "", code: int = ERROR) -> None:
        self.text = text
        self.next_step = next_step
        self.code = code
        super().__init__(text)


class OutputClosedError(Exception):
    """Nobody reads what is written (`homeport logs NAME | head`): the command ends silently."""


class UsageError(ClientError):
    """The command cannot mean anything as it was typed."""

    def __init__(self, text: str, next_step: str = "") -> None:
        super().__init__(text, next_step, USAGE)


class UnreachableError(ClientError):
    """The portal does not answer. `may_have_happened`: the request was sent all the same."""

    def __init__(self, text: str, next_step: str = "", *, may_have_happened: bool = False) -> None:
        super().__init__(text, next_step, UNREACHABLE)
        self.may_have_happened = may_have_happened
