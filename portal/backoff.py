"""Growing, jittered waits between tries, so that what comes back is not stormed."""

import random


class Backoff:
    """Doubles from `first_s` to `most_s`; each wait is a random 50 to 100 % of the step."""

    def __init__(self, first_s: float = 0.2, most_s: float = 30.0) -> None:
        self._first_s = first_s
        self._most_s = most_s
        self._step_s = first_s

    def next_s(self) -> float:
        """Seconds to wait before the next try."""
        step_s = self._step_s
        self._step_s = min(step_s * 2, self._most_s)
        return step_s * random.uniform(0.5, 1.0)

    def reset(self) -> None:
        self._step_s = self._first_s
