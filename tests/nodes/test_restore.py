"""docs/cluster.md, "Backup and restore", by its own commands: the database is dropped while a training and a notebook run."""

import re
import subprocess

from deploy.testcluster.nodes import gluster
from tests.e2e.test_gate import enter
from tests.e2e.test_services import Service
from tests.nodes import counting
from tests.nodes.installed import log
from tests.nodes.site import Site, lives
from tests.nodes.test_inside import SMALL, START_S, python
from tests.tools.manifests import blocks
from tests.tools.waiting import wait_for

COUNTED = "select count(*) from jobs_logsegment"
SAYS = "import pathlib, sys; print('said', flush=True)"


def _segments(site: Site) -> int:
    """How many the database knows, of all logs."""
    asked = f"kubectl -n homeport exec postgres-0 -- psql -At -U homeport -c '{COUNTED}' homeport"
    return int(site.run(asked))


def _copy(site: Site, name: str) -> None:
    """From the claim and back to it."""
    begin, *copies = blocks("Copies of backups elsewhere")
    assert name in site.run(begin)
    for command in copies:
        line, count = re.subn(r"(?m)^FILE=.*$", f"FILE={name}", command)
        assert count == 1
        site.run(line)
    site.run("kubectl -n homeport delete job backups --wait")


def test_a_dropped_database_comes_back_and_what_runs_ends_with_its_log(site: Site) -> None:
    done = site.ada.submit(name="ended", command=python(SAYS), replicas={"worker": SMALL})
    site.ada.wait(done, "succeeded", timeout_s=START_S)
    wait_for("its log is archived", lambda: "said" in log(site.ada, done["id"]), timeout_s=90)
    counts = counting.of(site, "restored")
    notebook = Service(site.ada, "notebook", name="kept", cpu="100m", memory="512Mi")
    notebook.wait("running", timeout_s=START_S)
    before = lives(site.pods_of(counts.job["id"], notebook.id))

    make, restore = blocks("Backup and restore")
    [file] = re.findall(r"/backups/\S+\.backup", site.run(make))
    on_node = f"{gluster.MOUNT}/pv/homeport/backups-*/{file.rpartition('/')[2]}"
    listed = site.cluster.nodes[1].enter("sh", "-c", f"python3 -m zipfile -t {on_node}")
    assert (
        "Done testing" in subprocess.run(listed, capture_output=True, text=True, check=True).stdout
    )
    _copy(site, file.rpartition("/")[2])
    brought = _segments(site)
    wait_for("more of a log is brought", lambda: _segments(site) > brought, timeout_s=90)
    restore, count = re.subn(r"(?m)^FILE=.*$", f"FILE={file}", restore)
    assert count == 1
    said = site.run(restore)
    site.double()
    unknown = re.findall(r"(?m)^(.*) that no row knows: (\d+)$", said)
    assert len(unknown) == 5
    assert {number for _, number in unknown} == {"0"}, said

    assert lives(site.pods_of(counts.job["id"], notebook.id)) == before
    assert enter(notebook).status() == 200
    assert "said" in log(site.ada, done["id"]), "the store was not lost"
    counts.end()
    notebook.do("stop")
    notebook.wait("stopped", timeout_s=START_S)
