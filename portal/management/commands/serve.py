"""Runs the portal: web server and reconciler in one event loop, or one of them alone.

SIGINT or SIGTERM ends both cleanly with exit code 0; a second one ends them at once. uvicorn's own
signal handling is not used: it raises the signal again, which would kill the process before the
reconciler has put its work down.
"""

import asyncio
import copy
import gc
import logging
import os
import signal
import socket
import ssl
import sys
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from typing import Any, cast

import uvicorn
from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal import environment, insecure, supervise
from portal.asgi_answer import App
from portal.cluster import client
from portal.database import schema
from portal.database.postgres.patience import RECONCILER_S, WEB_S, Patience, patience
from portal.log_lines import LogStream
from portal.process import process
from portal.server.descriptors import QUEUE, backlog, raise_descriptor_limit
from portal.server.http_protocol import HeadDeadlineProtocol
from portal.server.tls import TlsProtocol, make_context
from portal.server.websocket_protocol import WebsocketProtocol

log = logging.getLogger(__name__)

Aside = tuple[socket.socket, App]  # a bound socket, and what answers there

_GRACE_S = 5  # after DRAIN_S; then open downloads and websockets are cut
_RECONCILER_GRACE_S = 10.0  # a pass in progress may finish
_WIND_UP_S = 2.0
_LOOK_S = 1.0  # between two looks at a database that does not answer
_THREADS_GRACE_S = 5.0
_PONG_S = 90.0
_QUIET = {
    "access_log": False,
    "log_config": None,
    "log_level": "warning",
    "lifespan": "off",
    "server_header": False,
}
_MAX_FRAME_BYTES = 65_536  # of a websocket; browsers send us next to nothing


class Server(uvicorn.Server):  # type: ignore[misc] # uvicorn is not followed by mypy
    """uvicorn without its signal handlers, and with a queue for more than it accepts at a time.

    Attributes:
        tls: what the first of its sockets speaks; the others, and that one without it, plain HTTP.
    """

    tls: ssl.SSLContext | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        servers: list[Any] = []
        plain: uvicorn.Config = self.config  # type: ignore[has-type] # uvicorn is not followed by mypy
        for bound in sockets or ():
            if self.tls is not None and not servers:
                self.config = copy.copy(plain)
                self.config.http_protocol_class = partial(TlsProtocol, self.tls)
            await super().startup([bound])
            self.config = plain
            servers += self.servers  # type: ignore[has-type] # see above
            bound.listen(QUEUE)  # in asyncio one number says both
        self.servers = servers

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Stop:
    """What a signal asks for; `wanted` is set at the first one.

    `failed` is set when it is not a signal, but something that keeps us from serving.
    """

    def __init__(self, server: Server | None) -> None:
        self.wanted = asyncio.Event()
        self.failed = False
        self._server = server
        self._task = asyncio.current_task()
        self._draining: asyncio.Task[None] | None = None

    def on_signal(self) -> None:
        if self.wanted.is_set():
            self.hurry()
            return
        self.now()

    def now(self) -> None:
        """The reconciler puts its work down at once, the web when it has answered."""
        self.wanted.set()
        if self._server is not None and self._draining is None:
            self._draining = asyncio.create_task(self._drain(self._server), name="draining")

    @staticmethod
    async def _drain(server: Server) -> None:
        # It goes on listening, or nobody could be told that it is draining.
        await process.drain(settings.DRAIN_S)
        server.should_exit = True

    def hurry(self) -> None:
        if self._server is not None:
            self._server.force_exit = True
        if self._task is not None:
            self._task.cancel()


