"""Whether the database hangs: known from one answer that did not come, and asked about until it does.

A server that was stopped, or whose machine is gone, refuses nothing: every question to it waits for
its whole time limit. So the first one that ran out of time tells all others, who then fail at once;
meanwhile one thread asks each second whether the server is back.
"""

import logging
import threading
import time
from collections.abc import Callable

log = logging.getLogger(__name__)

ASK_S = 1.0


class Outage:
    """Of one database, in this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_on = False

    @property
    def is_on(self) -> bool:
        return self._is_on

    def begin(self, is_back: Callable[[], bool]) -> None:
        """Notes that the database hangs, until `is_back` (blocking, asked in a thread) says yes."""
        with self._lock:
            if self._is_on:
                return
            self._is_on = True
        log.error("the database does not answer; requests are refused until it does")
        threading.Thread(target=self._wait, args=(is_back,), daemon=True, name="outage").start()

    def _wait(self, is_back: Callable[[], bool]) -> None:
        began_at = time.monotonic()
        while not _ask(is_back):
            time.sleep(ASK_S)
        self._is_on = False
        log.warning("the database answers again, after %.0f s", time.monotonic() - began_at)


def _ask(is_back: Callable[[], bool]) -> bool:
    try:
        return is_back()
    except Exception as error:  # noqa: BLE001  who stopped asking would refuse requests for ever
        log.warning("whether the database is back cannot be asked: %r", error)
        return False


outage = Outage()
