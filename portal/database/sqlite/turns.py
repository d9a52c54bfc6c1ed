"""A lock whose waiters get it in the order in which they came; `threading.Lock` promises none."""

import threading
from collections import deque


class Turns:
    """One writer at a time has the turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[threading.Event] = deque()
        self._is_taken = False

    def take(self, timeout_s: float) -> bool:
        """False: those before it did not end in time."""
        with self._lock:
            if not self._is_taken:
                self._is_taken = True
                return True
            called = threading.Event()
            self._waiting.append(called)
        if called.wait(timeout_s):
            return True
        with self._lock:
            if called.is_set():  # between the end of the wait and here
                return True
            self._waiting.remove(called)
            return False

    def give_back(self) -> None:
        """To who has waited longest, who so has it before anybody who comes now."""
        with self._lock:
            if self._waiting:
                self._waiting.popleft().set()
            else:
                self._is_taken = False
