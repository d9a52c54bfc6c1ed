"""The threads in which requests are worked on: few, kept, each with a database connection.

Django under ASGI gives each request a thread of its own, and with it a database connection that
nobody else can use and that stays open until the garbage collector comes by. Here a request is
given one of a fixed number of threads at its first blocking call, which is after its body has come,
and keeps it to itself until its answer begins; what it still does then (a download read piece by
piece) stays in that thread, since iterators over rows cannot change theirs, but shares it.

Everything but the calls themselves happens on the event loop, so there are no locks.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from typing import Any, TypeVar

from asgiref.sync import ThreadSensitiveContext
from django.conf import settings

from portal.asgi_answer import App, Message, Receive, Send
from portal.database.postgres import commits
from portal.database.postgres.outage import outage
from portal.process import process
from portal.web import refusals

T = TypeVar("T")

# A turn is taken to compute for so long, which is more than most pages need; who lasts longer waits for
# something (the database, the disk), or has much to compute, and others begin beside it.
COMPUTES_S = 0.01
_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})


class NoThreadError(Exception):
    """No thread was free in time, or there is no use in waiting for one."""


class Threads:
    """A fixed number of threads, each lent to one request at a time, in the order of asking.

    The next turn begins when the one before it has ended, or has lasted for `COMPUTES_S`. Threads that
    compute at once are no faster for it: they wait for the interpreter's lock, and where it goes from core
    to core, what it guards goes along.
    """

    def __init__(self, count: int, wait_s: float) -> None:
        self._wait_s = wait_s
        # The one that was used last is used next: quiet times need few connections.
        self._free = [ThreadPoolExecutor(1, f"request-{number}") for number in range(count)]
        self._waiting: deque[_Waiting] = deque()
        # The turn that began last, while it is taken to compute, and when that ends.
        self._computing: RequestExecutor | None = None
        self._until: asyncio.TimerHandle | None = None

    def ask(self, turn: "RequestExecutor", call: Callable[[], T]) -> "Future[T]":
        """Runs the first call of a turn, in the thread that it then has.

        Raises:
            NoThreadError: the database hangs: whoever got a thread would only wait in it.
        """
        if outage.is_on:
            raise NoThreadError
        if self._may_begin():
            return self._lend(turn).submit(call)
        waiting = _Waiting(turn, call, Future())
        late = asyncio.get_running_loop().call_later(self._wait_s, self._give_up, waiting)
        waiting.answer.add_done_callback(lambda _answer: late.cancel())
        self._waiting.append(waiting)
        return waiting.answer

    def give_back(self, turn: "RequestExecutor", thread: ThreadPoolExecutor) -> None:
        """Lends the thread of a turn that is over to whoever has waited longest."""
        self._free.append(thread)
        self._go_on(turn)

    def _go_on(self, after: "RequestExecutor") -> None:
        """This turn computes no longer: whoever has waited longest may begin."""
        if self._computing is after:
            self._computing = None
            if self._until is not None:
                self._until.cancel()
        while self._waiting and self._may_begin():
            waiting = self._waiting.popleft()
            if waiting.answer.done():  # it was given up, and its request has yet to hear of that
                continue
            if outage.is_on:
                self._give_up(waiting)
            elif not waiting.turn.is_over and waiting.answer.set_running_or_notify_cancel():
                self._lend(waiting.turn).submit(waiting.run)

    def _may_begin(self) -> bool:
        return bool(self._free) and self._computing is None

    def _lend(self, turn: "RequestExecutor") -> ThreadPoolExecutor:
        self._computing = turn
        self._until = asyncio.get_running_loop().call_later(COMPUTES_S, self._go_on, turn)
        turn.thread = self._free.pop()
        return turn.thread

    @staticmethod
    def _give_up(waiting: "_Waiting") -> None:
        # Who has a thread by now may take longer with it.
        if waiting.turn.thread is None and waiting.answer.set_running_or_notify_cancel():
            waiting.answer.set_exception(NoThreadError())


class _Waiting:
    """A first call that waits for a thread."""

    def __init__(
        self, turn: "RequestExecutor", call: Callable[[], Any], answer: "Future[Any]"
    ) -> None:
        self.turn = turn
        self._call = call
        self.answer = answer

    def run(self) -> None:
        try:
            found = self._call()
        except BaseException as error:  # noqa: BLE001 (it is the caller's)
            self.answer.set_exception(error)
        else:
            self.answer.set_result(found)


class RequestExecutor(Executor):
    """What one request runs its blocking calls by: one after another in one thread."""

    def __init__(self, threads: Threads) -> None:
        self._threads = threads
        self.is_over = False
        self.thread: ThreadPoolExecutor | None = None

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> "Future[T]":
        if self.thread is not None:
            return self.thread.submit(fn, *args, **kwargs)
        if self.is_over:
            raise RuntimeError("the answer began without a thread; there is none for it now")
        return self._threads.ask(self, partial(fn, *args, **kwargs))

    def end(self) -> None:
        """Others may have the thread; harmless when it is said again."""
        if not self.is_over:
            self.is_over = True
            if self.thread is not None:
                self._threads.give_back(self, self.thread)


class RequestThreads:
    """The ASGI layer around Django that lends each request a thread.

    Args:
        app: Django's application, of HTTP only.
        count: how many threads, hence database connections, there are at most.
        wait_s: for a thread, before the answer is 503.
    """

    def __init__(self, app: App, count: int, wait_s: float) -> None:
        self._app = app
        self._threads = Threads(count, wait_s)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if process.schema_problem and not scope["path"].startswith(settings.STATIC_URL):
            await refusals.send_refusal(scope, send, refusals.UPGRADING)
            return
        turn = RequestExecutor(self._threads)
        has_begun = False
        if scope["method"] not in _HARMLESS:
            commits.watch()

        async def send_and_note(message: Message) -> None:
            nonlocal has_begun
            if not has_begun:
                has_begun = True
                turn.end()
            await send(message)

        try:
            async with ThreadSensitiveContext(executor=turn):
                await self._app(scope, receive, send_and_note)
        except Exception as error:
            refusal = refusals.BUSY if isinstance(error, NoThreadError) else refusals.find(error)
            if has_begun or refusal is None:
                raise
            if outage.is_on:
                refusal = refusals.database_away()
            await refusals.send_refusal(scope, send, refusal)
        finally:
            turn.end()
