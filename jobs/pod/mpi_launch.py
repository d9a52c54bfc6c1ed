# ruff: noqa: UP006, UP035, UP045 (the syntax of Python 3.6: images bring their own Python)
"""The remote shell of MPI: `mpirun` calls it in the launcher, and its other half answers in the workers.

`mpi_launch HOST COMMAND...` runs a shell command in a worker of the same training, as ssh would, and
ends with its exit code; `mpi_launch --daemon` is what runs there. `fetch.py` packs both into one
file that can be executed. No ssh, no keys: who knows the training's token may run commands.

On the connection the daemon sends a nonce; the caller answers with HMAC-SHA256(token, nonce + command),
the command's length and the command. Then come frames: one byte that says what it is, four of length,
and output or the exit code. One byte of the caller says that it was asked to end, and so are those that the
command has started. A connection that closes ends the command and all of these.
"""

import contextlib
import hashlib
import hmac
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any, BinaryIO, List, NoReturn, Optional, Set, Tuple

from jobs.pod.files import Config, Paths, grace_of, kill_after_s, read_context
from jobs.pod.processes import living, mpi_starters
from jobs.pod.protocol.codes import SIGNAL_BASE
from jobs.pod.protocol.notices import notice

NONCE_BYTES = 32
COMMAND_BYTES = 1024 * 1024
HANDSHAKE_S = 30.0
TERM_S = 5.0  # from SIGTERM to SIGKILL of what a command left behind at its own end
BEFORE_S = 1.0  # by so much it ends them before the runner ends it
REFUSED = 255  # as ssh says that it could not run the command
GONE_S = 5.0  # a worker that has not taken the request to end by then is gone
TCP_USER_TIMEOUT = 18  # linux/tcp.h
_OUTPUT, _ERRORS, _EXIT, _TERM = b"o", b"e", b"x", b"t"
_HEAD = struct.Struct("!cI")
_SIZE = struct.Struct("!I")
_WITH_VALUE = ("-l", "-p", "-o", "-i", "-F")  # options of ssh that a word follows


def _proof(token: str, nonce: bytes, command: bytes) -> bytes:
    return hmac.new(token.encode(), nonce + command, hashlib.sha256).digest()


def _read(stream: BinaryIO, size: int) -> bytes:
    """Exactly so many bytes.

    Raises:
        EOFError: the other side has closed the connection.
    """
    data = stream.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _send(connection: socket.socket, kind: bytes, data: bytes) -> None:
    connection.sendall(_HEAD.pack(kind, len(data)) + data)


# --- in the launcher ---
def parse(arguments: List[str]) -> Tuple[str, str]:
    """Host and command of a command line of ssh, whose options mean nothing here.

    Raises:
        ValueError: there is no command.
    """
    words = list(arguments)
    while words and words[0].startswith("-"):
        del words[: 2 if words[0] in _WITH_VALUE else 1]
    if len(words) < 2:
        raise ValueError("usage: mpi_launch HOST COMMAND...")
    return words[0].rpartition("@")[2], " ".join(words[1:])


def find_address(config: Config, host: str) -> Tuple[str, int]:
    """Where the daemon of a worker listens; IP addresses are known to the runner alone, the port to all.

    Raises:
        ValueError: no worker of this training has this name.
    """
    for address in config["hosts"]["worker"]:
        name, _, port = address.rpartition(":")
        if host == name or config.get("addresses") == "ip":
            return host, int(port)
    raise ValueError(f"{host} is no worker of this training")


def call(address: Tuple[str, int], token: str, command: str) -> int:
    """Runs a command in a worker, and copies its output; the exit code.

    Raises:
        OSError, EOFError: the worker does not answer, or no longer.
    """
    data = command.encode("utf-8", "surrogateescape")
    with socket.create_connection(address, HANDSHAKE_S) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        stream = connection.makefile("rb")
        proof = _proof(token, _read(stream, NONCE_BYTES), data)
        connection.sendall(proof + _SIZE.pack(len(data)) + data)
        connection.settimeout(None)
        _pass_on_sigterm(connection)
        while True:
            kind, size = _HEAD.unpack(_read(stream, _HEAD.size))
            payload = _read(stream, size)
            if kind == _EXIT:
                return int(payload)
            output = sys.stdout if kind == _OUTPUT else sys.stderr
            output.buffer.write(payload)
            output.buffer.flush()


def _pass_on_sigterm(connection: socket.socket) -> None:
    """Passes SIGTERM on to the worker, and ends when what it runs there has: mpirun ends with its callers."""

    def pass_on(_number: int, _frame: Any) -> None:
        # A worker that is gone does not answer, and is not waited for.
        connection.setsockopt(socket.IPPROTO_TCP, TCP_USER_TIMEOUT, int(1000 * GONE_S))
        with contextlib.suppress(OSError):
            connection.send(_TERM)

    signal.signal(signal.SIGTERM, pass_on)


# --- in a worker ---
def _members(session: int) -> List[int]:
    """Living processes of a session, which those that change their process group stay in, and what they have
    started in sessions of their own, as prted does.
    """
    known = living()
    found: Set[int] = set()
    more = {pid for pid, one in known.items() if one.session == session}
    while more:
        found |= more
        more = {pid for pid, one in known.items() if one.parent in more} - found
    return sorted(found)


def _ask_session(session: int) -> None:
    """What starts ranks ends behind them."""
    members = _members(session)
    for pid in set(members) - mpi_starters(members):
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGTERM)


def _signal_session(session: int, number: int) -> None:
    for pid in _members(session):
        with contextlib.suppress(OSError):
            os.kill(pid, number)


