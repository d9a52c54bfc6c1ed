"""The portal killed (a real SIGKILL) before and after each call that changes the cluster, and with
the reply of each lost: every training comes out whole, and none runs twice.

One cluster and one database for all; each portal process is armed with the next fault of the table.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from deploy.image import offer_image
from deploy.testcluster.ports import free_port
from onebox.testing import OneBox, start
from tests.e2e.portal import PASSWORD, ROOT, Portal, Rest, kubectl
from tests.tools.waiting import wait_for

pytestmark = pytest.mark.e2e

POINTS = ("before", "after", "lost")
# What a training of one worker and one parameter server needs, in order.
START = [
    "create:Job:1",
    "create:Secret:1",
    "create:ConfigMap:1",
    "create:Service:1",
    "create:Deployment:1",
    "patch:Job:1",
]
FINISH = ["delete:Deployment:1", "delete:Service:1"]
STOP = ["patch:Job:1"]
DELETE = ["delete:Job:1"]
WITHIN_S = float(os.environ.get("HOMEPORT_WITHIN_S", "30"))  # more on a machine that is busy
RESTART_S = 5

CLUSTER_BODY: dict[str, Any] = {
    "topology": "tf-ps",
    "command": [
        "python",
        "-c",
        (
            "import time; print('ran {{job_name}}', flush=True);"
            " time.sleep(0.5 if '{{job_name}}' == 'worker' else 1000)"
        ),
    ],
    "replicas": {role: {"cpu": "100m", "memory": "64Mi"} for role in ("worker", "ps")},
}
LONG_BODY: dict[str, Any] = {
    "command": ["python", "-c", "import time; print('ran', flush=True); time.sleep(1000)"],
    "replicas": {"worker": {"cpu": "100m", "memory": "64Mi"}},
}


@dataclass
class Bare(Portal):
    """The portal's process alone, on a cluster of its own, with a fault armed."""

    box: OneBox | None = None
    deaths: int = 0
    tokens: dict[str, str] = field(default_factory=dict)

    @property
    def kubeconfig(self) -> Path:
        assert self.box is not None
        return self.box.kubeconfig

    def run(self, fault: str = "") -> None:
        """Starts `serve` and waits until it answers or has died of its fault."""
        environment = {
            **{k: v for k, v in os.environ.items() if k != "DJANGO_SETTINGS_MODULE"},
            "HOMEPORT_HOME": str(self.home),
            "PORT": str(self.port),
            "POD_PORT": str(self.pod_port),
            "HOMEPORT_KUBECONFIG": str(self.kubeconfig),
            "HOMEPORT_DEMO_PASSWORD": PASSWORD,
            "HOMEPORT_FAULT": fault,
        }
        with self.log.open("ab") as log:
            if not (self.home / "homeport.sqlite3").exists():
                for command in ("migrate", "collectstatic --no-input", "demo"):
                    subprocess.run(
                        [sys.executable, "manage.py", *command.split()],
                        cwd=ROOT,
                        env=environment,
                        stdout=log,
                        stderr=log,
                        check=True,
                    )
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.serve"],
                cwd=ROOT,
                env=environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_for("it answers", lambda: self.has_died() or self.answers(), timeout_s=40)

    def answers(self) -> bool:
        try:
            return requests.get(f"{self.url}/healthz", timeout=2).ok
        except requests.RequestException:
            return False

    def has_died(self) -> bool:
        assert self.process is not None
        if self.process.poll() is None:
            return False
        assert self.process.returncode == -signal.SIGKILL, self.tail()
        return True

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def server() -> Iterator[Bare]:
    folder = Path(tempfile.mkdtemp(prefix="homeport-crash-"))
    folder.chmod(0o755)
    home = folder / "home"
    home.mkdir()
    pod_port = free_port()
    offer_image(folder / "onebox" / "node")
    with contextlib.closing(
        start(folder / "onebox", forward=pod_port, node_port_range="31800-31899")
    ) as box:
        bare = Bare(home, pod_port=pod_port, box=box)
        try:
            bare.run()
            yield bare
        finally:
            if bare.process is not None and bare.process.poll() is None:
                bare.kill()
    if not os.environ.get("KEEP_E2E"):
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def ada(server: Bare) -> Rest:
    rest = server.sign_in("ada")
    rest.tenant()
    return rest


def through(server: Bare, act: Any, fault: str) -> Any:
    """Restarts with a fault, acts, and waits until the process has died of it."""
    server.kill()
    server.run(fault)
    # The fault may strike while the request is being answered: it was acknowledged or it was not.
    try:
        result = act()
    except requests.RequestException:
        result = None
    if not fault.endswith(":lost"):
        wait_for(f"died of {fault}", server.has_died, timeout_s=WITHIN_S)
        server.run()
    return result


def ran(rest: Rest, job: dict[str, Any], role: str = "") -> int:
    """How often the program started, by its log."""
    return rest.text(f"jobs/{job['id']}/logs/?download=1").count(
        f"| ran{' ' + role if role else ''}"
    )


