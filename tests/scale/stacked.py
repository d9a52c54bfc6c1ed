"""What is made of other contexts: opened one after the other, closed in the opposite order."""

from abc import ABC, abstractmethod
from contextlib import ExitStack
from types import TracebackType
from typing import Self


class Stacked(ABC):
    """Closes what `_enter` has opened, also where that fails half-way."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    @abstractmethod
    def _enter(self) -> None:
        """Opens everything on `_stack`."""

    def __enter__(self) -> Self:
        try:
            self._enter()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()
