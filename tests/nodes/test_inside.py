"""Homeport in pods of two real nodes, with people's volumes on GlusterFS: across nodes, through a rolling restart, without a node.

In a pytest call of its own, as it stays installed.
"""

import re
import subprocess
from collections import Counter
from collections.abc import Callable
from typing import Any

import requests

from deploy.testcluster.node import is_ready
from deploy.testcluster.nodes import gluster, images
from jobs.rules.states import FINAL_STATES
from tests.e2e.jupyter import Lab
from tests.e2e.portal import Rest
from tests.e2e.test_gate import enter
from tests.e2e.test_services import Service
from tests.nodes.installed import log
from tests.nodes.site import SITE, Site, lives
from tests.tools.waiting import wait_for
from tests.upgrade.test_running_cluster import Follower

START_S = 180
VIEWERS = 50  # ten of a person, which is as many as there may be
# More than half of what Homeport leaves of a node of two processors, so that no two of them share one.
HALF = {"cpu": "905m", "memory": "256Mi"}
SMALL = {"cpu": "200m", "memory": "128Mi"}
# What is replaced while it is opened on another node may be stale, or not there, for GlusterFS (docs/storage.md).
READ = """
import errno, time
def read(path):
    for again in reversed(range(100)):
        try:
            return open(path).read()
        except OSError as error:
            if error.errno not in (errno.ESTALE, errno.ENOENT) or not again:
                raise
            time.sleep(0.1)
"""
# The worker adds up with its parameter server and writes where it is, for others to read, until somebody says enough.
TRAIN = """
import os, pathlib, socket, sys, time
role, ps = sys.argv[1:]
if role == "ps":
    server = socket.create_server(("", int(ps.split(":")[1])))
    peer, _ = server.accept()
    total = 0
    with peer.makefile("rw") as file:
        for line in file:
            total += int(line)
            print(total, file=file, flush=True)
    time.sleep(3600)
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
place = pathlib.Path(os.environ["LOG_DIR"])
writer = EventFileWriter(str(place))
host, port = ps.split(":")
with socket.create_connection((host, int(port)), 60) as peer, peer.makefile("rw") as file:
    step = 0
    while not os.path.exists("/data/enough"):
        step += 1
        print(step, file=file, flush=True)
        said = file.readline().strip()
        (place / "new").write_text(f"{step} {said}")
        (place / "new").rename(place / "checkpoint")
        value = Summary.Value(tag="sum", simple_value=int(said))
        writer.add_event(Event(step=step, summary=Summary(value=[value])))
        writer.flush()
        print("step", step, "sum", said, "in", place, flush=True)
        time.sleep(0.2)
print("the sum of", step, "by", ps, "is", said, flush=True)
"""
# Until somebody makes the file that it is told.
COUNT = """
import itertools, os, sys, time
for number in itertools.count():
    print("count", number, flush=True)
    time.sleep(0.05)
    if os.path.exists(sys.argv[1]):
        break
"""
SAVING = """
import os, pathlib, time
saved = pathlib.Path(os.environ["LOG_DIR"], "checkpoint")
if saved.exists():
    print("continues from", saved.read_text(), flush=True)
else:
    saved.write_text("step 7")
    pathlib.Path(os.environ["ARTIFACTS_DIR"], "kept").write_text("a file")
    print("saved step 7", flush=True)
    time.sleep(3600)
"""


def python(program: str, *words: str) -> list[str]:
    return ["python3", "-c", program, *words]


def _answers(site: Site) -> bool:
    """Whether the portal answers ten times in a row, each time by a connection of its own."""
    try:
        return all(requests.get(f"{site.portal.url}/livez", timeout=5).ok for _ in range(10))
    except requests.RequestException:
        return False


def _asked_again(look: Callable[[], Any]) -> Any:
    """Its answer; once a connection may fail, with no route to the host, though the next one finds its way.

    That happens 45 s after a node is lost, for 3 s, while no rule of the node that is left leads to a lost pod any more.
    """
    try:
        return look()
    except requests.ConnectionError:
        return look()


def _tail(rest: Rest, job: dict[str, Any]) -> str:
    return rest.text(f"jobs/{job['id']}/logs/?tail=50")


