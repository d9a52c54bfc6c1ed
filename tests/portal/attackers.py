"""What those send who mean no good, and those who are many: for tests of what it costs the portal."""

import resource
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Protocol

import pytest
import requests

BOUNDARY = "homeport"
SPARE_DESCRIPTORS = 500


class TwoDoors(Protocol):
    """Any portal of tests, on loopback: `port` is where people come in, `pod_port` where pods do."""

    port: int
    pod_port: int


# --- many at once ---------------------------------------------------------------------------------


def ask_at_once(url: str, count: int, headers: Mapping[str, str]) -> Counter[object]:
    """Status, or name of the error -> how often, of so many requests that begin together."""
    return all_at_once([partial(requests.get, url, headers=headers, timeout=400)] * count)


def all_at_once(requests_made: Sequence[Callable[[], requests.Response]]) -> Counter[object]:
    """As `ask_at_once`, of these requests."""
    found: Counter[object] = Counter()
    together = threading.Barrier(len(requests_made))

    def make(request: Callable[[], requests.Response]) -> None:
        together.wait()
        try:
            found[request().status_code] += 1
        except requests.RequestException as error:
            found[type(error).__name__] += 1

    threads = [threading.Thread(target=make, args=(request,)) for request in requests_made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


# --- connections that ask nothing -----------------------------------------------------------------

# Nothing, half a line, half a head.
HALVES = (b"", b"GET /healthz HTT", b"GET / HTTP/1.1\r\nHost: localhost\r\nX-A")


@contextmanager
def many_descriptors(count: int) -> Iterator[None]:
    """This process may open so many connections; skips the test where it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + SPARE_DESCRIPTORS:
        pytest.skip(f"needs {count + SPARE_DESCRIPTORS} descriptors, may have {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def open_ones(stack: ExitStack, port: int, count: int, said: bytes) -> list[socket.socket]:
    """So many connections that say no more than this; they are closed with the stack."""
    found = []
    for _ in range(count):
        one = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
        if said:
            one.sendall(said)
        found.append(one)
    return found


def open_halves(stack: ExitStack, port: int, count: int) -> list[socket.socket]:
    """At least so many connections, a third of each kind."""
    each = -(-count // len(HALVES))
    return [one for said in HALVES for one in open_ones(stack, port, each, said)]


# --- bodies ---------------------------------------------------------------------------------------


def form(size_bytes: int) -> tuple[bytes, bytes]:
    """What stands before and after the content of a file, so that all is of this size."""
    head = (
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="a.bin"\r\n\r\n'
    ).encode()
    return head, f"\r\n--{BOUNDARY}--\r\n".encode()


class Call:
    """One request on a socket of its own, which sends what it is let."""

    def __init__(
        self, portal: TwoDoors, method: str, path: str, headers: dict[str, str], total_bytes: int
    ) -> None:
        self.sent = 0
        is_chunked = headers.get("Transfer-Encoding") == "chunked"
        lines = [f"{method} {path} HTTP/1.1", f"Host: localhost:{portal.port}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [f"Content-Type: multipart/form-data; boundary={BOUNDARY}"]
        if not is_chunked:
            lines += [f"Content-Length: {total_bytes}"]
        port = portal.pod_port if path.startswith("/internal/") else portal.port
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.port = self.socket.getsockname()[1]
        self.socket.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
        self.is_chunked, self.total_bytes = is_chunked, total_bytes

    def has_answer(self, wait_s: float = 0.0) -> bool:
        self.socket.setblocking(True)
        self.socket.settimeout(wait_s or 0.0001)
        try:
            self.socket.recv(1, socket.MSG_PEEK)
        except (TimeoutError, BlockingIOError):
            return False
        except OSError:
            return True
        finally:
            self.socket.settimeout(30)
        return True

    def send(self) -> None:
        """All of it, or what is taken until an answer comes."""
        head, tail = form(self.total_bytes)
        left = self.total_bytes - len(head) - len(tail)
        pieces = [head, *([b"x" * 65536] * (left // 65536)), b"x" * (left % 65536), tail]
        for piece in pieces:
            if not piece:
                continue
            if self.has_answer():
                return
            try:
                self.socket.sendall(
                    b"%x\r\n%s\r\n" % (len(piece), piece) if self.is_chunked else piece
                )
            except OSError:
                return
            self.sent += len(piece)
        if self.is_chunked:
            self.socket.sendall(b"0\r\n\r\n")

    def answer(self) -> tuple[int, str, bytes]:
        """Status, head, body; and the connection is read to its end."""
        data = b""
        try:
            while piece := self.socket.recv(65536):
                data += piece
                if b"\r\n\r\n" in data and b"connection: close" not in data.lower():
                    break
        except ConnectionError:
            pass
        self.socket.close()
        head, _, body = data.partition(b"\r\n\r\n")
        assert head, "no answer came"
        return int(head.split()[1]), head.decode().lower(), body
