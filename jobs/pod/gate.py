"""The gate: a program that guards the NodePort of one notebook or TensorBoard.

Runs as a sidecar from Homeport's image beside the app, which listens on the pod's loopback only. It
lets in who brings a ticket of the portal, keeps that by a signed cookie, asks the portal again and
again whether it still holds, and passes everything else on. Needs Python 3.11 and aiohttp.

SIGTERM closes what is open and ends it with exit code 0; 64: wrongly configured.
"""

import os
import sys

if __name__ == "__main__":
    # A script has its own folder first on the path; the package's root is needed instead.
    sys.path[0] = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import asyncio
import logging
import signal

import aiohttp

from jobs.pod.errors import PodError
from jobs.pod.gatekeeper import connections, forward
from jobs.pod.gatekeeper.access_list import AccessList, Clock
from jobs.pod.gatekeeper.config import Config, read_config
from jobs.pod.gatekeeper.cookies import Cookies
from jobs.pod.gatekeeper.handshake import BUFFER_BYTES
from jobs.pod.gatekeeper.portal import Portal
from jobs.pod.gatekeeper.server import Gate
from jobs.pod.gatekeeper.tickets import Signer
from jobs.pod.protocol import codes

log = logging.getLogger("gate")

# Anybody who reaches the port can make us keep as much as HEADERS times HEADER_BYTES for a while.
# Cookies of all that answers on this host come along, so they need room.
HEADERS, HEADER_BYTES = 64, 16 * 1024
IDLE_S = 75.0  # of a kept connection without a request
UNREAD_S = 3.0  # for the rest of a body that nobody wants
CLOSE_HANDSHAKE_S = 2.5  # for websockets to close, twice that for requests


async def serve(config: Config) -> int:
    """Serves until SIGTERM or SIGINT; the exit code."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    # Not kept: the portal may close an idle connection at the moment when somebody comes.
    unkept = aiohttp.TCPConnector(force_close=True)
    async with forward.session() as to_app, aiohttp.ClientSession(connector=unkept) as to_portal:
        access = AccessList(Portal(to_portal, config).ask, config.start, Clock(), config.word)
        gate = Gate(
            config=config,
            app=forward.App(config, Cookies(config.prefix), to_app),
            access=access,
            signer=Signer(config.service_id, config.start, config.ticket_key, config.word),
        )
        server = connections.GateServer(
            gate.answer,
            config.tls,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            keepalive_timeout=IDLE_S,
            lingering_time=UNREAD_S,
            read_bufsize=BUFFER_BYTES,
            max_line_size=HEADER_BYTES,
            max_field_size=HEADER_BYTES,
            max_headers=HEADERS,
        )
        listener = await server.listen(config.port)
        log.info("guarding %s on port %d, start %d", config.prefix, config.port, config.start)
        watch = asyncio.create_task(access.keep_watch())
        wanted = asyncio.create_task(stop.wait())
        await asyncio.wait([watch, wanted], return_when=asyncio.FIRST_COMPLETED)
        if watch.done():
            # Nobody would be told to leave any more: better to begin anew.
            log.error("the watch ended", exc_info=watch.exception())
        gate.is_ending = True
        listener.close()
        log.info("closing %d connections", access.end_all(1001, "the gate closes"))
        server.pre_shutdown()
        await server.shutdown(CLOSE_HANDSHAKE_S)
        watch.cancel()
        wanted.cancel()
    return 1 if not stop.is_set() else 0


def main() -> int:
    """The exit code of this process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s gate: %(message)s")
    # What clients send wrongly is answered, and no error of ours.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    try:
        config = read_config(os.environ)
    except PodError as error:
        log.error("%s", error)  # noqa: TRY400 (the sentence is all there is to know)
        return codes.EXIT_CONFIGURATION
    return asyncio.run(serve(config))


if __name__ == "__main__":
    sys.exit(main())