def listen(address: str, port: int, names: str = "PORT (or LISTEN)") -> socket.socket:
    """A bound socket of the web server.

    Args:
        names: settings that say where, for the text of the error.

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
            f"{address} port {port} cannot be listened on: {why}. Set {names} to another one."
        ) from error
    bound.set_inheritable(True)
    return bound


def _server(tls: ssl.SSLContext | None) -> Server:
    config = uvicorn.Config(
        "portal.asgi:application",
        http=HeadDeadlineProtocol,
        backlog=backlog(),
        ws=WebsocketProtocol,
        ws_per_message_deflate=False,  # costs 2.4 times the CPU per log line
        ws_max_size=_MAX_FRAME_BYTES,
        # Longer than a viewer may leave its log unread: that ends with a code of our own (1013).
        ws_ping_timeout=_PONG_S,
        timeout_graceful_shutdown=_GRACE_S,
        reset_contextvars=True,  # see portal/server/http_protocol.py
        # Believed only where the operator says so, or anybody could choose the address that
        # guessing of passwords is counted under.
        proxy_headers=bool(settings.TRUSTED_PROXIES),
        forwarded_allow_ips=settings.TRUSTED_PROXIES,
        **_QUIET,
    )
    config.load()
    server = Server(config)
    server.tls = tls
    return server


def _spare_the_collector() -> None:
    """Makes it look at everything seldom: each time nothing else goes on for a tenth of a second.

    What was imported stays, and need not be looked at. What a look at the rows needs, some ten
    thousand objects, is let go without it, and is no reason to look for more.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _spare_the_loop() -> None:
    """Makes threads give way to the event loop after 1 ms, instead of 5 ms each time that it has work."""
    sys.setswitchinterval(0.001)


class Command(BaseCommand):
    """`manage.py serve`; it refuses a database that was not migrated, and never migrates one."""

    help = "Run the web server and the reconciler."

    def __init__(self, *args: Any, **options: Any) -> None:
        if environment.read("LOG_FORMAT") == "json":
            options.setdefault("stderr", LogStream(log))  # why it does not start, what checks say
        super().__init__(*args, **options)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--no-web", action="store_true", help="the reconciler alone")
        parser.add_argument("--no-reconciler", action="store_true", help="the web server alone")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["no_web"] and options["no_reconciler"]:
            raise CommandError("--no-web and --no-reconciler together leave nothing to run")
        raise_descriptor_limit()
        # Static files come so from whitenoise and are small; portal/web/streaming.py sees to the others.
        warnings.filterwarnings("ignore", "StreamingHttpResponse must consume synchronous")
        Patience.of_process = WEB_S
        if options["no_web"] or options["no_reconciler"]:
            insecure.say_split()
        if why := insecure.refusal():
            raise CommandError(f"Homeport does not start: {why}")
        for fault in insecure.accepted():
            log.warning("accepted by ACCEPT_INSECURE=%s: %s", fault.word, fault.text)
        problem = _why_not_serve()
        if problem:
            raise CommandError(f"Homeport does not start: {problem}")
        if not settings.POD_PORTAL_URL:
            raise CommandError(
                "Homeport does not start: POD_PORTAL_URL is empty, and pods could not reach it; set it "
                "to the URL that leads them to POD_PORT"
            )
        process.knows_schema = problem is not None
        web = [] if options["no_web"] else _doors()
        asides = _asides(with_web=bool(web))

        async def serve() -> bool:
            failed = await run(
                web,
                asides,
                with_reconciler=not options["no_reconciler"],
            )
            await _wind_up()
            _do_not_wait_for_threads(code=int(failed))
            return failed

        if asyncio.run(serve()):
            raise CommandError("it ended by itself; see the log above")


def _tls() -> ssl.SSLContext | None:
    context = make_context(settings.TLS_CERT_FILE, settings.TLS_KEY_FILE)
    if context is not None and not settings.HTTPS:
        raise CommandError("TLS_CERT_FILE is set, but PUBLIC_URL does not begin with https://")
    return context


def _doors() -> list[socket.socket]:
    """The sockets of people and of pods; `portal/server/doors.py` tells them apart by their ports."""
    address = environment.read("LISTEN")
    return [
        listen(address, settings.PORT),
        listen(
            environment.read("POD_LISTEN") or address, settings.POD_PORT, "POD_PORT (or POD_LISTEN)"
        ),
    ]


