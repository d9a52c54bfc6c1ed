"""How long a Job waits before it replaces failed pods: 10 s, 20 s, 40 s, ... Pure.

Rules of k8s.io/kubernetes/pkg/controller/job/backoff_utils.go: failures are counted since the
last success, the wait starts when the last failed pod ended.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from onebox.api.controllers.podstate import finished_at
from onebox.api.resources import Obj

FIRST_WAIT_S = 10.0
# MaxJobPodFailureBackOff in job_controller.go; the documentation still says six minutes.
LONGEST_WAIT_S = 600.0


@dataclass(frozen=True)
class Backoff:
    """Failures since the last success, and when the last one was."""

    failures: int = 0
    last_failure: datetime | None = None

    def wait_s(self, now: datetime) -> float:
        """Seconds until a replacement may be created; 0 is now."""
        if self.failures == 0 or self.last_failure is None:
            return 0.0
        wait_s = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** min(self.failures - 1, 16))
        return max(0.0, wait_s - (now - self.last_failure).total_seconds())


def after(backoff: Backoff, succeeded: Sequence[Obj], failed: Sequence[Obj]) -> Backoff:
    """The back-off after more pods have finished."""
    if not succeeded and not failed:
        return backoff
    ends = sorted(finished_at(pod) for pod in failed)
    if not succeeded:
        return Backoff(backoff.failures + len(ends), ends[-1])
    last_success = max(finished_at(pod) for pod in succeeded)
    since = [end for end in ends if end > last_success]
    return Backoff(len(since), since[-1]) if since else Backoff()
