# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""Brings closed segments of the log to the object store, in the background."""

import errno
import functools
import hashlib
import os
import threading
import time
from collections import deque
from typing import Callable, Deque, Iterable, Optional, Set

from jobs.pod.errors import PodError, PortalError
from jobs.pod.portal_client import PortalClient, RetryBudget
from jobs.pod.segments import READ_BYTES, Segment, open_plain

RING_AGE_S = 60  # a segment that may soon be dropped is shipped only when it got this old


def ship_segment(
    portal: PortalClient, replica_path: str, segment: Segment, pod_uid: str, run_start: int = 0
) -> None:
    """Brings one segment to the object store, unless it is there.

    `pod_uid` is the pod that wrote it, or that goes on where its writer stopped; `run_start` the byte of the log
    from which on it is of the container that ships, 0 of who ships what others printed.

    Raises:
        OSError: the file is gone.
        PortalError: see `PortalClient`.
    """
    with open_plain(segment.path) as file:
        digest = hashlib.sha256()
        size = 0
        for data in iter(lambda: file.read(READ_BYTES), b""):
            digest.update(data)
            size += len(data)
        about = {
            "number": segment.number,
            "start_byte": segment.start,
            "size_bytes": size,
            "sha256": digest.hexdigest(),
            "pod_uid": pod_uid,
        }
        if run_start:
            about["run_start_byte"] = run_start
        answer = portal.post(replica_path + "segments/", about)
        if answer.get("have"):
            return
        file.seek(0)
        try:
            portal.put(answer, file, size)
        except PodError as error:
            raise OSError(errno.EIO, str(error), segment.path) from error
    portal.post(f"{replica_path}segments/{segment.number}/done/", about)


def ship_kept(
    portal: PortalClient,
    replica_path: str,
    segments: Iterable[Segment],
    pod_uid: str,
    budget: RetryBudget,
    tell: Callable[[str], None],
) -> int:
    """Brings segments of the volume one after the other; bytes of those that are at the portal now.

    `tell` hears why one is left out.

    Raises:
        PortalError: nothing more is wanted, or the budget is spent.
    """
    kept_bytes = 0
    for segment in segments:
        try:
            budget.keep_trying(
                functools.partial(ship_segment, portal, replica_path, segment, pod_uid)
            )
            kept_bytes += segment.size
        except PortalError as error:
            if error.is_final or not error.status:
                raise
            tell(f"{segment.path} is skipped: {error}")
        except OSError as error:
            tell(f"{segment.path} cannot be read: {error.strerror}")
    return kept_bytes


def _was_removed(path: str) -> bool:
    """Whether nobody can bring it; where its volume is gone from this pod another one can."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


class Shipper(threading.Thread):
    """Ships closed segments in the background, oldest first, and tells the portal of dropped ones."""

    def __init__(
        self, portal: PortalClient, replica_path: str, pod_uid: str, budget: RetryBudget
    ) -> None:
        super().__init__(daemon=True, name="shipper")
        self._portal = portal
        self._replica_path = replica_path
        self._pod_uid = pod_uid
        self._budget = budget
        self._pending: Deque[Segment] = deque()
        self._drops: Deque[int] = deque()
        # To drops: the log of a container before is complete, until a segment comes.
        self._is_closed = False
        self._sent: Set[int] = set()
        self._current: Optional[int] = None
        self._finishing = False
        self._changed = threading.Condition()
        self.failure: Optional[str] = None
        self.refused_bytes = 0
        self.run_start = 0  # the byte of the log from which on it is of this container
        self.is_refused = False  # the portal does not want anything of this training any more

    def add(self, segment: Segment) -> None:
        with self._changed:
            self._pending.append(segment)
            self._changed.notify()

    def assume_sent(self, number: int) -> None:
        """An earlier pod may have shipped it: the portal is told if it is dropped."""
        self._sent.add(number)

    def drop(self, number: int) -> None:
        with self._changed:
            if number in self._sent or number == self._current:
                self._drops.append(number)
                self._changed.notify()
            self._pending = deque(s for s in self._pending if s.number != number)

    def finish(self) -> bool:
        """Ships all that is left; True when everything arrived."""
        with self._changed:
            self._finishing = True
            self._changed.notify()
        while self.is_alive():
            self.join(0.5)
        return self.failure is None and not self.is_refused

    def run(self) -> None:
        while True:
            with self._changed:
                while not self._may_drop() and not self._is_ready():
                    if self._finishing and not self._pending:
                        return
                    self._changed.wait(1.0)
                number = self._drops.popleft() if self._may_drop() else None
                segment = self._pending.popleft() if number is None else None
                self._current = segment.number if segment else None
            try:
                self._budget.keep_trying(functools.partial(self._one, number, segment))
            except PortalError as error:
                if not error.status:
                    self.failure = str(error)
                    return
                if error.is_final and number is not None:
                    with self._changed:
                        self._drops.appendleft(number)
                        self._is_closed = True
                    continue
                if error.is_final:
                    self.is_refused = True
                    return
                # No later try and no rescue pod would get another answer.
                self.refused_bytes += segment.size if segment else 0
            except OSError as error:
                if segment is not None and not _was_removed(segment.path):
                    self.failure = f"{segment.path} cannot be read: {error.strerror}"

    def _may_drop(self) -> bool:
        return bool(self._drops) and not self._is_closed

    def _is_ready(self) -> bool:
        if not self._pending:
            return False
        first = self._pending[0]
        # In a flood most of the ring is dropped again before anybody could want it.
        is_old = time.monotonic() - first.closed_at >= RING_AGE_S
        return self._finishing or is_old or not first.in_ring

    def _one(self, number: Optional[int], segment: Optional[Segment]) -> None:
        if segment is not None:
            ship_segment(self._portal, self._replica_path, segment, self._pod_uid, self.run_start)
            with self._changed:
                self._current, self._is_closed = None, False
                if segment.in_ring:
                    self._sent.add(segment.number)
        else:
            self._portal.post(f"{self._replica_path}segments/{number}/drop/", {})
            with self._changed:
                self._sent.discard(number or 0)
