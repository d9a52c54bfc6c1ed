"""Run the API half of onebox: `python -m onebox.api --home DIR`.

Serves the Kubernetes API over TLS on 127.0.0.1 until SIGTERM or SIGINT, and dies with its
parent. The first start makes credentials; every start writes the kubeconfigs.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onebox.api import controllers
from onebox.api.allocate import NODE_PORTS, Allocator
from onebox.api.bootstrap import ensure_first_objects
from onebox.api.pki import Credentials, kubeconfig, load_credentials, write_private
from onebox.api.registry import Api
from onebox.api.server import HOST, Access, Server
from onebox.api.store import Store, StoreError

log = logging.getLogger("onebox.api")

_PR_SET_PDEATHSIG = 1
ADMIN = "onebox-admin"
NODE = "onebox-node"


@dataclass(frozen=True, slots=True)
class Options:
    """The command line."""

    home: Path
    port: int
    node_token_file: Path | None
    kubeconfig: Path
    node_kubeconfig: Path
    node_ports: range
    ready_fd: int | None = None


def port_range(text: str) -> range:
    """Read "30000-32767"."""
    low, _dash, high = text.partition("-")
    try:
        ports = range(int(low), int(high) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no range: write it as A-B") from None
    if not ports or ports[0] < 1 or ports[-1] > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} does not lie within 1-65535 with A <= B")
    return ports


def read_options(arguments: Sequence[str] | None = None) -> Options:
    """Read the command line; exits with a sentence when it is wrong."""
    parser = argparse.ArgumentParser(prog="python -m onebox.api", description=__doc__)
    parser.add_argument("--home", type=Path, required=True, help="folder of the state")
    parser.add_argument(
        "--port", type=int, default=0, help="0: the port of the last start, else a free one"
    )
    parser.add_argument("--node-token-file", type=Path, help="token for the node's log server")
    parser.add_argument("--kubeconfig", type=Path, help="default: kubeconfig beside HOME")
    parser.add_argument("--node-kubeconfig", type=Path, help="default: node.kubeconfig beside HOME")
    parser.add_argument(
        "--ready-fd", type=int, help='gets the line "ready" when requests are answered'
    )
    parser.add_argument("--node-port-range", type=port_range, default=NODE_PORTS, metavar="A-B")
    given = parser.parse_args(arguments)
    home = given.home.resolve()
    return Options(
        home=home,
        port=given.port,
        node_token_file=given.node_token_file,
        kubeconfig=given.kubeconfig or home.parent / "kubeconfig",
        node_kubeconfig=given.node_kubeconfig or home.parent / "node.kubeconfig",
        node_ports=given.node_port_range,
        ready_fd=given.ready_fd,
    )


def die_with_parent() -> None:
    """Ask the kernel to end this process when its parent ends.

    By SIGKILL, which always works; the store survives it at any instant.
    """
    parent = os.getppid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        log.warning("the kernel refuses to tie this process to its parent")
    if os.getppid() != parent:
        sys.exit("the parent process is gone already")


async def _listen(server: Server, options: Options, credentials: Credentials) -> int:
    tls = credentials.server_context()
    if options.port:
        return await server.start(options.port, tls)
    remembered = options.home / "port"
    with contextlib.suppress(OSError, ValueError):
        port = int(remembered.read_text())
        try:
            return await server.start(port, tls)
        except OSError:
            log.warning("port %d of the last start is taken now; taking a free one", port)
            await server.stop()
    return await server.start(0, tls)


async def serve(options: Options) -> None:
    """Serve until SIGTERM or SIGINT.

    Raises:
        StoreError: the state cannot be used.
        OSError: the port is taken, or a file cannot be written.
    """
    options.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    credentials = load_credentials(options.home / "pki")
    store = Store(options.home / "state.db")
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        api = Api(store, allocator=Allocator(store, node_ports=options.node_ports))
        ensure_first_objects(api)
        store.begin_history()
        tokens = {credentials.admin_token: ADMIN, credentials.node_token: NODE}
        server = Server(api, Access(tokens), node_token_file=options.node_token_file)
        stop_controllers = controllers.start(api, ca_pem=credentials.ca_pem.decode())
        try:
            port = await _listen(server, options, credentials)
            _publish(options, credentials, port)
            await stop.wait()
        finally:
            await stop_controllers()
            await server.stop()
    finally:
        store.close()


def _publish(options: Options, credentials: Credentials, port: int) -> None:
    address = f"{HOST}:{port}"
    (options.home / "port").write_text(f"{port}\n")
    for path, user, token in (
        (options.kubeconfig, ADMIN, credentials.admin_token),
        (options.node_kubeconfig, NODE, credentials.node_token),
    ):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, kubeconfig(address, credentials.ca_pem, user, token).encode())
    if options.ready_fd is not None:
        with os.fdopen(options.ready_fd, "w") as pipe:
            pipe.write("ready\n")
    print(f"onebox API on https://{address}, kubeconfig {options.kubeconfig}", flush=True)


def main() -> None:
    """Run the command line."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    options = read_options()
    die_with_parent()
    try:
        asyncio.run(serve(options))
    except (StoreError, OSError, ValueError) as error:
        sys.exit(f"onebox API: {error}")


if __name__ == "__main__":
    main()
