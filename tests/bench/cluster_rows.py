"""M3, M5 and M7 with real pods: a training that writes, on onebox and on upstream Kubernetes.

The portal reads logs as an account whose API server is a port that counts connections: each log stream is
a connection of its own. Nine websockets of one person and a `kubectl logs -f` read the same pod.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml

from deploy.testcluster.ports import free_port
from tests.bench.fakelogs import LINE_BYTES
from tests.bench.forward import Forward, forwarding
from tests.bench.kubectl_side import Pipe
from tests.bench.ledger import Ledger
from tests.bench.processes import cpu_s, running
from tests.bench.results import Result, Sides, at_most
from tests.bench.runs import Run, all_done, none_left
from tests.bench.viewers import Target, Viewer, arrive, delivered
from tests.e2e.portal import PASSWORD, ROOT, Portal, Rest
from tests.onebox.whole.processes import command_line, descendants
from tests.tools.kubectls import any_kubectl

LINES = 100_000  # 10 MB: less than the runner shows at once, so that nothing is left out by it
BEGINS_S = 10.0  # from the first line to the others: time to come and look
VIEWERS = 9  # one less than a person may have
_IMAGE_S, _READY_S, _LONGEST_S = 300.0, 60.0, 120.0
PROGRAM = f"""
import sys, time
def line(n):
    head = '#%09d INFO train step loss=0.1234 lr=1e-4 ' % n
    return head + 'x' * ({LINE_BYTES} - len(head) - 2) + '~\\n'
sys.stdout.write(line(0)); sys.stdout.flush()
time.sleep({BEGINS_S})
for first in range(1, {LINES} + 1, 100):
    sys.stdout.write(''.join(map(line, range(first, min(first + 100, {LINES} + 1)))))
