"""The holder where there are no namespaces: `python -m onebox.node.plain.holder`.

Same requests as `onebox.node.holder`, from the same node half. It claims a block of loopback
addresses, forks the pods' inits, and ends what a killed init left behind.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import shutil
import signal
import socket
import sys
import time
from typing import NoReturn

from onebox.node import syscalls
from onebox.node.handing import hand_listener, hand_sockets
from onebox.node.plain.loopback import BLOCKS, Loopback
from onebox.node.plain.podinit import SHARED_MEMORY, memory_prefix, run_pod
from onebox.node.plain.tree import kill_descendants, kill_orphans
from onebox.node.wire import (
    ChannelClosed,
    Fields,
    Message,
    receive_message,
    send_message,
)

_CLAIM_PORT = 64511
_LOW_PORT = 53
_PATIENCE_S = 3.0
_PAUSE_MS = 100


class _Stopped(Exception):  # noqa: N818 - somebody asked for the end
    """SIGTERM came: the node half is gone."""


def _stop(_number: int, _frame: object) -> None:
    raise _Stopped


def claim_loopback() -> tuple[Loopback, socket.socket]:
    """Take a block of addresses that no other onebox has; the socket is what holds it.

    Raises:
        OSError: there is none left, or the machine has no loopback addresses.
    """
    refusal: OSError = OSError("no block of addresses")
    for block in BLOCKS:
        claim = socket.socket()
        try:
            claim.bind((f"127.{block}.0.1", _CLAIM_PORT))
            claim.listen(1)
        except OSError as error:
            claim.close()
            refusal = error
            continue
        return Loopback(block, not _can_bind_low(f"127.{block}.0.1")), claim
    raise refusal


def _can_bind_low(ip: str) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((ip, _LOW_PORT))
        except OSError:
            return False
    return True


class Holder:
    """Serves the requests of the node half, one after the other."""

    def __init__(self, channel: socket.socket, loopback: Loopback) -> None:
        self._channel = channel
        self._loopback = loopback
        self._pods: set[int] = set()
        self._poll = select.poll()
        wake, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        self._wake = wake

    def serve(self) -> NoReturn:
        """Serve until the channel closes (ChannelClosed)."""
        handlers = {"pod": self._make_pod, "sockets": self._make_sockets, "listen": self._listen}
        self._poll.register(self._channel, select.POLLIN)
        self._poll.register(self._wake, select.POLLIN)
        while True:
            ready = {fd for fd, _events in self._poll.poll()}
            if self._wake in ready:
                self._reap()
            if self._channel.fileno() not in ready:
                continue
            message = receive_message(self._channel)
            try:
                handlers[message.fields["op"]](message)
            except OSError as error:
                number = message.fields["id"]
                failure = {"id": number, "error": str(error), "errno": error.errno or 0}
                send_message(self._channel, failure)
            finally:
                message.close_fds()

    def await_pods(self) -> None:
        """Let the inits, whose channels closed too, end what is theirs."""
        deadline = time.monotonic() + _PATIENCE_S
        with contextlib.suppress(KeyError):
            self._poll.unregister(self._channel)
        while self._pods and time.monotonic() < deadline:
            self._poll.poll(_PAUSE_MS)
            self._reap()

    def _make_pod(self, message: Message) -> None:
        """Reply with the init's process id and a pidfd of it."""
        fields = message.fields
        fields["loopback"] = (self._loopback.block, self._loopback.moves_low_ports)
        # The init unblocks it when it knows what to do then.
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        try:
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                run_pod(message.fds[0], fields)
            self._pods.add(pid)
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGTERM])
        pidfd = os.pidfd_open(pid)
        send_message(self._channel, {"id": fields["id"], "pid": pid}, [pidfd])
        os.close(pidfd)

    def _make_sockets(self, message: Message) -> None:
        hand_sockets(self._channel, message)

    def _listen(self, message: Message) -> None:
        fields = message.fields
        hand_listener(self._channel, message, self._loopback.locate(fields["ip"], fields["port"]))

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)
        was_killed = False
        with contextlib.suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if not pid:
                    break
                was_killed = was_killed or os.WIFSIGNALED(status)
                self._pods.discard(pid)
        if was_killed:
            kill_orphans(self._pods)


def _remove_left_memory() -> None:
    """Free the memory of pods whose init was killed."""
    with contextlib.suppress(OSError):
        prefix = memory_prefix()
        for name in os.listdir(SHARED_MEMORY):
            pid = name.removeprefix(prefix)
            if name != pid and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
                shutil.rmtree(f"{SHARED_MEMORY}/{name}", ignore_errors=True)


def main() -> None:
    """Run the holder; the argument is the number of the channel's descriptor."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _stop)
    holder: Holder | None = None
    try:
        syscalls.adopt_orphans()
        syscalls.die_with_parent(signal.SIGTERM)
        syscalls.set_process_name("onebox-holder")
        _remove_left_memory()
        try:
            loopback, _claim = claim_loopback()
        except OSError as error:
            failure: Fields = {"event": "failed", "stage": "loopback", "error": str(error)}
            send_message(channel, failure)
            return
        gc.collect()
        gc.freeze()
        where = (loopback.block, loopback.moves_low_ports)
        send_message(channel, {"event": "ready", "loopback": where})
        holder = Holder(channel, loopback)
        holder.serve()
    except (ChannelClosed, _Stopped):
        pass
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if holder is not None:
            holder.await_pods()
        kill_descendants()


if __name__ == "__main__":
    main()
