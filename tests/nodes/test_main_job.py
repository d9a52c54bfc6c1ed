"""Homeport's main job on two real nodes: containers of runc, shared volumes, enforced policies.

Homeport has the three accounts of deploy/cluster and no other, and runs beside the cluster, as the
machine that people's addresses and the portal's door are on. TensorFlow and PyTorch are too large
for these nodes: programs with sockets take their places, which use what each topology promises.
"""

import json
import os
import re
import signal
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import requests

from deploy.testcluster.nodes import gluster, images, network, sweep
from deploy.testcluster.nodes.cluster import NodeCluster
from deploy.testcluster.nodes.node import cgroup_of
from deploy.testcluster.ports import free_port
from portal.cluster import labels
from tests.e2e.jupyter import Lab
from tests.e2e.main_job import live_log
from tests.e2e.portal import Portal, Rest, kubectl, new_home, thrown_away
from tests.e2e.test_gate import enter
from tests.e2e.test_services import Service, things_of
from tests.nodes.conftest import IS_OVERLAY
from tests.nodes.pods import Pods
from tests.nodes.volumes import SELECTOR
from tests.tools.waiting import wait_for
from tests.upstream.power import Accounts, installed, make_people, portal_of

START_S = 180
# More than half of a node of two processors, so that no two of them share one.
HALF = {"cpu": "1100m", "memory": "128Mi"}
SMALL = {"cpu": "200m", "memory": "128Mi"}

WHO_AM_I = """
import os, re, socket
status = dict(re.findall(r"(\\w+):\\s+(.*)", open("/proc/self/status").read()))
print("uid", os.getuid(), "gid", os.getgid(), flush=True)
print("rights", status["CapEff"], status["CapBnd"], status["NoNewPrivs"], status["Seccomp"])
print("first process", os.getppid() == 1 or os.getpid() == 1 or len(os.listdir("/proc")) < 100)
open("/data/kept", "w").write(socket.gethostname())
print("ended well")
"""
# Every rank sends its number to the first one, which tells them all the sum, as all-reduce does.
RANKS = """
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
place = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == 0:
    server = socket.create_server(("", place[1]))
    peers = [server.accept()[0] for _ in range(size - 1)]
    total = 1 + sum(int(peer.recv(16)) for peer in peers)
    for peer in peers:
        peer.sendall(b"%d" % total)
else:
    for _ in range(120):
        try:
            peer = socket.create_connection(place, 5)
            break
        except OSError:
            time.sleep(0.5)
    peer.sendall(b"%d" % (rank + 1))
    total = int(peer.recv(16))
print("rank", rank, "of", size, "sum", total, flush=True)
"""
EVENTS = """
import os
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer = EventFileWriter(os.environ["LOG_DIR"])
for step in range(5):
    value = Summary.Value(tag="loss", simple_value=1 / (step + 1))
    writer.add_event(Event(step=step, summary=Summary(value=[value])))
writer.close()
print("written", flush=True)
"""
# Counts in its log folder; the second attempt finds where the first one came to.
COUNTING = """
import os, pathlib, time
place = pathlib.Path(os.environ["LOG_DIR"], "count")
if place.exists():
    print("came to", place.read_text(), flush=True)
else:
    for number in range(1, 3000):
        place.write_text(str(number))
        print("count", number, flush=True)
        time.sleep(0.2)
"""
WAITING = """
import os, pathlib, time
place = pathlib.Path(os.environ["LOG_DIR"], "waits")
if not place.exists():
    place.write_text("")
    print("waits", flush=True)
    time.sleep(3600)
"""
LATE_S = 8
# The node's end of a new pod's network is down for its first seconds.
LATE = """#!/bin/sh
said=$({bridge}); code=$?
[ $code = 0 ] && [ "$CNI_COMMAND" = ADD ] && for end in $(echo "$said" | grep -o 'veth[0-9a-f]*'); do
  ip link set $end down && echo $end >> {log}
  setsid sh -c "sleep {late_s}; ip link set $end up" < /dev/null > /dev/null 2>&1 &
done
echo "$said"
exit $code
"""


@pytest.fixture(scope="module")
def accounts(cluster: NodeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Accounts]:
    """Accounts, rights and policies of deploy/cluster."""
    with installed(cluster.kubeconfig, tmp_path_factory.mktemp("accounts")) as made:
        yield made