async def run(
    web: Sequence[socket.socket], asides: Sequence[Aside] = (), *, with_reconciler: bool
) -> bool:
    """Serves until a signal comes.

    Args:
        web: bound sockets of the web server; none: no web server.
        asides: on which ports else what is answered.

    Returns:
        Whether it ended although nobody asked it to.
    """
    server = _server(_tls()) if web else None
    stop = Stop(server)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.on_signal)
    late = None if process.knows_schema else asyncio.create_task(_look_later(stop), name="schema")
    background = [_start_reconciler(stop, after=late)] if with_reconciler else []
    for aside in asides:
        background.append(asyncio.create_task(_answer(aside, stop), name="probes"))
    _spare_the_collector()
    _spare_the_loop()
    try:
        if server is not None:
            await server.serve(sockets=list(web))
        else:
            await stop.wanted.wait()
        failed = stop.failed or not stop.wanted.is_set()
        stop.now()
        if background:
            await asyncio.wait(background, timeout=_RECONCILER_GRACE_S)
        return failed
    except asyncio.CancelledError:  # the second signal
        return False
    finally:
        await supervise.end(background)


def _why_not_serve() -> str | None:
    """As `schema.problem`; in a pod, beside which a Job migrates, None while it has to be waited for."""
    problem = schema.problem()
    process.schema_problem = ""
    if problem and environment.is_in_pod():
        process.schema_problem = problem
        _say_once(f"Homeport waits: {problem}")
        return None
    return problem


@cache
def _say_once(text: str) -> None:
    log.warning(text)


async def _look_later(stop: Stop) -> None:
    """The database could not be used at the start: it is looked at until it can."""
    log.warning("the database cannot be used yet; its migrations are looked at when it can")
    while not stop.wanted.is_set():
        problem = await asyncio.to_thread(_why_not_serve)
        if problem is None:
            await asyncio.sleep(_LOOK_S)
            continue
        if problem:
            log.error("Homeport ends: %s", problem)
            stop.failed = True
            stop.now()
        process.knows_schema = not problem
        return


def _asides(*, with_web: bool) -> list[Aside]:
    """What is answered beside the web: metrics, and probes where there is no web.

    Raises:
        CommandError: a port that is set cannot be listened on.
    """
    from portal.server import probes

    readiness = probes.readiness if with_web else probes.reconciler_readiness
    found: list[Aside] = []
    if not with_web and (probed := _probe_socket()) is not None:
        found.append((probed, probes.Probes(probes.nothing_else, readiness)))
    if (port := environment.read("METRICS_PORT")) is not None:
        bound = listen(environment.read("LISTEN"), port, "METRICS_PORT (or LISTEN)")
        found.append((bound, probes.Probes(probes.tell_metrics, readiness)))
    return found


def _probe_socket() -> socket.socket | None:
    """Where a reconciler without a web server answers probes.

    Raises:
        CommandError: PROBE_PORT says where, and it cannot be listened on.
    """
    given = environment.read("PROBE_PORT")
    port = settings.PORT + 2 if given is None else given
    if port == 0:
        return None
    try:
        return listen(environment.read("LISTEN"), port, "PROBE_PORT (or LISTEN)")
    except CommandError as error:
        if given is not None:
            raise
        log.warning("nobody is told whether this reconciler lives: %s", error)
        return None


async def _answer(aside: Aside, stop: Stop) -> None:
    bound, app = aside
    config = uvicorn.Config(
        cast(Any, app),
        http=HeadDeadlineProtocol,
        ws="none",
        timeout_graceful_shutdown=1,
        **_QUIET,
    )
    server = Server(config)

    async def end() -> None:
        await stop.wanted.wait()
        process.is_draining = True
        server.should_exit = True

    async with asyncio.TaskGroup() as group:
        group.create_task(server.serve(sockets=[bound]))
        group.create_task(end())


def _start_reconciler(stop: Stop, *, after: "asyncio.Task[None] | None") -> "asyncio.Task[None]":
    from jobs.engine.loop import Reconciler  # the web alone does not need it

    def be_patient() -> None:
        patience.of_thread = RECONCILER_S

    async def reconcile() -> None:
        if after is not None:
            await asyncio.wait([after])
        await sync_to_async(be_patient)()
        await Reconciler().run(stop.wanted)

    work = supervise.run_forever("reconciler", reconcile, stop=stop.wanted)
    return asyncio.create_task(work, name="reconciler")


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
