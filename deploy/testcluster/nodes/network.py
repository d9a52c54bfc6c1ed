"""The network between this machine and its nodes: a router with a bridge, in a namespace of its own.

    this machine 10.98.0.1 --- 10.98.0.2 router 10.99.0.1 --- bridge --- 10.99.0.11, 10.99.0.12 nodes

With `is_overlay`, what pods of one node send to pods of another is carried by vxlan devices that have
addresses of their own (10.244.N.0), as flannel and Calico do it; NodePorts of the other node come from these.

People, the portal and the control plane are at 10.98.0.1; pods of node N are in 10.244.N.0/24, to
which each hop has a route. All of it goes with the router's only process: the kernel removes the
namespace, with it both ends of every pair of devices, and with them the routes.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Self

from deploy.child import Child

HOST = "10.98.0.1"
CLIENTS = "10.98.0.0/24"
NODES = "10.99.0.0/24"
PODS = "10.244.0.0/16"
DEVICE = "homeport-nodes"  # on this machine; 15 characters at most
_ROUTER, _GATEWAY = "10.98.0.2", "10.99.0.1"
_WAIT_S = 10.0


class NetworkError(RuntimeError):
    """The network cannot be made; the text says why."""


def address(number: int) -> str:
    """Of the node with this number, from 1."""
    return f"10.99.0.{10 + number}"


def pods(number: int) -> str:
    """The range of the node's pods."""
    return f"10.244.{number}.0/24"


def overlay(number: int) -> str:
    """The address of the node's vxlan device."""
    return pods(number).partition("/")[0]


def of_nodes(count: int = 2, *, is_overlay: bool = False) -> list[str]:
    """From where nodes themselves talk to pods, as network policies name it."""
    own = [f"{overlay(number)}/32" for number in range(1, count + 1)] if is_overlay else []
    return [NODES, *own]


def why_no_overlay() -> str:
    """Why this kernel gives no vxlan devices; "" when it does. One is made in a namespace that goes at once."""
    add = ("ip", "link", "add", "overlay", "type", "vxlan", "id", "1", "dstport", "8472")
    tried = subprocess.run(["unshare", "--net", *add], capture_output=True, text=True, check=False)
    return f"this kernel has no vxlan: {tried.stderr.strip()}" if tried.returncode else ""


def tied(*argv: str) -> list[str]:
    """A command that the kernel kills when whoever started it has ended, however that was."""
    return ["setpriv", "--pdeathsig", "KILL", *argv]


def _lines(*lines: str, inside: int | None = None) -> None:
    """Run lines of ip(8), in the network namespace of a process.

    Raises:
        NetworkError: one was refused.
    """
    enter = ["nsenter", f"--net=/proc/{inside}/ns/net"] if inside else []
    text = "\n".join(lines)
    done = subprocess.run(
        [*enter, "ip", "-batch", "-"], input=text, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise NetworkError(f"the network of the nodes cannot be made: {done.stderr.strip()}")


def wait_for_namespace(pid: int) -> None:
    """Wait until a process has a network namespace that is not ours."""
    ours = Path("/proc/self/ns/net").readlink()
    deadline = time.monotonic() + _WAIT_S
    while Path(f"/proc/{pid}/ns/net").readlink() == ours:
        if time.monotonic() > deadline:
            raise NetworkError("a namespace was not made in time")
        time.sleep(0.01)


class Network:
    """The router, until the end of the context.

    Raises (on entering):
        NetworkError: it cannot be made.
    """

    def __init__(self, home: Path, *, is_overlay: bool = False) -> None:
        self.is_overlay = is_overlay
        command = tied("unshare", "--net", "sleep", "infinity")
        self._router = Child("router", command, os.environ, home, home / "router.log", grace_s=0)

    @property
    def _pid(self) -> int:
        assert self._router.process is not None
        return self._router.process.pid

    def __enter__(self) -> Self:
        self._router.start()
        try:
            wait_for_namespace(self._pid)
            _lines(
                f"link add {DEVICE} type veth peer name host netns {self._pid}",
                f"address add {HOST}/24 dev {DEVICE}",
                f"link set {DEVICE} up",
            )
            _lines(
                "link set lo up",
                f"address add {_ROUTER}/24 dev host",
                "link set host up",
                "link add bridge type bridge",
                f"address add {_GATEWAY}/24 dev bridge",
                "link set bridge up",
                inside=self._pid,
            )
            enter = ["nsenter", f"--net=/proc/{self._pid}/ns/net"]
            forward = [*enter, "sysctl", "-qw", "net.ipv4.ip_forward=1"]
            subprocess.run(forward, check=True)
            _lines(*(f"route add {range_} via {_ROUTER}" for range_ in (NODES, PODS)))
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_ended: object) -> None:
        self._stop()

    def join(self, number: int, pid: int, others: list[int]) -> None:
        """Give the namespace of a process the address of a node, and everybody routes to its pods.

        Args:
            number: of the node.
            others: numbers of the nodes that it reaches directly.
        """
        _lines(
            f"link add node{number} type veth peer name eth0 netns {pid}",
            f"link set node{number} master bridge up",
            f"route replace {pods(number)} via {address(number)}",
            inside=self._pid,
        )
        _lines(
            "link set lo up",
            f"address add {address(number)}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {_GATEWAY}",
            *(self._way(number, other) for other in others),
            inside=pid,
        )

    def _way(self, number: int, other: int) -> str:
        """Lines that lead from one node to the pods of another."""
        if not self.is_overlay:
            return f"route add {pods(other)} via {address(other)}"
        device = f"overlay{other}"
        ends = f"local {address(number)} remote {address(other)} dev eth0"
        return "\n".join(
            (
                f"link add {device} type vxlan id {number + other} dstport 8472 {ends}",
                f"address add {overlay(number)}/32 dev {device}",
                f"link set {device} up",
                f"route add {pods(other)} via {overlay(other)} dev {device} onlink",
            )
        )

    def _stop(self) -> None:
        self._router.kill()
        if self._router.process is not None:
            self._router.process.wait()