def test_a_training_is_read_on_the_other_node_while_a_brick_of_its_own_is_lost(site: Site) -> None:
    """A notebook and a TensorBoard on B read what a worker on A writes; the notebook says when it is enough."""
    job = site.ada.submit(
        name="sums",
        image=images.NOTEBOOK,
        topology="tf-ps",
        addresses="ip",
        command=python(TRAIN, "{{job_name}}", "{{ps_hosts}}"),
        replicas={"worker": HALF, "ps": HALF},
    )
    wait_for("it trains", lambda: "step 3 " in _tail(site.ada, job), timeout_s=START_S)
    placed = {one["role"]: one["node"] for one in site.ada.get(f"jobs/{job['id']}/")["replicas"]}
    assert sorted(placed.values()) == ["node-1", "node-2"]
    a, b = site.other(placed["worker"])
    site.pods.must("cordon", a.name)
    try:
        notebook = Service(site.ada, "notebook", name="book", cpu="100m", memory="512Mi")
        board = Service(site.ada, "tensorboard", name="board", job=job["id"])
        notebook.wait("running", timeout_s=START_S)
        board.wait("running", timeout_s=START_S)
    finally:
        site.pods.must("uncordon", a.name)
    found = site.pods_of(notebook.id, board.id)
    assert [pod["spec"]["nodeName"] for pod in found] == [b.name, b.name]

    kill = a.enter("pkill", "-KILL", "-f", str(a.brick))
    assert subprocess.run(kill, check=False).returncode == 0
    [place] = set(re.findall(r"in (/log/\S+)", _tail(site.ada, job)))
    lab = enter(notebook)
    for address in (SITE["NODE_HOST"], site.cluster.nodes[1].address):  # one of each node
        base = lab.base.replace(SITE["NODE_HOST"], address)
        assert Lab(base, lab.cookie).status() == 200
        assert requests.get(f"{base}api/status", timeout=30).status_code == 401
    with lab.kernel() as kernel:
        kernel.run(READ)

        def step() -> int:
            return int(kernel.run(f"print(read({place + '/checkpoint'!r}))").split()[0])

        seen = step()
        wait_for("it goes on without a brick", lambda: step() > seen + 20)
        inside = board.enter()
        sums = "data/plugin/scalars/scalars?run=.&tag=sum"
        wait_for(
            "its board shows what came since",
            lambda: (answer := inside.get(sums)).ok and answer.json()[-1][1] > seen + 20,
            timeout_s=90,
        )
        kernel.run("open('/data/enough', 'w').close()")
    site.ada.wait(job, "succeeded", timeout_s=START_S)
    [(steps, total)] = re.findall(
        r"the sum of (\d+) by [\d.]+:\d+ is (\d+)",  # its server was told by address, not by name
        wait_for("its log", lambda: log(site.ada, job["id"])),
    )
    assert int(total) == sum(range(int(steps) + 1))
    used = {one["replica"]: one for one in site.ada.get(f"jobs/{job['id']}/usage/")["results"]}
    assert used["worker-0"]["peak"]["memory_mib"] > 10  # of its own group, as a kubelet makes it
    # Its folder has no quota, so what can be told is the use of the whole brick's disk.
    assert "log_mib" not in used["worker-0"]["totals"]
    start = a.enter("gluster", "volume", "start", gluster.VOLUME, "force")
    assert subprocess.run(start, capture_output=True, check=False).returncode == 0
    for service in (notebook, board):
        service.do("stop")
        service.wait("stopped", timeout_s=START_S)