@pytest.fixture(scope="module")
def portal(accounts: Accounts, volumes: None) -> Iterator[Portal]:
    port = free_port()
    running = portal_of(
        accounts,
        new_home("nodes-portal"),
        port,
        POD_LISTEN=network.HOST,
        POD_PORTAL_URL=f"http://{network.HOST}:{port}",
        NODE_HOST=network.address(1),
        NODE_CIDRS=" ".join(network.of_nodes(is_overlay=IS_OVERLAY)),
        CLIENT_CIDRS=network.CLIENTS,
        NODE_SELECTOR=",".join(f"{key}={value}" for key, value in SELECTOR.items()),
        NETWORK_CHECK="yes",
    )
    make_people(running)
    with thrown_away(running):
        yield running


@pytest.fixture(scope="module")
def ada(portal: Portal) -> Rest:
    rest = portal.sign_in("ada")
    rest.tenant(timeout_s=120)
    return rest


def _python(program: str, *arguments: str) -> list[str]:
    return ["python3", "-c", program, *arguments]


def _nodes_of(ada: Rest, job: dict[str, object]) -> list[str]:
    return sorted(replica["node"] for replica in ada.get(f"jobs/{job['id']}/")["replicas"])


def _log(ada: Rest, job: dict[str, object], more: str = "") -> str:
    return ada.text(f"jobs/{job['id']}/logs/?download=1{more}")


def test_namespaces_are_apart_by_homeports_own_check(portal: Portal) -> None:
    """It tries two namespaces of its own at its start, with real pods."""

    def look() -> str:
        with sqlite3.connect(portal.home / "homeport.sqlite3", timeout=60) as database:
            found = database.execute("select health from jobs_reconcilerlease").fetchall()
        told = json.loads(found[0][0]).get("network", {}) if found else {}
        return str(told["state"]) if "checked_at" in told else ""

    assert wait_for("it was tried", look, timeout_s=START_S, interval_s=0.5) == "yes"


def test_a_training_in_a_container(portal: Portal, ada: Rest) -> None:
    job = ada.submit(name="single", command=_python(WHO_AM_I), replicas={"worker": SMALL})
    assert "ended well" in live_log(ada, job["id"])
    done = ada.wait(job, "succeeded", timeout_s=START_S)
    assert ada.exit_codes(done) == [0]
    log = wait_for("its archive", lambda: _log(ada, job))
    assert "uid 1000 gid 100" in log
    assert f"rights {'0' * 16} {'0' * 16} 1 2" in log, log
    namespace = ada.tenant()["namespace"]
    labels = kubectl(portal, "get", "namespace", namespace, "--show-labels")
    assert "pod-security.kubernetes.io/enforce=restricted" in labels
    kubectl(portal, "-n", namespace, "delete", "jobs", "--all", "--wait=true")
    assert "ended well" in _log(ada, job), "the archive is there when no pod is"


def test_ranks_on_two_nodes_find_each_other(ada: Rest) -> None:
    job = ada.submit(
        name="ranks",
        topology="torch-ddp",
        command=_python(RANKS),
        replicas={"worker": {**HALF, "count": 2}},
    )
    done = ada.wait(job, "succeeded", timeout_s=START_S)
    assert ada.exit_codes(done) == [0, 0]
    found = re.findall(r"rank (\d) of 2 sum 3", _log(ada, job))
    assert sorted(found) == ["0", "1"]
    assert _nodes_of(ada, job) == ["node-1", "node-2"]


@contextmanager
def _late_network(cluster: NodeCluster) -> Iterator[None]:
    plugin = "/usr/lib/cni/bridge"
    for node in cluster.nodes:
        real, instead = node.home / "bridge", node.home / "bridge.sh"
        subprocess.run(node.enter("cp", plugin, str(real)), check=True)
        log = node.home / "late"
        instead.write_text(LATE.format(bridge=real, log=log, late_s=LATE_S))
        instead.chmod(0o755)
        subprocess.run(node.enter("mount", "--bind", str(instead), plugin), check=True)
    try:
        yield
    finally:
        for node in cluster.nodes:
            subprocess.run(node.enter("umount", plugin), check=True)


