"""Which reconciler may write: one row with an epoch, checked again by every transaction (fencing).

A lease alone does not keep a paused process from going on. Therefore each write transaction also
updates the lease row `WHERE epoch = ours`: an older holder changes nothing and stops itself. Times
are compared only by our own monotonic clock, never with the clock of another machine.
"""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from asgiref.sync import sync_to_async
from django.db import close_old_connections, transaction
from django.utils import timezone

from jobs.models import ReconcilerLease

T = TypeVar("T")

TTL_S = 15.0  # a holder that was silent for so long has lost it
RENEW_S = 5.0
POLL_S = 1.0  # how often a waiting reconciler looks
_ROW = 1


class LeaseLostError(Exception):
    """Another reconciler holds the lease, or ours could not be renewed in time."""


def _started_ticks(pid: int) -> str:
    """Start time of a process of this machine, empty when there is none that still does anything."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The command may hold blanks and parentheses; the fields after its last one do not.
    fields = stat.rpartition(")")[2].split()
    # One that was killed and that nobody has waited for is no reconciler any more.
    return "" if fields[0] in "ZX" else fields[19]


def _place() -> str:
    """This machine (since its boot) and pid namespace: where a pid means something."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()[:8]
        space = os.readlink("/proc/self/ns/pid").removeprefix("pid:").strip("[]")
    except OSError:
        return ""
    return f"{socket.gethostname()[:40]}/{boot}/{space}"


def holder_name() -> str:
    """Names this process so that a later one on the same machine can tell whether it is alive."""
    pid = os.getpid()
    return f"{_place()}/{pid}/{_started_ticks(pid)}"


def is_dead(holder: str) -> bool:
    """True only when the holder was a process of this very place and is no more."""
    place, _, rest = holder.rpartition("/")
    place, _, pid = place.rpartition("/")
    if not place or place != _place() or not pid.isdigit():
        return False
    return _started_ticks(int(pid)) != rest


class Lease:
    """Held by one reconciler at a time; `commit` is the only way to write observed state."""

    def __init__(
        self,
        *,
        holder: str | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        ttl_s: float = TTL_S,
    ) -> None:
        # Distinct for two reconcilers within one process as well (a restarted task).
        self.holder = holder or holder_name()
        self.epoch = 0
        self._monotonic = monotonic
        self._ttl_s = ttl_s
        self._held_until = float("-inf")
        self._watched: tuple[str, int, object] | None = None
        self._watched_since = 0.0

    # --- taking it ---
    async def try_acquire(self) -> bool:
        """Takes the lease when it is free, its holder is dead, or was silent for too long."""
        asked_at = self._monotonic()
        took = await sync_to_async(self._try_acquire)()
        if took:
            self._held_until = asked_at + self._ttl_s
        return took

    def _try_acquire(self) -> bool:
        # Who waits does nothing else with its connection: once cut, it would stay so for ever.
        close_old_connections()
        row, _ = ReconcilerLease.objects.get_or_create(pk=_ROW)
        if not self._look_whether_free(row):
            return False
        epoch = row.epoch + 1
        took = ReconcilerLease.objects.filter(pk=_ROW, epoch=row.epoch).update(
            holder=self.holder, epoch=epoch, renewed_at=timezone.now()
        )
        if took:
            self.epoch = epoch
        return bool(took)

    def _look_whether_free(self, row: ReconcilerLease) -> bool:
        if row.holder in {"", self.holder} or is_dead(row.holder):
            return True
        seen = (row.holder, row.epoch, row.renewed_at)
        now = self._monotonic()
        if seen != self._watched:
            self._watched, self._watched_since = seen, now
            return False
        return now - self._watched_since >= self._ttl_s

    async def release(self) -> None:
        """Gives it back, so that the next one need not wait. Harmless when it is not ours."""
        self._held_until = float("-inf")
        await sync_to_async(self._release)()

    def _release(self) -> None:
        ReconcilerLease.objects.filter(pk=_ROW, epoch=self.epoch, holder=self.holder).update(
            holder=""
        )

    # --- holding it ---
    @property
    def is_held(self) -> bool:
        return self._monotonic() < self._held_until

    def check(self) -> None:
        """Called before each call that changes the cluster.

        Raises:
            LeaseLostError: not ours any more, as far as we can know without asking.
        """
        if not self.is_held:
            raise LeaseLostError(f"the lease (epoch {self.epoch}) was not renewed in time")

    async def commit(self, write: Callable[[], T]) -> T:
        """Runs `write` in the database thread, in one transaction that also checks our epoch.

        Raises:
            LeaseLostError: the epoch is no longer ours; nothing was written.
        """
        asked_at = self._monotonic()
        result = await sync_to_async(self._commit)(write)
        self._held_until = asked_at + self._ttl_s
        return result

    def _commit(self, write: Callable[[], T]) -> T:
        with transaction.atomic():
            ours = ReconcilerLease.objects.filter(pk=_ROW, epoch=self.epoch, holder=self.holder)
            if ours.update(renewed_at=timezone.now()) != 1:
                raise LeaseLostError(f"another reconciler took over from epoch {self.epoch}")
            return write()
