"""Websockets of the command line through TLS, whose session tickets come while it sends."""

import ssl
import threading
from pathlib import Path

from websockets.sync.server import ServerConnection, serve

from homeport_client.rest import Rest
from homeport_client.sockets import open_socket
from tests.tools.authority import Authority

MANY = 400  # of which some four were lost, before calls to OpenSSL were made one at a time


def test_no_connection_hangs_over_a_ticket(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.pair("portal"))
    context.minimum_version = ssl.TLSVersion.TLSv1_3

    def echo(connection: ServerConnection) -> None:
        for frame in connection:
            connection.send(frame)

    with serve(echo, "127.0.0.1", 0, ssl=context) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"https://127.0.0.1:{server.socket.getsockname()[1]}"
        rest = Rest(url, "token", ca_file=str(authority.folder / "ca.crt"))
        texts = ["first"] * MANY + ["more than the kernel takes at once " * 25_000]
        for text in texts:
            with open_socket(rest, "jobs/one/logs/") as connection:
                connection.send(text)
                assert connection.recv(timeout=10) == text
        server.shutdown()