def test_a_network_that_comes_late_is_no_failure(
    cluster: NodeCluster, ada: Rest, tmp_path: Path
) -> None:
    code = tmp_path / "ranks.py"
    code.write_text(RANKS)
    bundle = ada.upload(code)
    with _late_network(cluster):
        job = ada.submit(
            name="late",
            topology="torch-ddp",
            source={"bundle": bundle},
            command=["python3", "ranks.py"],
            replicas={"worker": {**HALF, "count": 2}},
        )
        notebook = Service(ada, "notebook", name="late", cpu="200m", memory="512Mi")
        done = ada.wait(job, "succeeded", timeout_s=START_S)
        notebook.wait("running", timeout_s=START_S)
    assert (len(done["attempts"]), done["retries"]) == (1, 0)
    assert sorted(re.findall(r"rank (\d) of 2 sum 3", _log(ada, job))) == ["0", "1"]
    assert enter(notebook).status() == 200
    late = [line for node in cluster.nodes for line in (node.home / "late").read_text().split()]
    assert len(late) >= 3, "each pod's network came late"
    notebook.do("stop")
    notebook.wait("stopped", timeout_s=START_S)


def test_a_program_without_memory_is_told_so(ada: Rest) -> None:
    program = "print('begins', flush=True); kept = [b'x' * 2**20 for _ in range(4096)]"
    job = ada.submit(name="greedy", command=_python(program), replicas={"worker": SMALL})
    failed = ada.wait(job, "failed", timeout_s=START_S)
    assert failed["replicas"][0]["exit_code"] == 137
    assert "memory" in json.dumps(failed["reason"]), failed["reason"]
    assert wait_for("its log is archived", lambda: "begins" in _log(ada, job), timeout_s=90)


def _kill(cluster: NodeCluster, pod: dict[str, Any], container: str) -> None:
    """Every process of a container at once, as cgroup v2 does it when memory is out."""
    [status] = [one for one in pod["status"]["containerStatuses"] if one["name"] == container]
    name = status["containerID"].rpartition("/")[2]
    node = next(node for node in cluster.nodes if node.name == pod["spec"]["nodeName"])
    [*places] = [path for path in sweep.left(cgroup_of(node.number)) if path.name == name]
    processes = {line for path in places for line in (path / "cgroup.procs").read_text().split()}
    assert len(processes) > 1, "the runner and its program, or the starter and its server"
    for process in processes:
        os.kill(int(process), signal.SIGKILL)


def _pod_of(pods: Pods, ada: Rest, owner: str) -> dict[str, Any]:
    namespace, label = ada.tenant()["namespace"], f"{labels.OWNER}={owner}"
    [pod] = pods.get("-n", namespace, "pods", "-l", label)["items"]
    return dict(pod)


def test_a_training_all_of_whose_processes_are_killed_ends_with_its_log(
    cluster: NodeCluster, pods: Pods, ada: Rest
) -> None:
    program = "import time; print('begins', flush=True); time.sleep(3600)"
    job = ada.submit(name="killed", command=_python(program), replicas={"worker": SMALL})
    wait_for("it runs", lambda: "begins" in ada.text(f"jobs/{job['id']}/logs/?tail=50"))
    _kill(cluster, _pod_of(pods, ada, job["id"]), "main")
    failed = ada.wait(job, "failed", timeout_s=START_S)
    assert failed["replicas"][0]["exit_code"] == 137
    assert failed["reason"]["text"], failed
    assert wait_for("its log is archived", lambda: "begins" in _log(ada, job), timeout_s=90)


def test_an_image_that_cannot_be_had_is_named(ada: Rest) -> None:
    job = ada.submit(
        name="no image",
        image="registry.invalid/team/nothing:1",
        command=["true"],
        replicas={"worker": SMALL},
    )

    def reason() -> str:
        seen = json.dumps(ada.get(f"jobs/{job['id']}/")["reason"])
        return seen if "registry.invalid/team/nothing:1" in seen else ""

    wait_for("the reason names it", reason, timeout_s=START_S)
    assert ada.call("POST", f"jobs/{job['id']}/stop/").ok
    ada.wait(job, "stopped", timeout_s=START_S)


def _through_both(base: str) -> list[str]:
    """The address of a page behind a gate, by each node's NodePort."""
    first, second = network.address(1), network.address(2)
    assert first in base
    return [base, base.replace(first, second)]


