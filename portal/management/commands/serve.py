"""Runs the portal: web server and reconciler in one event loop, or one of them alone.

SIGINT or SIGTERM ends both cleanly with exit code 0; a second one ends them at once. uvicorn's own
signal handling is not used: it raises the signal again, which would kill the process before the
reconciler has put its work down.
"""

import asyncio
import gc
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal import environment, supervise
from portal.cluster import client, faults

log = logging.getLogger(__name__)

_GRACE_S = 5  # for requests in progress; open downloads and websockets are cut after it
_RECONCILER_GRACE_S = 10.0  # a pass in progress may finish
_WIND_UP_S = 2.0
_THREADS_GRACE_S = 5.0
_PONG_S = 90.0
_MAX_FRAME_BYTES = 65_536  # of a websocket; browsers send us next to nothing


class Server(uvicorn.Server):  # type: ignore[misc] # uvicorn is not followed by mypy
    """uvicorn without its signal handlers."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Stop:
    """What a signal asks for; `wanted` is set at the first one."""

    def __init__(self, server: Server | None) -> None:
        self.wanted = asyncio.Event()
        self._server = server
        self._task = asyncio.current_task()

    def on_signal(self) -> None:
        if self.wanted.is_set():
            self.hurry()
            return
        self.now()

    def now(self) -> None:
        self.wanted.set()
        if self._server is not None:
            self._server.should_exit = True

    def hurry(self) -> None:
        if self._server is not None:
            self._server.force_exit = True
        if self._task is not None:
            self._task.cancel()


def listen(address: str, port: int) -> socket.socket:
    """A bound socket of the web server.

    Raises:
        CommandError: the address cannot be had; the text says which setting to change.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    # With its protocol named, or asyncio leaves Nagle's algorithm on: then each answer of two
    # writes waits 40 ms for the other side's delayed acknowledgement.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, port))
    except (OSError, OverflowError) as error:
        bound.close()
        why = getattr(error, "strerror", None) or error
        raise CommandError(
            f"{address} port {port} cannot be listened on: {why}. "
            "Set PORT (or LISTEN) to another one."
        ) from error
    bound.set_inheritable(True)
    return bound


def _server() -> Server:
    config = uvicorn.Config(
        "portal.asgi:application",
        ws="websockets-sansio",
        ws_per_message_deflate=False,  # costs 2.4 times the CPU per log line
        ws_max_size=_MAX_FRAME_BYTES,
        # Longer than a viewer may leave its log unread: that ends with a code of our own (1013).
        ws_ping_timeout=_PONG_S,
        timeout_graceful_shutdown=_GRACE_S,
        # Believed only where the operator says so, or anybody could choose the address that
        # guessing of passwords is counted under.
        proxy_headers=bool(settings.TRUSTED_PROXIES),
        forwarded_allow_ips=settings.TRUSTED_PROXIES,
        access_log=False,
        log_config=None,
        log_level="warning",
        lifespan="off",
        server_header=False,
    )
    config.load()
    return Server(config)


def _spare_the_collector() -> None:
    """Makes it look at everything seldom: each time nothing else goes on for a tenth of a second.

    What was imported stays, and need not be looked at. What a look at the rows needs, some ten
    thousand objects, is let go without it, and is no reason to look for more.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


class Command(BaseCommand):
    """`manage.py serve`; the database must have been migrated."""

    help = "Run the web server and the reconciler."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-web", action="store_true", help="the reconciler alone")
        parser.add_argument("--no-reconciler", action="store_true", help="the web server alone")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["no_web"] and options["no_reconciler"]:
            raise CommandError("--no-web and --no-reconciler together leave nothing to run")
        if faults.install():
            log.warning("a fault is armed: HOMEPORT_FAULT=%s", os.environ["HOMEPORT_FAULT"])
        web = None if options["no_web"] else listen(environment.read("LISTEN"), settings.PORT)

        async def serve() -> bool:
            failed = await run(web, with_reconciler=not options["no_reconciler"])
            await _wind_up()
            _do_not_wait_for_threads(code=int(failed))
            return failed

        if asyncio.run(serve()):
            raise CommandError("the web server ended by itself; see the log above")


async def run(web: socket.socket | None, *, with_reconciler: bool) -> bool:
    """Serves until a signal comes.

    Args:
        web: bound socket of the web server; None: no web server.

    Returns:
        Whether the web server ended although nobody asked it to.
    """
    server = None if web is None else _server()
    stop = Stop(server)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.on_signal)
    background = [_start_reconciler(stop)] if with_reconciler else []
    _spare_the_collector()
    try:
        if server is not None and web is not None:
            await server.serve(sockets=[web])
        else:
            await stop.wanted.wait()
        failed = not stop.wanted.is_set()
        stop.now()
        if background:
            await asyncio.wait(background, timeout=_RECONCILER_GRACE_S)
        return failed
    except asyncio.CancelledError:  # the second signal
        return False
    finally:
        await supervise.end(background)


def _start_reconciler(stop: Stop) -> "asyncio.Task[None]":
    from jobs.reconciler.loop import Reconciler  # the web alone does not need it

    async def reconcile() -> None:
        await Reconciler().run(stop.wanted)

    return asyncio.create_task(supervise.run_forever("reconciler", reconcile), name="reconciler")


async def _wind_up() -> None:
    """Ends what still runs on the loop (tails of logs, say), then the connections they used."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_WIND_UP_S)
    await client.close_all()


def _do_not_wait_for_threads(code: int) -> None:
    """A thread that is stuck (a slow disk, a dead S3 server) must not hold the exit for ever."""

    def end() -> None:
        log.warning("a thread did not end within %g s; it is left behind", _THREADS_GRACE_S)
        os._exit(code)

    timer = threading.Timer(_THREADS_GRACE_S, end)
    timer.daemon = True
    timer.start()