sys.stdout.flush()
time.sleep(600)
"""


class NoClusterError(RuntimeError):
    """There is no such cluster here; the text says why."""


@contextmanager
def onebox() -> Iterator[Portal]:
    """A Homeport on the embedded cluster, which the launcher would not let us read by another port."""
    port = free_port()
    with ExitStack() as stack:
        folder = stack.enter_context(_home())
        home = folder / "cluster"
        kubeconfig = home / "kubeconfig"
        arguments = ["-m", "deploy.onebox", "--home", str(home), "--forward", str(port)]
        arguments += ["--egress", "on"]
        stack.enter_context(running(arguments, folder / "cluster.log", kubeconfig.exists))
        yield stack.enter_context(_portal(folder, port, kubeconfig))


@contextmanager
def upstream() -> Iterator[Portal]:
    """A Homeport on upstream's control plane, with our node half.

    Raises:
        NoClusterError: it is not built, and there is no Go to build it.
    """
    from deploy.testcluster import binaries
    from deploy.testcluster.cluster import TestCluster
    from deploy.testcluster.node import NodeOptions

    if not binaries.is_built(binaries.KUBERNETES, binaries.ETCD) and not binaries.find_go():
        raise NoClusterError("upstream Kubernetes is not built, and there is no Go to build it")
    port = free_port()
    with ExitStack() as stack:
        folder = stack.enter_context(_home())
        node = NodeOptions(forwards=[str(port)], has_egress=True)
        cluster = stack.enter_context(
            TestCluster(folder / "cluster", node=node, say=lambda _: None)
        )
        yield stack.enter_context(_portal(folder, port, cluster.kubeconfig))


CLUSTERS: dict[str, Callable[[], Any]] = {"onebox": onebox, "upstream": upstream}


@contextmanager
def _home() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="homeport-bench-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _portal(folder: Path, port: int, kubeconfig: Path) -> Iterator[Portal]:
    environment = {
        "HOMEPORT_KUBECONFIG": str(kubeconfig),
        "WEB_KUBECONFIG": str(folder / "kubeconfig-web"),
        "POD_PORTAL_URL": "http://10.244.0.1:8000",
    }
    portal = Portal(folder / "home", port, environment)
    try:
        _accounts(portal)
        portal.start()
        yield portal
        portal.stop()
    finally:
        portal.kill_everything()


def _accounts(portal: Portal) -> None:
    """The launcher makes demo accounts on its own cluster only."""
    environment = {k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"}
    environment |= {"HOMEPORT_HOME": str(portal.home), "HOMEPORT_DEMO_PASSWORD": PASSWORD}
    command = [sys.executable, "-m", "deploy.prepare", "--demo"]
    subprocess.run(command, cwd=ROOT, env=environment, check=True, timeout=120)


@dataclass(frozen=True)
class Training:
    """One that writes, and how it is watched."""

    portal: Portal
    rest: Rest
    job: dict[str, Any]
    pod: str
    namespace: str
    kubeconfig: Path
    pid: int

    @property
    def target(self) -> Target:
        path = f"/ws/jobs/{self.job['id']}/logs/?replica=worker-0"
        return Target(self.portal.port, path, (f"Authorization: Token {self.rest.token}",))


def _begin(portal: Portal, rest: Rest) -> Training:
    """A training whose program has begun."""
    job = rest.submit(
        name="writes", command=["python", "-c", PROGRAM], replicas={"worker": {"cpu": "500m"}}
    )
    rest.wait(job, "running", timeout_s=_IMAGE_S)
    seen = rest.get(f"jobs/{job['id']}/")
    assert portal.process is not None
    pid = next(
        pid for pid in descendants(portal.process.pid) if "manage.py serve" in command_line(pid)
    )
    kubeconfig = Path(portal.environment["HOMEPORT_KUBECONFIG"])
    pod = seen["replicas"][0]["pod"]
    return Training(portal, rest, job, pod, rest.tenant()["namespace"], kubeconfig, pid)


def _count_connections(portal: Portal, forward: Forward) -> None:
    """Writes the kubeconfig of the account that reads logs."""
    path = Path(portal.environment["HOMEPORT_KUBECONFIG"])
    config = yaml.safe_load(path.read_text())
    for row in config["clusters"]:
        server = urlsplit(row["cluster"]["server"])
        row["cluster"]["server"] = server._replace(netloc=f"127.0.0.1:{forward.port}").geturl()
    Path(portal.environment["WEB_KUBECONFIG"]).write_text(yaml.safe_dump(config))


def _server(portal: Portal) -> tuple[str, int]:
    path = Path(portal.environment["HOMEPORT_KUBECONFIG"])
    server = urlsplit(yaml.safe_load(path.read_text())["clusters"][0]["cluster"]["server"])
    assert server.hostname, path
    assert server.port, path
    return server.hostname, server.port


async def _watch(training: Training, forward: Forward, viewers: int) -> tuple[Run, float]:
    """The training's lines at viewers and at kubectl; what kubectl used, in s of CPU."""
    forward.peak = forward.open
    command = [any_kubectl(), f"--kubeconfig={training.kubeconfig}", "-n", training.namespace]
    process = await asyncio.to_thread(
        subprocess.Popen, [*command, "logs", "-f", training.pod, "-c", "main"], stdout=-1
    )
    pipe = Pipe(process, 1 + LINES)
    threading.Thread(target=pipe.read, daemon=True).start()
    try:
        watching = await arrive([training.target] * viewers)
        for viewer in watching:
            viewer.expected = LINES
        async with asyncio.timeout(_READY_S):
            while not (pipe.lines and all(viewer.account.is_ready for viewer in watching)):
                await asyncio.sleep(0.01)
        ours_s, theirs_s = cpu_s(training.pid), cpu_s(process.pid, with_children=True)
        await _until_it_writes(watching)
        await all_done(watching)
        await asyncio.to_thread(pipe.done.wait, _LONGEST_S)
        ours_s = cpu_s(training.pid) - ours_s
        theirs_s = cpu_s(process.pid, with_children=True) - theirs_s
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
    peak = forward.peak
    for viewer in watching:
        viewer.leave()

    async def count() -> int:
        return forward.open

    left_s = await none_left(count)
    assert pipe.lines == pipe.expected, f"kubectl gave {pipe.lines} lines of {pipe.expected}"
    return Run(delivered(watching), ours_s, peak, 1, left_s), theirs_s


async def _until_it_writes(viewers: list[Viewer]) -> None:
    async with asyncio.timeout(BEGINS_S + _READY_S):
        while not any(viewer.account.lines for viewer in viewers):
            await asyncio.sleep(0.01)


async def real_logs(name: str, repeats: int) -> list[Result]:
    """M3, M5 and M7 on one cluster.

    Raises:
        NoClusterError: it cannot be had here.
    """
    cost, ledger = Sides(), Ledger()
    with ExitStack() as stack:
        portal = await asyncio.to_thread(stack.enter_context, CLUSTERS[name]())
        async with forwarding(*_server(portal)) as forward:
            _count_connections(portal, forward)
            rest = await asyncio.to_thread(portal.sign_in, "ada")
            await asyncio.to_thread(rest.tenant)
            for viewers in (*[1] * repeats, VIEWERS):
                training = await asyncio.to_thread(_begin, portal, rest)
                run, theirs_s = await _watch(training, forward, viewers)
                ledger.enter(run)
                if viewers == 1:
                    cost.add(run.cpu_ms_per_mb, theirs_s * 1000 / (LINES * LINE_BYTES / 1e6))
                await asyncio.to_thread(_end, training)
        await asyncio.to_thread(stack.close)
    measured = Result(
        "M3",
        "CPU per MB, portal with one viewer / kubectl logs -f",
        cost.ratio,
        at_most(1.0),
        sides=cost.words("ms/MB", "kubectl"),
        void=cost.void,
    )
    return [result.on(name) for result in (measured, *ledger.results())]


def _end(training: Training) -> None:
    assert training.rest.call("POST", f"jobs/{training.job['id']}/stop/").ok
    training.rest.wait(training.job, "stopped")
