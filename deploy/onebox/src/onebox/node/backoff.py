"""Back-off of one container's restarts or pulls, with the kubelet's numbers.

Rule followed: k8s.io/client-go/util/flowcontrol/backoff.go as the kubelet uses it. The first
restart is immediate; then 10 s doubling to 300 s, counted from the moment the container ended;
forgotten when the container had run for more than 10 minutes since its last restart.
"""

from __future__ import annotations

from dataclasses import dataclass

INITIAL_S = 10.0
LONGEST_S = 300.0
FORGOTTEN_AFTER_S = 600.0


@dataclass
class Backoff:
    """Times are seconds of one monotonic clock."""

    initial_s: float = INITIAL_S
    longest_s: float = LONGEST_S
    delay_s: float = 0.0
    updated_at_s: float = 0.0

    def retry_at_s(self, ended_at_s: float) -> float:
        """Earliest moment for the next try of something that ended at `ended_at_s`."""
        if self._is_forgotten(ended_at_s):
            return ended_at_s
        return ended_at_s + self.delay_s

    def tried(self, ended_at_s: float, now_s: float) -> None:
        """Count a new try, made now, after the end at `ended_at_s`."""
        if self._is_forgotten(ended_at_s):
            self.delay_s = self.initial_s
        else:
            self.delay_s = min(self.delay_s * 2, self.longest_s)
        self.updated_at_s = now_s

    def _is_forgotten(self, ended_at_s: float) -> bool:
        return self.delay_s == 0 or ended_at_s - self.updated_at_s > FORGOTTEN_AFTER_S


def short_duration(seconds: float) -> str:
    """Write a duration as Go does in back-off messages: "10s", "1m20s", "5m0s"."""
    whole = round(seconds)
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
