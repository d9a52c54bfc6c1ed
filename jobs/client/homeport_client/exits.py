"""Exit codes, and errors in words with a next step.

Documented in docs/users/cli.md; scripts rely on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Callable, NamedTuple

OK = 0
ERROR = 1
USAGE = 2
NOT_SIGNED_IN = 3
NOT_FOUND = 4
REFUSED = 5
UNREACHABLE = 6
INTERRUPTED = 130
OUTPUT_CLOSED = 141  # as the shell says of a program that wrote into a closed pipe


class RefusedField(NamedTuple):
    """One thing wrong with a request, as the portal says it.

    `line` is a line of the file, which the text then names together with the field; 0: none.
    """

    field: str
    code: str
    text: str
    line: int = 0

    def text_with(self, name: str) -> str:
        """The text, after the field's name where it does not already name it."""
        return f"{name}: {self.text}" if name and not self.line else self.text


@dataclass(eq=False)
class ClientError(Exception):
    """The command ends here: what went wrong, what to do next, and the exit code.

    `status` is HTTP's, and `refusals` are the reasons, where the portal said no.
    """

    text: str
    next_step: str = ""
    code: int = ERROR
    status: int = 0
    refusals: Sequence[RefusedField] = ()

    def __str__(self) -> str:
        return self.text


@dataclass(eq=False)
class UnreachableError(ClientError):
    """The portal does not answer. `may_have_happened`: the request was sent all the same.

    `is_final`: another try would end in the same way.
    """

    code: int = UNREACHABLE
    may_have_happened: bool = False
    is_final: bool = False


@contextmanager
def refused_line_by_line(text: str, name_of: Callable[[str], str] = str) -> Iterator[None]:
    """A refusal inside becomes the text and a line for each reason; `name_of` names a field."""
    try:
        yield
    except ClientError as error:
        if error.refusals and error.code == REFUSED:
            lines = [f"  {one.text_with(name_of(one.field))}" for one in error.refusals]
            error.text = "\n".join([text, *lines])
        raise


def usage_error(text: str, next_step: str = "") -> ClientError:
    """The command cannot mean anything as it was typed."""
    return ClientError(text, next_step, USAGE)
