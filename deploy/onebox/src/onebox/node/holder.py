"""The program that holds the cluster network and makes pods: `python -m onebox.node.holder`.

Started by the node half with one end of a channel. It leaves the host's network and mounts for ones
of its own (as an ordinary user inside a user namespace that holds just that user), and serves
requests: `pod` makes one, `sockets` and `listen` make sockets that belong to the cluster network
whoever uses them. Pods of one Kubernetes namespace are joined by a bridge of their own; 10.244.0.1
is the end of each, and nothing leads from one bridge to another. It dies with the node half, and all pods die with it.
Small and single-threaded, because every pod's init is a fork of it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
from typing import NoReturn

from onebox.node import netlink, syscalls
from onebox.node.handing import hand_listener, hand_sockets
from onebox.node.podinit import run_pod
from onebox.node.wire import (
    ChannelClosed,
    Fields,
    Message,
    receive_message,
    send_message,
)

_GATEWAY = "10.244.0.1"
_SERVICES = ("10.96.0.0", 16)
_RULE_PRIORITY = 100  # behind the kernel's own for the addresses of this network


def enter_namespaces(*, as_user: bool) -> None:
    """Leave the host's network, mounts (and, as an ordinary user, its user ids) for own ones."""
    if as_user:
        uid, gid = os.getuid(), os.getgid()
        syscalls.unshare(syscalls.CLONE_NEWUSER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    syscalls.unshare(syscalls.CLONE_NEWNET | syscalls.CLONE_NEWNS)
    # A slave: file systems that the host mounts later (a GlusterFS volume) appear here as well.
    syscalls.set_propagation("/", syscalls.MS_SLAVE)


def make_network() -> None:
    """Make the first bridge, so that one that cannot be had is told now; take every service address
    as our own."""
    netlink.set_up("lo")
    make_bridge(0)
    netlink.add_local_network(*_SERVICES)
    # There is no way out of here. Forwarding makes the kernel say so, at once and every time, to a
    # pod that tries an address of the internet; otherwise its connections would hang for minutes.
    _write("/proc/sys/net/ipv4/ip_forward", "1")
    _write("/proc/sys/net/ipv4/icmp_ratelimit", "0")
    # No packet chooses its own way, which could lead over the gateway to another bridge.
    _write("/proc/sys/net/ipv4/conf/all/accept_source_route", "0")


def make_bridge(number: int) -> str:
    """Make the bridge that joins the pods of one namespace; return its name."""
    name = f"kube{number}"
    netlink.add_bridge(name)
    # Not the whole network: each pod is reached through the bridge that it is on.
    netlink.add_address(name, _GATEWAY, 32)
    netlink.forbid_forwarding(name, _RULE_PRIORITY)
    return name


def _write(path: str, text: str) -> None:
    # os.write, for a file object would report the kernel's refusal only when it is destroyed.
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


class Holder:
    """Serves the requests of the node half, one after the other."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._links = 0
        self._bridges = 1

    def serve(self) -> NoReturn:
        """Serve until the channel closes (ChannelClosed)."""
        handlers = {"pod": self._make_pod, "sockets": self._make_sockets, "listen": self._listen}
        while True:
            message = receive_message(self._channel)
            try:
                handlers[message.fields["op"]](message)
            except OSError as error:
                number = message.fields["id"]
                failure = {"id": number, "error": str(error), "errno": error.errno or 0}
                send_message(self._channel, failure)
            finally:
                message.close_fds()

    def _make_pod(self, message: Message) -> None:
        """Reply with the init's process id and a pidfd of it."""
        fields = message.fields
        gate_read, gate_write = os.pipe2(os.O_CLOEXEC)
        flags = syscalls.CLONE_NEWNET | syscalls.CLONE_NEWPID | syscalls.CLONE_NEWNS
        flags |= syscalls.CLONE_NEWIPC | syscalls.CLONE_NEWUTS
        pid = syscalls.fork_into(flags)
        if pid == 0:
            run_pod(message.fds[0], gate_read, fields)
        os.close(gate_read)
        pidfd = os.pidfd_open(pid)
        self._links += 1
        try:
            bridge = self._bridge(fields["bridge"])
            netlink.add_veth(f"pod{self._links:x}", bridge, "eth0", pid)
            netlink.add_host_route(fields["ip"], bridge)
            os.write(gate_write, b"x")
        except OSError:
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            os.close(pidfd)
            raise
        finally:
            os.close(gate_write)
        send_message(self._channel, {"id": fields["id"], "pid": pid}, [pidfd])
        os.close(pidfd)

    def _bridge(self, number: int) -> str:
        """Return the name of a bridge; made where it is not there yet."""
        while self._bridges <= number:
            make_bridge(self._bridges)
            self._bridges += 1
        return f"kube{number}"

    def _make_sockets(self, message: Message) -> None:
        hand_sockets(self._channel, message)

    def _listen(self, message: Message) -> None:
        fields = message.fields
        hand_listener(self._channel, message, (fields["ip"], fields["port"]))


def main() -> None:
    """Run the holder; the argument is the number of the channel's descriptor."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    channel.set_inheritable(False)
    # Nobody waits for a pod's init: the node half watches each by its pidfd.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the node half decides when pods end
    stage = "namespaces"
    with contextlib.suppress(ChannelClosed):
        try:
            syscalls.die_with_parent()
            enter_namespaces(as_user=os.getuid() != 0)
            # The kernel forgets this wish when credentials change, as in a new user namespace.
            syscalls.die_with_parent()
            stage = "network"
            make_network()
        except OSError as error:
            failure: Fields = {"event": "failed", "stage": stage, "error": str(error)}
            send_message(channel, failure)
            return
        syscalls.set_process_name("onebox-holder")
        gc.collect()
        gc.freeze()
        send_message(channel, {"event": "ready"})
        Holder(channel).serve()


if __name__ == "__main__":
    main()