def test_a_notebook_opens_through_both_nodes_and_again_when_it_was_killed(
    portal: Portal, cluster: NodeCluster, pods: Pods, ada: Rest
) -> None:
    notebook = Service(ada, "notebook", name="book", cpu="500m", memory="512Mi")
    notebook.wait("running", timeout_s=START_S)
    lab = enter(notebook)
    for base in _through_both(lab.base):
        assert Lab(base, lab.cookie).status() == 200
        assert requests.get(f"{base}api/status", timeout=30).status_code == 401
    with lab.kernel() as kernel:
        assert kernel.run("import os; 6 * 7, os.getuid()") == "(42, 1000)"
    _kill(cluster, _pod_of(pods, ada, notebook.id), "app")
    wait_for("it is started again", lambda: lab.status() == 200, timeout_s=START_S)
    notebook.do("stop")
    notebook.wait("stopped", timeout_s=START_S)
    wait_for("nothing is left", lambda: not things_of(portal, notebook), timeout_s=90)


def test_a_tensorboard_opens_through_both_nodes(portal: Portal, ada: Rest) -> None:
    job = ada.submit(
        name="curve", image=images.NOTEBOOK, command=_python(EVENTS), replicas={"worker": SMALL}
    )
    ada.wait(job, "succeeded", timeout_s=START_S)
    board = Service(ada, "tensorboard", name="board", job=job["id"])
    board.wait("running", timeout_s=START_S)
    inside = board.enter()
    wait_for("its events are read", lambda: inside.get("data/runs").json(), timeout_s=90)
    cookies = {cookie.name: cookie.value or "" for cookie in inside.session.cookies}
    for base in _through_both(inside.base):
        answer = requests.get(f"{base}data/runs", cookies=cookies, timeout=30)
        assert answer.json(), answer
        assert requests.get(f"{base}data/runs", timeout=30).status_code == 401
    assert ada.call("DELETE", board.path).status_code == 204


def test_a_training_whose_volume_goes_away_is_told_so_and_tried_again(
    cluster: NodeCluster, ada: Rest
) -> None:
    """The node's client of GlusterFS is killed; it is there again a second later, for new pods."""
    job = ada.submit(
        name="counts",
        command=_python(COUNTING),
        replicas={"worker": SMALL},
        retries=1,
    )
    wait_for(
        "it counts",
        lambda: "count 9" in ada.text(f"jobs/{job['id']}/logs/?tail=50"),
        timeout_s=START_S,
    )
    [name] = _nodes_of(ada, job)
    node = next(node for node in cluster.nodes if node.name == name)
    command = node.enter("pkill", "-KILL", "-f", f"volfile-id={gluster.VOLUME}")
    assert subprocess.run(command, check=False).returncode == 0
    done = ada.wait(job, "succeeded", timeout_s=2 * START_S)
    [first, _second] = done["attempts"]
    assert first["reason_code"] == "volume_lost", first
    assert re.search(r"came to \d+", _log(ada, job, "&attempt=2"))
    assert "count 9" in wait_for("the log that was there", lambda: _log(ada, job, "&attempt=1"))


def test_who_does_not_notice_that_a_volume_is_gone_is_ended_and_starts_again(
    cluster: NodeCluster, ada: Rest
) -> None:
    job = ada.submit(name="waits", command=_python(WAITING), replicas={"worker": SMALL}, retries=1)
    notebook = Service(ada, "notebook", name="rests", cpu="500m", memory="512Mi")
    tail = f"jobs/{job['id']}/logs/?tail=50"
    wait_for("it waits", lambda: "waits" in ada.text(tail), timeout_s=START_S)
    notebook.wait("running", timeout_s=START_S)
    for node in cluster.nodes:
        command = node.enter("pkill", "-KILL", "-f", f"volfile-id={gluster.VOLUME}")
        assert subprocess.run(command, check=False).returncode == 0
    done = ada.wait(job, "succeeded", timeout_s=2 * START_S)
    assert done["attempts"][0]["reason_code"] == "volume_lost", done
    wait_for("the log that was there", lambda: "waits" in _log(ada, job, "&attempt=1"))
    wait_for("the notebook is another", lambda: notebook.get()["restarts"] == 1, timeout_s=START_S)
    notebook.wait("running", timeout_s=START_S)
    with enter(notebook).kernel() as kernel:
        assert kernel.run("import os; 'log' in os.listdir('/data')") == "True"
    notebook.do("stop")
    notebook.wait("stopped", timeout_s=START_S)
