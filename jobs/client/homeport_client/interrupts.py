"""Ctrl-C in places where two things belong together: what is written, and that it was."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def interrupted_later() -> Iterator[None]:
    """Ctrl-C counts when what is inside has been done; a second one counts at once.

    The second is for whoever waits inside for what may never come: a pager that reads no more.

    Raises:
        KeyboardInterrupt: Ctrl-C came meanwhile.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield  # nothing is interrupted here: another thread, or a program told to ignore Ctrl-C
        return
    times = 0

    def note(number: int, frame: Any) -> None:
        nonlocal times
        times += 1
        if times > 1:
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if times:
        raise KeyboardInterrupt
