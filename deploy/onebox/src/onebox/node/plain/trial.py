"""The proof that pods can run without namespaces here, and what is lost by that."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from onebox.node.pod import Pod
from onebox.node.spec import PodSpec, SandboxUnavailable
from onebox.node.trial import run_program

_HOST = "onebox-trial"
# Files by paths that do not exist here, a folder entered, a program started by such a path, a low
# port at all addresses, a name, a socket that two programs of the pod share.
_PROGRAM = """
import json, os, socket, subprocess, sys
os.chdir("/tmp")
with open("/srv/trial.sh", "w") as script:
    script.write("#!/bin/sh\\necho $(pwd) $(hostname 2>/dev/null || uname -n)\\n")
os.chmod("/srv/trial.sh", 0o755)
said = subprocess.run(["/srv/trial.sh"], capture_output=True, text=True).stdout.split()
server = socket.socket()
server.bind(("0.0.0.0", 80))
server.listen()
client = socket.create_connection(("127.0.0.1", 80), 5)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
report = {
    "said": said,
    "cwd": os.getcwd(),
    "files": open("/srv/trial.sh").read(2) == "#!" and "trial.sh" in os.listdir("/srv"),
    "address": client.getpeername()[0],
    "capabilities": int(status["CapEff"], 16),
}
open("/dev/termination-log", "w").write(json.dumps(report))
"""
_LOST = (
    (
        "Pods are not kept apart, because namespaces are refused here: onebox answers their system "
        "calls, which is a help for programs and no boundary."
    ),
    (
        "They share processes, user and network with all else here: any program reaches their "
        "ports at 127.x.y.z, and a port that another program opened on all addresses is taken."
    ),
    (
        "Sizes of volumes in memory are not enforced; what a container writes to /tmp and its own folders "
        "counts as written to this machine's disk."
    ),
    "Files have their real paths in /proc; programs start and open files more slowly.",
)


async def run_trial(
    create_pod: Callable[[PodSpec], Awaitable[Pod]], folder: Path
) -> tuple[str, ...]:
    """Run a throw-away pod that tries what programs do; return sentences about what is lost.

    Raises:
        SandboxUnavailable: it does not work; in words.
    """
    spec = PodSpec("trial", "kube-system", _HOST, _HOST)
    ended, output = await run_program(create_pod, folder, spec, _PROGRAM, explain_refusal)
    if ended.code != 0:
        last = output.strip().splitlines()[-1:] or ["it printed nothing"]
        raise SandboxUnavailable(_refusal(f"a throw-away pod ended with {ended.code}: {last[0]}"))
    return judge(json.loads(ended.message), is_root=os.getuid() == 0)


def judge(report: dict[str, object], *, is_root: bool) -> tuple[str, ...]:
    """Return what is lost, by what the throw-away pod saw.

    Raises:
        SandboxUnavailable: it saw something wrong.
    """
    wanted = {"said": ["/tmp", _HOST], "cwd": "/tmp", "files": True, "capabilities": 0}
    for name, value in wanted.items():
        if report[name] != value:
            raise SandboxUnavailable(
                _refusal(f"in a throw-away pod {name} was {report[name]!r} instead of {value!r}")
            )
    if not is_root:
        return _LOST
    return (*_LOST, "Pods run as uid 0, without any right of root, for there is no other user.")


def explain_refusal(stage: str, error: str) -> str:
    """Return a sentence for people: why pods cannot run without namespaces either.

    Args:
        stage: what was tried: loopback, pod, container, interpreter.
        error: what the kernel said.
    """
    if stage == "loopback":
        return _refusal(f"no address of 127.88.0.0 to 127.125.255.255 can be used: {error}")
    return _refusal(error)


def _refusal(text: str) -> str:
    return f"Without namespaces, by answering their system calls, they cannot run either: {text}."
