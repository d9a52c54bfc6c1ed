"""The first process of a node, in namespaces of its own: mounts, then the node's programs in order.

`python inside.py PLAN` with a file that `node.py` wrote. Standard library only. A program that ends
is started again a second later, as systemd does on a real node; a signal to this process that kills
it is the node's loss of power, as the kernel ends everything in its process namespace.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ENVIRON = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8"}
_AGAIN_S = 1.0
_READY_S = 60.0
# What a kubelet sets for the whole machine unless it is so; it sees these in place of the machine's.
_KERNEL = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1_000_000,
    "kernel/keys/root_maxbytes": 25_000_000,
}


def _mount(*words: object) -> None:
    subprocess.run(["mount", *map(str, words)], check=True)


def prepare(plan: dict[str, Any], home: Path) -> None:
    """The node's own view of the machine: name, mounts, network settings."""
    socket.sethostname(plan["name"])
    # The mounts of kubelet, containerd and their pods see each other; the machine sees none.
    _mount("--make-rshared", "/")
    _mount("-t", "tmpfs", "tmpfs", "/run")
    for name in ("gluster", "lock", "netns"):
        Path("/run", name).mkdir()
    for name in ("up", "work"):
        (home / "var" / name).mkdir(parents=True, exist_ok=True)
    layers = f"lowerdir=/var,upperdir={home}/var/up,workdir={home}/var/work"
    _mount("-t", "overlay", "overlay", "-o", layers, "/var")
    _mount("-t", "overlay", "overlay", "-o", f"lowerdir={plan['packages']}/usr:/usr", "/usr")
    # Nobody answers the machine's questions for names in here, and GlusterFS asks for each of its peers.
    for name in ("hosts", "resolv.conf"):
        if Path("/etc", name).exists():
            _mount("--bind", home / name, Path("/etc", name))
    for name, number in _KERNEL.items():
        place = Path("/proc/sys", name)
        if place.exists():
            file = Path("/run", name.replace("/", "."))
            file.write_text(f"{number}\n")
            _mount("--bind", file, place)


def forward_packets() -> None:
    """Of this network namespace alone."""
    net = Path("/proc/sys/net")
    (net / "ipv4/ip_forward").write_text("1")
    # Traffic of pods of one node goes over a bridge; policies hold for it, too.
    bridged = net / "bridge/bridge-nf-call-iptables"
    if bridged.exists():
        bridged.write_text("1")


class Programs:
    """The node's programs, each with a log of its own."""

    def __init__(self, home: Path) -> None:
        self._logs = home / "log"
        self._logs.mkdir(exist_ok=True)
        self._argv: dict[str, list[str]] = {}
        self._running: dict[int, tuple[str, subprocess.Popen[bytes]]] = {}

    def start(self, name: str, argv: list[str]) -> None:
        """Start one, and write its process id, as this node knows it, below /run."""
        self._argv[name] = argv
        with (self._logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                argv,
                env=ENVIRON,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._running[process.pid] = name, process
        Path("/run", f"{name}.pid").write_text(str(process.pid))

    def once(self, name: str, argv: list[str]) -> bool:
        """Run one to its end; whether it succeeded."""
        with (self._logs / f"{name}.log").open("ab") as log:
            done = subprocess.run(argv, env=ENVIRON, stdout=log, stderr=log, check=False)
        return done.returncode == 0

    def watch(self) -> None:
        """Reap what ends, and start programs again; for ever."""
        while True:
            try:
                pid, status = os.wait()
            except ChildProcessError:
                time.sleep(_AGAIN_S)
                continue
            if pid in self._running:
                name, _process = self._running.pop(pid)
                code = os.waitstatus_to_exitcode(status)
                sys.stderr.write(f"{name} ended with {code}\n")
                time.sleep(_AGAIN_S)
                self.start(name, self._argv[name])


def main() -> None:
    plan = json.loads(Path(sys.argv[1]).read_text())
    home = Path(plan["home"])
    # The first process of a namespace has no default action for signals; this one ends by SIGKILL.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    prepare(plan, home)
    joined = home / "joined"
    while not joined.exists():  # until the network is there
        time.sleep(0.02)
    forward_packets()
    programs = Programs(home)
    for step in plan["steps"]:
        if step["is_kept"]:
            programs.start(step["name"], step["argv"])
            continue
        deadline = time.monotonic() + _READY_S
        while not programs.once(step["name"], step["argv"]):
            if time.monotonic() > deadline:
                sys.exit(f"{step['name']} failed; its log is in {home}/log")
            time.sleep(0.2)
    programs.watch()


if __name__ == "__main__":
    main()
