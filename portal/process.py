"""What this process knows of itself, for whoever asks whether it lives and may be sent requests."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

STUCK_S = 60.0  # a reconciler looks around each 10 s, whatever goes wrong
_POLL_S = 0.05
# Websockets that are sent away while we drain. Each that comes again costs another web server some 10 ms of a
# processor, and all of them at once would wait for each other there.
_AWAY_PER_S = 25


@dataclass
class Process:
    """Written on the event loop only.

    Attributes:
        is_draining: it was asked to end, and finishes what it has begun.
        knows_schema: the database was seen to have this code's migrations.
        schema_problem: why it was seen not to have them, while that is waited for; else empty.
        requests: HTTP requests in progress, probes left out.
        websockets: of each that is open, what ends it so that its client comes again.
        is_synced: whether the reconciler that works here has listed the cluster; None: none works here.
        ticked_at: when the reconciler last came round, monotonic seconds; None: none works here.
    """

    is_draining: bool = False
    knows_schema: bool = True
    schema_problem: str = ""
    requests: int = 0
    websockets: set[Callable[[], None]] = field(default_factory=set)
    is_synced: bool | None = None
    ticked_at: float | None = None

    @property
    def is_stuck(self) -> bool:
        """Whether a reconciler that holds the lease has stopped coming round."""
        return self.ticked_at is not None and time.monotonic() - self.ticked_at > STUCK_S

    async def drain(self, limit_s: float) -> None:
        """Until no request is in progress and websockets were sent away in turn, for so long at most."""
        self.is_draining = True
        began, there, gone = time.monotonic(), tuple(self.websockets), 0
        per_s = max(_AWAY_PER_S, len(there) / limit_s) if limit_s else 0
        while (took_s := time.monotonic() - began) < limit_s and (
            self.requests or gone < len(there)
        ):
            due = int(took_s * per_s) + 1
            for send_away in there[gone:due]:
                send_away()
            gone = min(due, len(there))
            await asyncio.sleep(_POLL_S)


process = Process()