def objects(server: Bare, rest: Rest, job: dict[str, Any], kinds: str) -> list[str]:
    namespace = rest.tenant()["namespace"]
    names = kubectl(
        server, "-n", namespace, "get", kinds, "-l", f"homeport.dev/owner={job['id']}", "-o", "name"
    )
    return names.split()


def is_recycled(server: Bare, rest: Rest, job: dict[str, Any]) -> bool:
    return not objects(server, rest, job, "deployments,services")


@pytest.mark.parametrize("call", START)
@pytest.mark.parametrize("point", POINTS)
def test_a_start_comes_out_whole(server: Bare, ada: Rest, call: str, point: str) -> None:
    name = f"{call}:{point}".replace(":", " ")
    # Submitted to a process without fault that dies before it can do much: then it must be done by
    # the next one, which dies in the middle, and by the one after that.
    job = through(server, lambda: ada.submit(name=name, **CLUSTER_BODY), f"{call}:{point}")
    if job is None:
        found = ada.get(f"jobs/?name={name}")["results"]
        job = found[0] if found else ada.submit(name=name, **CLUSTER_BODY)
    restarted = time.monotonic()
    done = ada.wait(job, "succeeded", timeout_s=WITHIN_S)
    assert time.monotonic() - restarted < WITHIN_S
    assert done["attempt"] == 1
    assert len(ada.get(f"jobs/?name={name}")["results"]) == 1
    assert len(objects(server, ada, job, "jobs")) == 1
    assert len(objects(server, ada, job, "deployments")) <= 1
    assert ran(ada, job, "worker") == 1


def test_recycling_comes_out_whole(server: Bare, ada: Rest) -> None:
    """Trainings become due for recycling one after the other, each under a process with a fault."""
    server.kill()
    server.run()
    # Those that die come first, and use up one due job each: who lives on recycles all that is due.
    faults = sorted(
        (f"{call}:{point}" for call in FINISH for point in POINTS), key=lambda f: "lost" in f
    )
    jobs = []
    for number in range(len(faults)):
        began = time.monotonic()
        jobs.append(ada.submit(name=f"finish {number}", **CLUSTER_BODY))
        ada.wait(jobs[-1], "succeeded")
        time.sleep(max(0.0, RESTART_S - (time.monotonic() - began)))  # due times that far apart
    for fault, job in zip(faults, jobs, strict=True):
        server.kill()
        server.run(fault)
        if not fault.endswith(":lost"):
            wait_for(f"died of {fault}", server.has_died, timeout_s=60)
            continue
        wait_for("it is recycled", lambda job=job: is_recycled(server, ada, job), timeout_s=60)
    server.kill()
    server.run()
    for job in jobs:
        wait_for(
            "it is recycled", lambda job=job: is_recycled(server, ada, job), timeout_s=WITHIN_S
        )
        assert ada.get(f"jobs/{job['id']}/")["state"] == "succeeded"


@pytest.mark.parametrize("call", STOP)
@pytest.mark.parametrize("point", POINTS)
def test_a_stop_comes_out_whole(server: Bare, ada: Rest, call: str, point: str) -> None:
    job = ada.submit(name=f"stop {point}", **LONG_BODY)
    ada.wait(job, "running")
    through(server, lambda: ada.call("POST", f"jobs/{job['id']}/stop/"), f"{call}:{point}")
    done = ada.wait(job, "stopped", timeout_s=WITHIN_S)
    assert done["finished_at"]
    wait_for("no pod runs", lambda: not objects(server, ada, job, "pods"), timeout_s=WITHIN_S)
    assert ran(ada, job) == 1


@pytest.mark.parametrize("call", DELETE)
@pytest.mark.parametrize("point", POINTS)
def test_a_delete_comes_out_whole(server: Bare, ada: Rest, call: str, point: str) -> None:
    job = ada.submit(name=f"delete {point}", **LONG_BODY)
    ada.wait(job, "running")
    through(server, lambda: ada.call("DELETE", f"jobs/{job['id']}/"), f"{call}:{point}")
    assert ada.call("GET", f"jobs/{job['id']}/").status_code == 404
    kinds = "jobs,pods,services,configmaps,secrets"
    wait_for("nothing is left", lambda: not objects(server, ada, job, kinds), timeout_s=WITHIN_S)
    wait_for(
        "nothing of it is stored",
        lambda: not [p for p in server.home.rglob("*") if job["id"] in p.name],
        timeout_s=WITHIN_S,
    )


def test_an_acknowledged_submission_survives_the_kill(server: Bare, ada: Rest) -> None:
    jobs = []
    for number in range(3):
        jobs.append(ada.submit(name=f"acknowledged {number}", **CLUSTER_BODY))
        server.kill()
        server.run()
    for job in jobs:
        ada.wait(job, "succeeded", timeout_s=WITHIN_S)
        assert ran(ada, job, "worker") == 1
