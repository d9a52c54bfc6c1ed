"""What goes wrong beneath Homeport in pods of two nodes: it is told where an admin looks, and goes on when it is mended.

In a pytest call of its own, as it stays installed.
"""

import json
import re
import subprocess
from pathlib import Path

from deploy.testcluster.nodes import gluster, products
from tests.nodes import counting
from tests.nodes.installed import log
from tests.nodes.site import Site, lives
from tests.nodes.test_inside import SMALL, START_S, python
from tests.tools.waiting import wait_for

AHEAD_S = 90
NO_ROOM = "Check the S3_ settings, or the free space of the disk"
# Writes until there is no room for it, says a good deal about that, and fails.
WRITE = """
import itertools, time
for number in itertools.count():
    print("wrote", number, flush=True)
    try:
        with open(f"/data/{number}", "w") as file:
            file.write("x" * 4096)
    except OSError as error:
        print("no more:", error, "!" * 100_000, flush=True)
        raise SystemExit(1)
    time.sleep(0.2)
"""
# The clock of a machine is moved for whoever loads this, as often as the file is written.
CLOCK = {
    "LD_PRELOAD": "/clock/clock.so",
    "FAKETIME_TIMESTAMP_FILE": "/tmp/clock",
    "FAKETIME_NO_CACHE": "1",
    "FAKETIME_DONT_FAKE_MONOTONIC": "1",
}


def _homeports(site: Site) -> dict[str, int]:
    """Lives of web servers and reconcilers."""
    label = "app.kubernetes.io/component in (web,reconciler)"
    found = site.pods.get("-n", "homeport", "pods", "-l", label)["items"]
    return lives(one for one in found if "deletionTimestamp" not in one["metadata"])


class Page:
    """The health page, as an admin reads it."""

    def __init__(self, site: Site) -> None:
        self._session, self._url = site.portal.session("ann"), f"{site.portal.url}/admin/health/"

    def says(self, pattern: str) -> int:
        """How often."""
        return len(re.findall(pattern, self._session.get(self._url, timeout=30).text))


def test_clocks_that_are_apart_are_told_and_nothing_is_ended(site: Site) -> None:
    """The reconcilers' is moved while they run, and set right."""
    library = products.packages() / products.FAKETIME
    made = ("configmap", "clock", f"--from-file=clock.so={library}")
    site.pods.must("-n", "homeport", "create", *made)
    container = {
        "name": "reconciler",
        "env": [{"name": name, "value": value} for name, value in CLOCK.items()],
        "volumeMounts": [{"name": "clock", "mountPath": "/clock"}],
    }
    spec = {
        "containers": [container],
        "volumes": [{"name": "clock", "configMap": {"name": "clock"}}],
    }
    patch = json.dumps({"spec": {"template": {"spec": spec}}})
    site.pods.must("-n", "homeport", "patch", "deployment/reconciler", "-p", patch)
    site.rolled_out("reconciler")
    label = "app.kubernetes.io/component=reconciler"
    found = site.pods.get("-n", "homeport", "pods", "-l", label)["items"]
    names = [one["metadata"]["name"] for one in found if "deletionTimestamp" not in one["metadata"]]

    def set_clocks(ahead_s: int) -> None:
        for name in names:
            write = f"echo +{ahead_s}s > /tmp/clock.new && mv /tmp/clock.new /tmp/clock"
            site.pods.must("-n", "homeport", "exec", name, "--", "sh", "-c", write)

    set_clocks(0)
    page, before = Page(site), _homeports(site)
    counts = counting.of(site, "late")
    pods = lives(site.pods_of(counts.job["id"]))
    set_clocks(AHEAD_S)
    apart = r"the API server is (89|90|91) s behind the reconciler"
    wait_for("the health page says so", lambda: page.says(apart), timeout_s=90)
    assert page.says("Let every machine set its clock by NTP")
    other = site.ada.submit(name="other", command=["true"], replicas={"worker": SMALL})
    site.ada.wait(other, "succeeded", timeout_s=START_S)
    set_clocks(0)
    wait_for(
        "the health page is content", lambda: not page.says("behind the reconciler"), timeout_s=90
    )
    assert lives(site.pods_of(counts.job["id"])) == pods
    assert _homeports(site) == before
    counts.end()
    site.pods.must("-n", "homeport", "rollout", "undo", "deployment/reconciler")
    site.rolled_out("reconciler")


def test_a_full_brick_is_told_keeps_nobody_running_and_loses_nothing(
    site: Site, tmp_path: Path
) -> None:
    """The object store lies there, too. To a client a brick that keeps more than is free in reserve is a full one."""
    bundle = tmp_path / "code.py"
    bundle.write_text("print(1)")
    page, before = Page(site), _homeports(site)

    def reserve(*words: str) -> None:
        node, option = site.cluster.nodes[0], (gluster.VOLUME, "storage.reserve")
        command = node.enter("gluster", "--mode=script", "volume", words[0], *option, *words[1:])
        subprocess.run(command, check=True, capture_output=True)

    def upload() -> int:
        with bundle.open("rb") as file:
            return site.ada.call("POST", "bundles/", files={"file": file}).status_code

    job = site.ada.submit(name="writes", command=python(WRITE), replicas={"worker": SMALL})
    tail = f"jobs/{job['id']}/logs/?tail=50"
    wait_for("it writes", lambda: "wrote 9" in site.ada.text(tail), timeout_s=START_S)
    reserve("set", "99")
    try:
        done = site.ada.wait(job, "failed", timeout_s=150)
        assert done["reason"]["code"] == "volume_full", done["reason"]
        wait_for("the health page says so", lambda: page.says(NO_ROOM), timeout_s=90)
        assert upload() == 507
    finally:
        reserve("reset")
    wait_for("uploads are taken", lambda: upload() == 201, timeout_s=90)
    wait_for("the health page is content", lambda: not page.says(NO_ROOM), timeout_s=90)
    columns = "is_complete, exit_code, exit_reason, skipped_bytes > 99999"
    found = f"SELECT {columns} FROM jobs_replicaarchive WHERE workload_id = '{job['id']}'"
    ask = ("exec", "postgres-0", "--", "psql", "-tA", "-U", "homeport", "-c", found)
    wait_for(
        "what was kept is archived, with what is missing and why",
        lambda: site.pods.must("-n", "homeport", *ask) == "t|1|volume_full|t",
        timeout_s=START_S,
    )
    assert "wrote 0\n" in log(site.ada, job["id"])
    assert _homeports(site) == before
