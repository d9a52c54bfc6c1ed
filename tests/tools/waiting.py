"""Waits on conditions, so that no test assumes how fast a machine is."""

import time
from collections.abc import Callable
from typing import Any


def wait_for(
    what: str, look: Callable[[], Any], *, timeout_s: float = 60, interval_s: float = 0.05
) -> Any:
    """The first true answer of `look`.

    Raises:
        AssertionError: none came in time; the text names what was waited for.
    """
    deadline = time.monotonic() + timeout_s
    while True:
        answer = look()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"after {timeout_s} s still not: {what}"
        time.sleep(interval_s)
