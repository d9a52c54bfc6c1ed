"""Says how far something is that takes longer than a second, for people at a terminal and logs."""

import time
from collections.abc import Callable

_FIRST_S = 1.0
_AGAIN_S = 2.0


class Progress:
    """Lines such as `Copying the database: 40 % (1.2 of 3.0 GB)`, none for what is quick."""

    def __init__(
        self,
        what: str,
        total: int,
        say: Callable[[str], object],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            what: begins each line.
            total: bytes in all; 0: not known.
            say: takes a line.
        """
        self._what, self._total, self._say, self._monotonic = what, total, say, monotonic
        self._done = 0
        self._due = monotonic() + _FIRST_S

    def add(self, count: int) -> None:
        """So many bytes more are done."""
        self.reached(self._done + count)

    def reached(self, done: int) -> None:
        """So many bytes are done in all."""
        self._done = done
        now = self._monotonic()
        if now < self._due:
            return
        self._due = now + _AGAIN_S
        if not self._total:
            self._say(f"{self._what}: {in_units(done)}")
            return
        percent = min(100, 100 * done // self._total)
        self._say(f"{self._what}: {percent} % ({in_units(done)} of {in_units(self._total)})")


def in_units(size_bytes: int) -> str:
    """`512 bytes`, `3.4 MB`, `1.2 GB` (decimal units)."""
    for unit, name in ((10**9, "GB"), (10**6, "MB"), (10**3, "kB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.1f} {name}"
    return f"{size_bytes} bytes"
