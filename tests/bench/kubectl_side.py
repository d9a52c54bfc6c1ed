"""`kubectl logs -f` into a pipe, which is read as fast as it comes."""

import asyncio
import os
import subprocess
import threading
import time
from dataclasses import dataclass, field

from tests.bench.fakelogs import END, LINE_BYTES, Work
from tests.bench.processes import cpu_s
from tests.bench.runs import none_left, open_at, open_of, settled, stats
from tests.bench.world import World
from tests.tools.kubectls import current_kubectl

_READ = 2**20
_LONGEST_S = 120.0


@dataclass
class Pipe:
    """Counts the lines that come out of a process."""

    process: subprocess.Popen[bytes]
    expected: int
    lines: int = 0
    first_at: float = 0.0
    last_at: float = 0.0
    done: threading.Event = field(default_factory=threading.Event)

    def read(self) -> None:
        """Until all lines came or the process ended."""
        assert self.process.stdout is not None
        end = END.encode()
        while self.lines < self.expected:
            data = os.read(self.process.stdout.fileno(), _READ)
            if not data:
                break
            self.lines += data.count(end)
            if self.lines > 1:
                self.first_at = self.first_at or time.monotonic()
        self.last_at = time.monotonic()
        self.done.set()


@dataclass(frozen=True)
class Kubectl:
    """What one `kubectl logs -f` did; as `runs.Run` has it."""

    lines: int
    cpu_s: float
    seconds: float

    @property
    def cpu_ms_per_mb(self) -> float:
        return self.cpu_s * 1000 / (self.lines * LINE_BYTES / 1e6)

    @property
    def lines_per_s(self) -> float:
        return self.lines / self.seconds


def _start(world: World, pod: str) -> subprocess.Popen[bytes]:
    namespace, _, name = pod.partition("/")
    command = [current_kubectl(), f"--kubeconfig={world.kubeconfig}", "-n", namespace]
    return subprocess.Popen([*command, "logs", "-f", name, "-c", "main"], stdout=subprocess.PIPE)


async def kubectl_logs(world: World, turn: int, work: Work) -> Kubectl:
    """Its cost from the first line to the last; its start does not count.

    Raises:
        AssertionError: lines are missing.
    """
    process = _start(world, world.pod(turn, 0))
    pipe = Pipe(process, 1 + work.lines)  # line 0 is there before
    thread = threading.Thread(target=pipe.read, daemon=True)
    thread.start()
    try:
        await settled(world.api, 1)
        while not pipe.lines:
            await asyncio.sleep(0.01)
        began_s = cpu_s(process.pid, with_children=True)
        await stats(world.api, open_of(work))
        await asyncio.to_thread(pipe.done.wait, _LONGEST_S)
        used_s = cpu_s(process.pid, with_children=True) - began_s
    finally:
        process.kill()
        process.wait()
        await none_left(open_at(world.api))
        await stats(world.api, "close")
    assert pipe.lines == pipe.expected, f"kubectl gave {pipe.lines} lines of {pipe.expected}"
    return Kubectl(work.lines, used_s, pipe.last_at - pipe.first_at)