def test_viewers_of_a_log_miss_no_line_while_everything_is_started_anew(site: Site) -> None:
    job = site.ada.submit(
        name="counts", command=python(COUNT, "/data/seen"), replicas={"worker": SMALL}
    )
    site.ada.wait(job, "running", timeout_s=START_S)
    admins = [site.portal.invite(f"admin-{number}", "admin") for number in range(VIEWERS // 10)]
    viewers = [Follower(admin, job["id"]) for admin in admins for _ in range(10)]
    wait_for("all look on", lambda: all(len(one.lines) > 20 for one in viewers))
    before = {name: site.uids(name) for name in ("web", "reconciler")}
    site.pods.must(
        "-n", "homeport", "rollout", "restart", *(f"deployment/{name}" for name in before)
    )
    site.rolled_out(*before)
    for name, old in before.items():
        wait_for(
            f"{name} is another", lambda n=name, o=old: not site.uids(n) & o, timeout_s=START_S
        )
    came = len(viewers[0].lines)
    wait_for("lines come", lambda: all(len(one.lines) > came + 50 for one in viewers))
    [pod] = site.pods_of(job["id"])
    assert lives([pod]) == {pod["metadata"]["uid"]: 0}
    site.touch(job, "/data/seen")
    site.ada.wait(job, "succeeded", timeout_s=START_S)
    wait_for("all have seen its end", lambda: all(one.is_over for one in viewers))
    kept = wait_for("its archive", lambda: log(site.ada, job["id"])).splitlines()
    count = sum("count" in line for line in kept)
    seen = [Counter(one.numbers("worker-0")) for one in viewers]
    wrong = [sorted(n for n in range(count) if one[n] != 1) for one in seen]
    assert [
        f"{[(n, one[n]) for n in places[:9]]}, {len(places)} in all"
        for one, places in zip(seen, wrong, strict=True)
        if places
    ] == []
    assert all(one.numbers("worker-0") == list(range(count)) for one in viewers)
    assert {one.skipped for one in viewers} == {0}
    assert all(one.breaks for one in viewers), "nobody stayed on a web that ended"


def test_a_training_goes_on_when_its_node_is_lost_with_a_web_and_a_reconciler(site: Site) -> None:
    """The last: half of Homeport is gone with the node, and what the training left is rescued by the other half."""
    lost, left = site.cluster.nodes
    site.pods.must("cordon", left.name)
    try:
        job, ended = [
            site.ada.submit(name=name, command=python(SAVING), replicas={"worker": SMALL})
            for name in ("saves", "ended")
        ]
        for one in (job, ended):
            wait_for("it has saved", lambda o=one: "saved" in _tail(site.ada, o), timeout_s=START_S)
    finally:
        site.pods.must("uncordon", left.name)
    lost.cut_power()
    try:
        wait_for("the portal answers", lambda: _answers(site), timeout_s=90)
        assert site.ada.call("POST", f"jobs/{ended['id']}/stop/").ok
        plane = site.cluster.control_plane
        wait_for("the cluster knows", lambda: not is_ready(plane, lost.name), timeout_s=90)
        taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
        site.pods.must("taint", "node", lost.name, taint)
        wait_for("nobody is sent to the lost web any more", lambda: _answers(site), timeout_s=90)

        def sooner_or_later(what: str, look: Callable[[], Any], timeout_s: float = 60) -> None:
            wait_for(what, lambda: _asked_again(look), timeout_s=timeout_s)

        def get(of: dict[str, Any]) -> Any:
            return site.ada.get(f"jobs/{of['id']}/")

        def log_of(attempt: int) -> str:
            return site.ada.text(f"jobs/{job['id']}/logs/?download=1&attempt={attempt}")

        def files() -> list[str]:
            found = site.ada.get(f"jobs/{ended['id']}/artifacts/")["results"]
            return [one["path"] for one in found]

        sooner_or_later("its end", lambda: get(job)["state"] in FINAL_STATES, 2 * START_S)
        done = _asked_again(lambda: get(job))
        assert (done["state"], len(done["attempts"]), done["retries"]) == ("succeeded", 2, 0)
        sooner_or_later("it went on", lambda: "continues from step 7" in log_of(2))
        sooner_or_later("the first log is rescued", lambda: "saved step 7" in log_of(1), START_S)
        sooner_or_later("it is stopped", lambda: get(ended)["state"] == "stopped", START_S)
        sooner_or_later("the files of what was stopped", lambda: "artifacts/kept" in files(), 90)
        assert "saved step 7" in _asked_again(lambda: log(site.ada, ended["id"]))
    finally:
        site.pods.ask("taint", "node", lost.name, "node.kubernetes.io/out-of-service-")
        site.cluster.start(lost)
        site.cluster.wait_until_ready(lost)
