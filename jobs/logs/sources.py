"""Shows one replica to one viewer: its pod while there is one, then its archive, in one stream."""

import asyncio
import logging
from collections import deque

from jobs.archive.logs import STARTED_AGAIN, Log, rest_words
from jobs.logs import archived
from jobs.logs.cursor import ArchivedPlace, LivePlace, Place, Position
from jobs.logs.hub import Hub
from jobs.logs.left_out import NODE_LACKS, LeftOut, lacks_beginning, may_lack_beginning
from jobs.logs.lines import Batch
from jobs.logs.rows import first_text
from jobs.logs.source import NextStep, Shown, choose
from jobs.logs.state import JobLogState, ReplicaLogState, read_log
from jobs.logs.tail import FIRST_LINES, Key, Outcome, Tail
from jobs.logs.viewer import QUEUE_BYTES, Viewer
from jobs.rules.archives import Run, is_whole
from portal.cluster.errors import ClusterError
from portal.storage.store import StoreError

log = logging.getLogger(__name__)

CONTAINER = "main"
LOOK_AGAIN_S = 10.0  # at an archive that still grows


class ReplicaSource:
    """The lines of one replica on their way to one viewer. `run` is the task that brings them."""

    def __init__(self, viewer: Viewer, hub: Hub, name: str, place: Place | None) -> None:
        self._viewer = viewer
        self._hub = hub
        self.name = name
        self._place = place
        self._followed: tuple[str, Outcome] | None = None
        self._read_whole: tuple[int, Run] | None = None
        self._job: JobLogState | None = None
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()
        self._outcome: Outcome = "gone"
        self._held: deque[Batch] | None = None  # came while older lines are still being sent
        self._held_bytes = 0
        self._after: Position | None = None  # what comes up to here was shown before
        self._attempt = 0
        self._lowest = place.attempt if place is not None else 1  # earlier attempts are done with
        self._told_rest = 0  # of which attempt it was said that more may come
        # Of a pod nothing was shown, and nothing is known to be left out.
        self._is_beginning = False
        self.is_done = False
        self.on_done = asyncio.Event()

    def update(self, job: JobLogState) -> None:
        """What the database says now."""
        self._job = job
        self._changed.set()

    async def run(self) -> None:
        """Brings lines until it is cancelled."""
        while True:
            self._changed.clear()
            step = NextStep.WAIT
            if self._job is not None:
                replica = self._replica(self._job)
                shown = Shown(self._place, self._followed, self._read_whole)
                step = choose(
                    replica,
                    shown,
                    job_is_final=self._job.is_final,
                    job_is_cleaned=self._job.is_cleaned,
                )
                if step is NextStep.FOLLOW:
                    await self._follow(self._job, replica)
                    continue
                if step is NextStep.READ and await self._read(self._job, replica):
                    continue
                if (
                    replica.is_past
                    and step is not NextStep.DONE
                    and self._told_rest != replica.attempt
                ):
                    self._told_rest = replica.attempt
                    self._say(rest_words(replica.attempt), replica.attempt)
                if replica.attempt < self._attempts(self._job)[-1].attempt:
                    self._lowest = replica.attempt + 1
                    continue
            self.is_done = step is NextStep.DONE
            if self.is_done:
                self.on_done.set()
            try:
                async with asyncio.timeout(LOOK_AGAIN_S if step is NextStep.READ else None):
                    await self._changed.wait()
            except TimeoutError:
                pass

    def _attempts(self, job: JobLogState) -> list[ReplicaLogState]:
        return [replica for replica in job.replicas if replica.name == self.name]

    def _replica(self, job: JobLogState) -> ReplicaLogState:
        """The attempt to show: of several the first that is not done with."""
        *earlier, last = self._attempts(job)
        return next((replica for replica in earlier if replica.attempt >= self._lowest), last)

    def _say_attempt(self, job: JobLogState, attempt: int) -> None:
        """A line between attempts; also before the first where several are shown."""
        if self._place is not None and self._place.attempt == attempt:
            return
        if self._place is not None or len(self._attempts(job)) > 1:
            self._say(f"attempt {attempt}", attempt)

    # --- the pod ---
    async def _follow(self, job: JobLogState, replica: ReplicaLogState) -> None:
        key = Key(job.namespace, replica.pod, CONTAINER)
        place = self._place
        after = place.position if isinstance(place, LivePlace) else None
        self._say_attempt(job, replica.attempt)
        if place is not None and place.attempt != replica.attempt:
            after = None
        self._attempt = replica.attempt
        self._ended.clear()
        self._after = after
        self._held, self._held_bytes = deque(), 0
        tail = self._hub.join(key, self, after)
        self._viewer.on_room.add(tail.drained)
        try:
            await tail.primed()
            self._is_beginning = after is None
            after = await self._show_earlier(job, replica, tail, after)
            await self._catch_up(tail, key, after)
            await self._ended.wait()
            self._followed = (replica.pod_id, self._outcome)
        finally:
            self._viewer.on_room.discard(tail.drained)
            self._hub.leave(key, tail, self)

    async def _catch_up(self, tail: Tail, key: Key, after: Position | None) -> None:
        """Sends what is older than what comes now, then what came meanwhile."""
        ring = tail.ring()
        self._held, self._held_bytes = deque(), 0
        await self._show_history(tail, key, after, ring)
        for batch in ring:
            if after is None:
                await self._show(batch)
            # How far an unfinished line had come need not be shown again.
            elif batch.last > after and (rest := batch.behind(after)) is not None:
                await self._show(rest)
        while self._held:
            batch = self._held.popleft()
            self._held_bytes -= batch.size
            await self._show(batch)
        self._held = None

    async def _show_history(
        self, tail: Tail, key: Key, after: Position | None, ring: tuple[Batch, ...]
    ) -> None:
        """What lies before the ring, as far as this viewer has not seen it."""
        start = tail.start
        if after is None:
            is_enough = start is None or sum(batch.count for batch in ring) >= FIRST_LINES
        else:
            is_enough = (start is not None and start <= after) or (
                bool(ring) and ring[0].first <= after
            )
        if after is None and is_enough and (tail.is_cut or start is not None):
            self._say_left_out(LeftOut(), self._attempt)
        before = None if start is None else _behind(start)
        if ring:  # an unfinished line stands behind that which it names
            before = _behind(ring[0].last) if ring[0].is_unfinished else ring[0].first
        if not is_enough and before is not None:
            await self._show_between(key, after, before)

    async def _show_between(self, key: Key, after: Position | None, before: Position) -> None:
        try:
            newest = await self._hub.newest(key) if after is None else None
            if newest is not None and newest.is_cut:
                self._say_left_out(LeftOut(), self._attempt)
            async for batch in self._hub.history(key, after, before, newest):
                await self._show(batch)
        except ClusterError as error:
            self._say(f"earlier lines cannot be read: {error}", self._attempt)

    async def _show(self, batch: Batch) -> None:
        if self._is_beginning:
            self._is_beginning = False
            await self._say_if_lost(batch)
        await self._viewer.room()
        self._put(batch)

    async def _say_if_lost(self, batch: Batch) -> None:
        """Says before the first lines of a pod when its node has lost those before them."""
        assert self._job is not None  # what is followed was found there
        replica = self._replica(self._job)
        if not may_lack_beginning(replica.archived_bytes - replica.run_start_byte):
            return
        try:
            found = await read_log(self._job.id, replica.role, replica.index, replica.attempt)
            if found is None or not await asyncio.to_thread(
                lacks_beginning, found, first_text(batch.encoded)
            ):
                return
        except StoreError as error:
            log.warning("log of %s of job %s: %s", self.name, self._job.id, error)
            return
        self._put_left_out(LeftOut(), NODE_LACKS, replica.attempt)

    def _put(self, batch: Batch) -> None:
        place = batch.place(self._attempt)
        if not batch.is_unfinished:
            self._place = place
        self._viewer.put_batch(self.name, batch, place)

    # --- what a tail calls ---
    def batch_came(self, batch: Batch) -> None:
        if self._after is not None:
            # The tail may have begun where somebody else stands, and not have come as far yet.
            rest = batch.behind(self._after)
            if rest is None:
                return
            if rest.last > self._after:
                self._after = None
            batch = rest
        if self._held is None:
            self._put(batch)
            return
        self._held.append(batch)
        self._held_bytes += batch.size
        while self._held_bytes > QUEUE_BYTES and len(self._held) > 1:
            dropped = self._held.popleft()
            self._held_bytes -= dropped.size
            self._viewer.skip(self.name, dropped.stands_for)

    def tail_ended(self, outcome: Outcome) -> None:
        self._outcome = outcome
        self._ended.set()

    @property
    def wants_pause(self) -> bool:
        return self._viewer.wants_pause

    def give_up_pause(self) -> None:
        self._viewer.is_slow = True

    async def _show_earlier(
        self, job: JobLogState, replica: ReplicaLogState, tail: Tail, after: Position | None
    ) -> Position | None:
        """Shows what containers before this one printed, which the pod does not have any more.

        Returns:
            Behind which line of the pod to go on.
        """
        start_byte, place = replica.run_start_byte, self._place
        began = Position(replica.run_began_ns, 0)
        if after is not None and after > began:
            return after
        if replica.is_archived:
            return after  # what is archived is what this very container printed
        if replica.is_start_unknown:
            if after is not None or sum(batch.count for batch in tail.ring()) < FIRST_LINES:
                self._say(STARTED_AGAIN, replica.attempt)
            return after
        if not start_byte or not began.time_ns:
            return after
        if isinstance(place, ArchivedPlace) and place.attempt == replica.attempt:
            if place.byte >= start_byte:
                return began
        elif after is None:
            news = [batch.behind(began) for batch in tail.ring()]
            if sum(batch.count for batch in news if batch is not None) >= FIRST_LINES:
                self._say_left_out(LeftOut(), replica.attempt)
                return None  # the newest are shown, as of any log
        try:
            found = await read_log(job.id, replica.role, replica.index, replica.attempt)
            if found is not None:
                await self._show_archived(found.until(start_byte), replica)
        except StoreError as error:
            self._say_unreadable(job, error, replica)
        self._is_beginning = after is None
        return after or began

    # --- the archive ---
    async def _read(self, job: JobLogState, replica: ReplicaLogState) -> bool:
        """Shows what is archived; whether something came or all has come."""
        try:
            found = await read_log(job.id, replica.role, replica.index, replica.attempt)
            if found is None:
                return False
            self._say_attempt(job, replica.attempt)
            came = await self._show_archived(found, replica)
        except StoreError as error:
            self._say_unreadable(job, error, replica)
            return False
        if is_whole(found, replica.run) or job.is_cleaned:
            self._read_whole = replica.attempt, replica.run
            return True
        return came

    async def _show_archived(self, found: Log, replica: ReplicaLogState) -> bool:
        """Shows what is archived behind this viewer's place; whether there was anything.

        Raises:
            StoreError: it cannot be read.
        """
        start = await asyncio.to_thread(archived.start_point, found, self._place)
        self._place = ArchivedPlace(replica.attempt, start.byte)
        if start.left_out is not None:
            self._say_left_out(start.left_out, replica.attempt)
        if start.notice:
            self._say(start.notice, replica.attempt)
        came = False
        chunks = archived.batches(found, start.byte)
        while (step := await asyncio.to_thread(next, chunks, None)) is not None:
            batch, end = step
            await self._viewer.room()
            self._place = ArchivedPlace(replica.attempt, end)
            self._viewer.put_batch(self.name, batch, self._place)
            came = True
        return came

    def _say_unreadable(
        self, job: JobLogState, error: StoreError, replica: ReplicaLogState
    ) -> None:
        log.warning("log of %s of job %s: %s", self.name, job.id, error)
        self._say(f"the archive cannot be read: {error}", replica.attempt)

    def _say_left_out(self, left_out: LeftOut, attempt: int) -> None:
        self._put_left_out(left_out, left_out.words(), attempt)

    def _put_left_out(self, left_out: LeftOut, words: str, attempt: int) -> None:
        """Once before the first line that is shown: in a frame for programs, and in words."""
        self._is_beginning = False
        self._viewer.put(type="left_out", replica=self.name, count=left_out.lines)
        self._say(words, attempt)

    def _say(self, text: str, attempt: int) -> None:
        """A line of ours, which moves nobody's place."""
        place = self._place or ArchivedPlace(attempt, 0)
        self._viewer.put_batch(self.name, archived.notice(text), place)


def _behind(position: Position) -> Position:
    return Position(position.time_ns, position.ordinal + 1)
