"""How much one token of a pod is answered: an ASGI layer in front of everything that pods ask.

A program can read the token of its training, so what comes with it comes as fast as a machine can send. Of each
token a few calls are worked on at once, and so many a second begin. Others wait for their turn on the event loop,
without a thread and with their body unread, so that all pods of a large training may come at the same moment; what
more comes than its pods would send is refused with 429, after a pause, for who is refused at once asks again at once.
So are links of the folder store, by the training that they are of. Counts are of this process.
"""

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial

from portal.asgi_answer import (
    CLOSE,
    REPORT_PODS,
    STRANGERS,
    App,
    Message,
    Receive,
    Send,
    retry_after,
    send_error,
)
from portal.server.descriptors import descriptor_limit
from portal.storage.folder import STORE_PATH

AT_ONCE = 4  # calls of a token that are worked on
AT_ONCE_OF_STORE = 16  # transfers of a training; with more pods than that, one of each
PER_S = 20.0  # calls of a token that begin, as many transfers, and for each `PODS_PER_CALL` pods one more
# A runner that ships its log and reports its use calls three times a minute.
PODS_PER_CALL = 5
WAITING_PER_POD = 2  # a runner calls from two threads
LEAST_WAITING = 4
WAIT_S = 5.0  # less than a gate waits for an answer (TIMEOUT_S of jobs/pod/gatekeeper/portal.py)
MOST_WAITING = 2000  # of all tokens together
MOST_WAITING_UNKNOWN = 500  # of one whose number of pods nobody has said yet
PAUSE_S = 1.0  # before a refusal, at least
REFUSED_PER_S = 100.0  # of a token, however many come
# Refusals of a token that wait for that, and of all; the others come at once, for each that waits keeps a descriptor.
MOST_PAUSING = max(100, min(500, descriptor_limit() // 16))
MOST_PAUSING_IN_ALL = 2 * MOST_PAUSING
_BURST_S = 1.0
_TICK_S = 0.001  # timers may come a little early
_MOST_HOLDERS = 10_000


# By what a call is counted; all whose token or link is not valid are `STRANGERS` together.
FindCaller = Callable[[Message], str]


class _Lane:
    """Turns of one token, in the order of asking: so many at once, and so many a second."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self.per_s = PER_S
        self.working = 0
        self.waiting: deque[asyncio.Future[None]] = deque()
        self._even_at = 0.0  # when the turns that began would have been taken at an even pace
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_idle(self) -> bool:
        return not self.working and not self.waiting

    def take(self) -> bool:
        """Whether a turn begins at once."""
        now = asyncio.get_running_loop().time()
        if self.waiting or self.working >= self.at_once or self._even_at - now > _BURST_S:
            return False
        self._begin(now)
        return True

    def give_back(self) -> None:
        self.working -= 1
        self.go_on()

    def go_on(self) -> None:
        """Lets begin who may by now."""
        loop = asyncio.get_running_loop()
        while self.waiting and self.working < self.at_once:
            now = loop.time()
            early_s = self._even_at - now - _BURST_S
            if early_s > _TICK_S:
                if self._timer is None:
                    self._timer = loop.call_later(early_s, self._on_time)
                return
            turn = self.waiting.popleft()
            if not turn.done():  # it waited too long, and has yet to hear of that
                self._begin(now)
                turn.set_result(None)

    def _on_time(self) -> None:
        self._timer = None
        self.go_on()

    def _begin(self, now: float) -> None:
        self.working += 1
        self._even_at = max(self._even_at, now) + 1 / self.per_s


class _Holder:
    """A token, or what links of the store are of.

    Attributes:
        pods: how many share it; None: no answer has said so yet.
    """

    def __init__(self) -> None:
        self.pods: int | None = None
        self.calls = _Lane(AT_ONCE)
        self.transfers = _Lane(AT_ONCE_OF_STORE)
        self.pausing = 0
        self.refused_until = 0.0  # when the last of them would come at an even pace

    def report_pods(self, count: int) -> None:
        self.pods = max(1, count)
        self.transfers.at_once = max(AT_ONCE_OF_STORE, self.pods)
        self.calls.per_s = self.transfers.per_s = PER_S + self.pods / PODS_PER_CALL

    @property
    def most_waiting(self) -> int:
        """Until the first answer says how many pods there are, it may be many."""
        if self.pods is None:
            return MOST_WAITING_UNKNOWN
        return max(LEAST_WAITING, WAITING_PER_POD * self.pods)

    @property
    def is_idle(self) -> bool:
        return self.calls.is_idle and self.transfers.is_idle and not self.pausing


class PodsPace:
    """Passes on what a token's turn has come for; see the module."""

    def __init__(self, app: App, find_caller: FindCaller) -> None:
        self._app = app
        self._find_caller = find_caller
        self._holders: OrderedDict[str, _Holder] = OrderedDict()
        self._waiting = 0
        self._pausing = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        holder = self._holder(self._find_caller(scope))
        is_transfer = scope["path"].startswith(STORE_PATH)
        lane = holder.transfers if is_transfer else holder.calls
        if not lane.take() and not await self._wait(holder, lane):
            await self._pause(holder)
            await _refuse(lane, send)
            return
        has_place = True

        def give_back() -> None:
            nonlocal has_place
            if has_place:
                has_place = False
                lane.give_back()

        async def send_and_note(message: Message) -> None:
            # What is left of an answer is sent by the event loop; of a transfer that is all of it.
            if message["type"] == "http.response.start" and not is_transfer:
                if holder.pods is None:
                    holder.report_pods(1)
                give_back()
            await send(message)

        try:
            report = partial(self._report_pods, holder)
            await self._app({**scope, REPORT_PODS: report}, receive, send_and_note)
        finally:
            give_back()

    def _report_pods(self, caller: _Holder, count: int, other: str | None) -> None:
        if other is None:
            caller.report_pods(count)
        else:
            # What many trainings of a namespace fetch is made for the largest of them.
            holder = self._holder(other)
            holder.report_pods(max(count, holder.pods or 0))

    def _holder(self, key: str) -> _Holder:
        holder = self._holders.get(key)
        if holder is None:
            holder = self._holders[key] = _Holder()
            if key == STRANGERS:
                holder.report_pods(1)
            if len(self._holders) > _MOST_HOLDERS:
                oldest, found = next(iter(self._holders.items()))
                if found.is_idle:
                    del self._holders[oldest]
        self._holders.move_to_end(key)
        return holder

    async def _wait(self, holder: _Holder, lane: _Lane) -> bool:
        """Whether a turn came."""
        if len(lane.waiting) >= holder.most_waiting or self._waiting >= MOST_WAITING:
            return False
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        lane.waiting.append(turn)
        lane.go_on()
        self._waiting += 1
        try:
            async with asyncio.timeout(WAIT_S):
                await turn
        except TimeoutError:
            pass  # it may have come in this moment
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                lane.give_back()
            raise
        finally:
            self._waiting -= 1
            with suppress(ValueError):
                lane.waiting.remove(turn)
        return turn.done() and not turn.cancelled()

    async def _pause(self, holder: _Holder) -> None:
        """Refusals go out one after another: as fast as they are asked for, they would be all that we do."""
        if holder.pausing >= MOST_PAUSING or self._pausing >= MOST_PAUSING_IN_ALL:
            return
        now = asyncio.get_running_loop().time()
        holder.refused_until = max(now, holder.refused_until) + 1 / REFUSED_PER_S
        holder.pausing += 1
        self._pausing += 1
        try:
            await asyncio.sleep(max(PAUSE_S, holder.refused_until - now))
        finally:
            holder.pausing -= 1
            self._pausing -= 1


async def _refuse(lane: _Lane, send: Send) -> None:
    wait_s = max(1, math.ceil(len(lane.waiting) / lane.per_s))
    text = f"That is more than the pods of one training send: {lane.per_s:.0f} calls a second."
    headers = [CLOSE, *retry_after(wait_s)]  # the body is not read
    await send_error(send, 429, "too_many_requests", f"{text} Try again in {wait_s} s.", headers)
