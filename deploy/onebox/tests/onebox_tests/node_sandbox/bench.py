"""A sandbox for tests, with short ways to run programs in pods and to read what they printed."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onebox.node.interpreter import interpreter_mounts, real_interpreter
from onebox.node.sandbox import (
    Container,
    ContainerSpec,
    Exit,
    ImageEnv,
    Mount,
    Pod,
    PodSpec,
    Sandbox,
)

PYTHON = real_interpreter()
IS_ROOT = os.getuid() == 0
DEADLINE_S = 60.0
IMAGE = ImageEnv("test", "sha256:test", {"PATH": "/usr/bin:/bin"}, interpreter_mounts())

_numbers = itertools.count(1)


def log_text(path: Path) -> str:
    """Return what a container printed, without the stamps of the log's records."""
    parts = []
    for record in path.read_bytes().splitlines(keepends=True):
        _stamp, _stream, tag, text = record.split(b" ", 3)
        parts.append(text if tag == b"F" else text[:-1])
    return b"".join(parts).decode(errors="replace")


def parent_of(pid: int) -> int:
    """Return a process's parent: of a program its container's init, of that its pod's."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def until(condition: Callable[[], Any], what: str = "the condition") -> Any:
    """Wait until a condition holds; fail after a deadline."""
    loop = asyncio.get_running_loop()
    end = loop.time() + DEADLINE_S
    while loop.time() < end:
        if value := condition():
            return value
        await asyncio.sleep(0.01)
    raise AssertionError(f"{what} did not come to hold within {DEADLINE_S} s")


class Bench:
    """A sandbox, its home, and pods that are removed at the end."""

    def __init__(self, sandbox: Sandbox, home: Path) -> None:
        self.sandbox = sandbox
        self.home = home

    async def pod(self, name: str = "", **fields: Any) -> Pod:
        name = name or f"pod-{next(_numbers)}"
        spec = {"uid": f"uid-{name}", "namespace": "lab", "name": name, "hostname": name}
        return await self.sandbox.create_pod(PodSpec(**{**spec, **fields}))

    async def start(self, pod: Pod, *argv: str, **fields: Any) -> Container:
        """Start a container with sensible values for what a test does not name."""
        number = next(_numbers)
        values: dict[str, Any] = {
            "name": f"main-{number}",
            "argv": argv,
            "env": {},
            "image": IMAGE,
            "log_path": str(self.home / "logs" / f"{number}.log"),
        }
        values.update(fields)
        container = await pod.run(ContainerSpec(**values))
        self.last_log = Path(values["log_path"])
        return container

    async def run(self, pod: Pod, *argv: str, **fields: Any) -> tuple[Exit, str]:
        """Run a container to its end; return how it ended and what it printed."""
        container = await self.start(pod, *argv, **fields)
        log = self.last_log
        ended = await asyncio.wait_for(container.wait(), DEADLINE_S)
        return ended, log_text(log)

    async def shell(self, pod: Pod, script: str, **fields: Any) -> str:
        """Run a shell script that must succeed; return what it printed."""
        ended, text = await self.run(pod, "/bin/sh", "-ec", script, **fields)
        assert ended.code == 0, text
        return text

    async def python(self, pod: Pod, program: str, **fields: Any) -> str:
        """Run a Python program that must succeed; return what it printed."""
        ended, text = await self.run(pod, PYTHON, "-I", "-S", "-c", program, **fields)
        assert ended.code == 0, text
        return text

    def volume(self, name: str) -> Path:
        """Return a folder that containers may write."""
        folder = self.home / "volumes" / name
        folder.mkdir(parents=True, exist_ok=True)
        if IS_ROOT:
            os.chown(folder, 1000, 100)
        return folder

    def mount(self, name: str, path: str, **fields: Any) -> Mount:
        """Return the mount of such a folder."""
        return Mount(source=str(self.volume(name)), path=path, **fields)

    async def clear(self) -> None:
        """Remove every pod and every file."""
        await asyncio.gather(*(pod.remove() for pod in list(self.sandbox._pods)))
        for name in ("logs", "volumes", "images", "victim", "closed"):
            shutil.rmtree(self.home / name, ignore_errors=True)

    async def close(self) -> None:
        await self.sandbox.close()
        shutil.rmtree(self.home)