class Daemon:
    """Runs commands for who knows the token, each in a session and a thread of its own."""

    def __init__(self, port: int, token: str, kill_after_s: float) -> None:
        """
        Args:
            kill_after_s: from SIGTERM to SIGKILL of what was asked to end.
        """
        self._token = token
        self._kill_after_s = kill_after_s
        self._sessions: Set[int] = set()
        self._is_closed = False
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("", port))
        self._listener.listen(256)

    def serve_forever(self) -> NoReturn:
        while True:
            connection, peer = self._listener.accept()
            threading.Thread(target=self._serve, args=(connection, peer[0]), daemon=True).start()

    def close(self) -> None:
        """Asks all commands to end, unless they were, and waits for them; what is left then is killed."""
        self._is_closed = True
        self._listener.close()
        sessions = tuple(self._sessions)
        if os.getppid() != 1:  # the container's first process asks all
            for session in sessions:
                _ask_session(session)
        until = time.monotonic() + self._kill_after_s
        while any(map(_members, sessions)) and time.monotonic() < until:
            time.sleep(0.05)
        for session in sessions:
            _signal_session(session, signal.SIGKILL)

    def _end_session(self, session: int, most_s: float) -> None:
        """Ends a command with all that it has started: by SIGTERM, and by SIGKILL after `most_s`; those that
        the pod's end has asked as well have its time.
        """
        if not self._is_closed:
            _signal_session(session, signal.SIGTERM)
        until = time.monotonic() + most_s
        while _members(session) and (self._is_closed or time.monotonic() < until):
            time.sleep(0.05)
        _signal_session(session, signal.SIGKILL)

    def _serve(self, connection: socket.socket, peer: str) -> None:
        with connection, contextlib.suppress(OSError, EOFError):
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.settimeout(HANDSHAKE_S)
            command = self._receive(connection)
            connection.settimeout(None)
            code = REFUSED
            if command is None:
                _say(f"a command of {peer} was refused: it does not know the token")
                _send(connection, _ERRORS, b"mpi_launch: refused, for the token is wrong\n")
            else:
                code = self._run(connection, command)
            _send(connection, _EXIT, b"%d" % code)

    def _receive(self, connection: socket.socket) -> Optional[bytes]:
        """The command; None from who does not know the token."""
        nonce = os.urandom(NONCE_BYTES)
        connection.sendall(nonce)
        with connection.makefile("rb") as stream:
            proof = _read(stream, hashlib.sha256().digest_size)
            (size,) = _SIZE.unpack(_read(stream, _SIZE.size))
            command = _read(stream, min(size, COMMAND_BYTES))
        return command if hmac.compare_digest(proof, _proof(self._token, nonce, command)) else None

    def _run(self, connection: socket.socket, command: bytes) -> int:
        """Runs it to its end, or until the connection closes; the exit code."""
        process = subprocess.Popen(
            # It ends behind what it runs: mpirun takes the end of its command for a failure.
            [b"/bin/sh", b"-c", b"trap 'exit 143' TERM; eval \"$1\"", b"sh", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        with process:  # which waits for it at the end
            self._sessions.add(process.pid)
            # The caller is gone where its launcher was asked to end, and what it ran may be saving.
            most_s = self._kill_after_s
            try:
                _copy(connection, process)
                most_s = TERM_S
            finally:
                self._end_session(process.pid, most_s)
                self._sessions.remove(process.pid)
        code = process.returncode
        return code if code >= 0 else SIGNAL_BASE - code


def _copy(connection: socket.socket, process: "subprocess.Popen[bytes]") -> None:
    """Copies the output until the command has ended.

    Raises:
        OSError, EOFError: the caller is gone, who sends after the command only that it is asked to end.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    kinds = {process.stdout.fileno(): _OUTPUT, process.stderr.fileno(): _ERRORS}
    poller = select.poll()
    for fd in (connection.fileno(), *kinds):
        poller.register(fd, select.POLLIN)
    while kinds or process.poll() is None:
        for fd, _events in poller.poll(200):
            if fd == connection.fileno():
                if connection.recv(1) != _TERM:
                    raise EOFError
                _ask_session(process.pid)
                continue
            data = os.read(fd, 64 * 1024)
            if data:
                _send(connection, kinds[fd], data)
            else:
                poller.unregister(fd)
                del kinds[fd]


def _say(text: str) -> None:
    sys.stdout.write(notice(text))
    sys.stdout.flush()


def _serve(config: Config, token: str) -> int:
    """Until SIGTERM."""
    context = read_context(config, dict(os.environ))
    port = context.hosts[context.role][context.task_index].rpartition(":")[2]
    most_s = max(0.0, kill_after_s(grace_of(config)) - BEFORE_S)
    daemon = Daemon(int(port), token, most_s)

    def stop(number: int, _frame: Any) -> None:
        sys.exit(SIGNAL_BASE + number)

    signal.signal(signal.SIGTERM, stop)
    _say("waiting for commands of the launcher")
    try:
        daemon.serve_forever()
    finally:
        daemon.close()


def main(arguments: List[str]) -> int:
    """The exit code of this process."""
    # It lies among the pod's files, as ROOT/homeport/mpi_launch.
    paths = Paths(os.path.dirname(os.path.dirname(os.path.abspath(sys.argv[0]))))
    try:
        config, token = paths.read_config(), paths.read_token()
        if arguments == ["--daemon"]:
            return _serve(config, token)
        host, command = parse(arguments)
        return call(find_address(config, host), token, command)
    except (OSError, ValueError, KeyError, EOFError) as error:
        sys.stderr.write(f"mpi_launch: {str(error) or 'the worker closed the connection'}\n")
        return REFUSED
