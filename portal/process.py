"""What this process knows of itself, for whoever asks whether it lives and may be sent requests."""

import asyncio
import time
from dataclasses import dataclass

STUCK_S = 60.0  # a reconciler looks around each 10 s, whatever goes wrong
_POLL_S = 0.05


@dataclass
class Process:
    """Written on the event loop only.

    Attributes:
        is_draining: it was asked to end, and finishes what it has begun.
        knows_schema: the database was seen to have this code's migrations.
        schema_problem: why it was seen not to have them, while that is waited for; else empty.
        requests: HTTP requests in progress, probes left out.
        is_synced: whether the reconciler that works here has listed the cluster; None: none works here.
        ticked_at: when the reconciler last came round, monotonic seconds; None: none works here.
    """

    is_draining: bool = False
    knows_schema: bool = True
    schema_problem: str = ""
    requests: int = 0
    is_synced: bool | None = None
    ticked_at: float | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether a reconciler that holds the lease has stopped coming round."""
        return self.ticked_at is not None and time.monotonic() - self.ticked_at > STUCK_S

    async def drain(self, limit_s: float) -> None:
        """Until no request is in progress, for so long at most."""
        self.is_draining = True
        deadline = time.monotonic() + limit_s
        while self.requests and time.monotonic() < deadline:
            await asyncio.sleep(_POLL_S)


process = Process()
