"""Who may be inside: asked of the portal, at once for somebody new and then every half minute.

What is open is registered here with the person it is open for, so that it ends when the person may
not be inside any more: taken back by the portal, at the end of the cookie, or when the portal has
not answered for five minutes. Time is the portal's, as it tells with every answer, since tickets
and cookies are measured by it.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from jobs.pod.gatekeeper import refusals
from jobs.pod.gatekeeper.portal import Answer, Ask
from jobs.pod.gatekeeper.refusals import GateRefusal

log = logging.getLogger("gate")

POLL_S = 30.0
RETRY_S = 5.0
TICK_S = 1.0
FAIL_CLOSED_S = 300.0
# Somebody who was not here for so long is not asked about; coming back, he is new.
FORGET_S = 900.0


@dataclass(eq=False)
class OpenConnection:
    """A connection or request in progress, and how to end it."""

    subject: str
    expires_at: float  # portal's time
    end: Callable[[int, str], None]  # websocket close code and reason


@dataclass
class _Person:
    seen_s: float  # monotonic
    is_allowed: bool = False
    # Portal's time: cookies of before are worth nothing, also when the person may come back.
    revoked_at: float = -math.inf


@dataclass
class Clock:
    """The portal's time: this process's monotonic clock and what the portal said last."""

    _offset_s: float = field(default_factory=lambda: time.time() - time.monotonic())
    _began_s: float = field(default_factory=time.monotonic)

    def now(self) -> float:
        return time.monotonic() + self._offset_s

    def began_at(self) -> float:
        return self._began_s + self._offset_s

    def set(self, now: float) -> None:
        self._offset_s = now - time.monotonic()


class AccessList:
    """Knows the people that came, and what is open for them."""

    def __init__(self, ask: Ask, start: int, clock: Clock, word: str) -> None:
        self.clock = clock
        self._ask = ask
        self._start = start
        self._word = word
        self._people: dict[str, _Person] = {}
        self._open: set[OpenConnection] = set()
        self._good_s = time.monotonic()
        self._asked_s = -RETRY_S
        self._last_failed = False
        self._is_gone = False
        self._lock = asyncio.Lock()

    async def welcome(self, subject: str) -> None:
        """Somebody with a new ticket: what the portal says now.

        Raises:
            GateRefusal: the person may not be inside, there is nothing to be inside of, or nobody
                can say.
        """
        async with self._lock:
            await self._ask_about([subject])
            if not self._people[subject].is_allowed:
                raise refusals.withdrawn(self._word)

    async def check(self, subject: str, issued_at: float) -> None:
        """Somebody with a good cookie.

        Args:
            issued_at: of the cookie, portal's time.

        Raises:
            GateRefusal: the person may not be inside, there is nothing to be inside of, or nobody
                can say.
        """
        person = self._people.get(subject)
        if person is None:
            await self._meet(subject)
            person = self._people[subject]
        person.seen_s = time.monotonic()
        if not person.is_allowed or issued_at <= person.revoked_at:
            gone, withdrawn = refusals.gone(self._word), refusals.withdrawn(self._word)
            raise gone if self._is_gone else withdrawn
        if self._is_closed():
            raise refusals.uncertain(self._word)

    @contextlib.contextmanager
    def open(self, connection: OpenConnection) -> Iterator[None]:
        """Registers what is open for as long as the block runs."""
        self._open.add(connection)
        try:
            yield
        finally:
            self._open.discard(connection)
            person = self._people.get(connection.subject)
            if person is not None:
                person.seen_s = time.monotonic()

    def end_all(self, code: int, reason: str) -> int:
        """Ends everything; how much that was."""
        count = len(self._open)
        _end(self._open, code, reason)
        return count

    async def keep_watch(self) -> None:
        """Asks again and again, until cancelled."""
        while True:
            await asyncio.sleep(TICK_S)
            self._forget()
            pause_s = RETRY_S if self._last_failed else POLL_S
            if self._people and time.monotonic() - self._asked_s >= pause_s:
                with contextlib.suppress(GateRefusal):
                    async with self._lock:
                        await self._ask_about([])
            self._sweep()

    async def _meet(self, subject: str) -> None:
        """Somebody unknown with a good cookie: came before the gate was restarted, or long ago."""
        async with self._lock:
            if subject in self._people:
                return
            if self._last_failed and time.monotonic() - self._asked_s < RETRY_S:
                raise refusals.uncertain(self._word)
            await self._ask_about([subject])

    async def _ask_about(self, newcomers: list[str]) -> None:
        """One question to the portal, about everybody; the answer takes effect before we return.

        Raises:
            GateRefusal: no answer, or there is nothing to be inside of.
        """
        subjects = list({*self._people, *newcomers})
        self._asked_s = time.monotonic()
        self._last_failed = True
        try:
            answer = await self._ask(subjects)
        except GateRefusal as refusal:
            if refusal.status == refusals.GONE:
                self._take(subjects, None)
            raise
        self._take(subjects, answer)
        if self._is_gone:
            raise refusals.gone(self._word)

    def _take(self, subjects: list[str], answer: Answer | None) -> None:
        self._last_failed = False
        self._good_s = now_s = time.monotonic()
        if answer is not None:
            self.clock.set(answer.now)
        self._is_gone = answer is None or answer.start != self._start
        allowed = frozenset() if answer is None or self._is_gone else answer.allowed
        for subject in subjects:
            person = self._people.setdefault(subject, _Person(seen_s=now_s))
            if person.is_allowed and subject not in allowed:
                log.info("person %s may not be inside any more", subject)
            person.is_allowed = subject in allowed
            if not person.is_allowed:
                person.revoked_at = self.clock.now()
        stay = [connection for connection in self._open if connection.subject in allowed]
        _end(self._open.difference(stay), 1008, "Homeport has withdrawn the access")

    def _sweep(self) -> None:
        now = self.clock.now()
        over = [connection for connection in self._open if connection.expires_at <= now]
        _end(over, 1008, "open it again from Homeport")
        if self._is_closed():
            _end(self._open, 1013, "Homeport does not respond")

    def _is_closed(self) -> bool:
        return time.monotonic() - self._good_s > FAIL_CLOSED_S

    def _forget(self) -> None:
        busy = {connection.subject for connection in self._open}
        limit_s = time.monotonic() - FORGET_S
        for subject in [s for s, p in self._people.items() if p.seen_s < limit_s]:
            if subject not in busy:
                del self._people[subject]


def _end(which: Iterable[OpenConnection], code: int, reason: str) -> None:
    for connection in list(which):
        connection.end(code, reason)
