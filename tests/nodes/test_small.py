"""docs/cluster.md, "Small: one node", walked on a node that has what k3s has: its own commands, other values.

In a pytest call of its own: it has a cluster of one node. The images of PostgreSQL and Redis are stand-ins.
"""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.testcluster.controlplane import Options
from deploy.testcluster.nodes import network
from deploy.testcluster.nodes.cluster import NodeCluster
from tests.e2e.portal import PASSWORD
from tests.e2e.test_gate import enter, enter_by
from tests.e2e.test_services import Service
from tests.nodes.conftest import need_nodes
from tests.nodes.installed import (
    INVITATION,
    OVERLAY,
    Installed,
    commands,
    doctor,
    invitation,
    join,
    log,
    prepare,
    press,
    run,
    values,
)
from tests.nodes.pods import Pods
from tests.nodes.site import lives
from tests.tools.manifests import blocks, checkout, objects
from tests.tools.waiting import wait_for

START_S = 180
SIGNED_IN_S, FIRST_TRAINING_S = 120, 30  # at most, the images being there
SITE = values(network.address(1)) | {"NODE_CIDRS": f"{network.address(1)}/32"}
LINES = """
import time
for number in range(20):
    print("line", number, flush=True)
    time.sleep(0.2)
open("/data/kept", "w").write("here")
"""


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """A node with the default class of k3s and all images, and two addresses."""
    need_nodes()
    home = tmp_path_factory.mktemp("one-node")
    for folder in (home, *home.parents[:3]):
        folder.chmod(0o755)  # pods run as other users
    with NodeCluster(home, Options(), count=1, is_thrown_away=True, say=print) as cluster:
        prepare(cluster, tmp_path_factory.mktemp("images"))
        yield cluster


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return checkout(tmp_path_factory.mktemp("site"))


def test_an_apply_that_was_interrupted_is_told_and_mended_by_the_next(
    one_node: NodeCluster, folder: Path
) -> None:
    """It ends when Homeport's own pods are made, and its database is not; all of it goes afterwards."""
    page, pods = commands(SITE), Pods(one_node.kubeconfig)
    for command in page[:3]:
        run(folder, command, one_node.kubeconfig)
    documents = objects(folder / OVERLAY)
    kinds = [one["kind"] for one in documents]
    pods.apply(*documents[: kinds.index("StatefulSet")])

    def says() -> str:
        return pods.ask("-n", "homeport", "logs", "deployment/web").out

    wait_for("its log says why", lambda: "the database cannot be used yet" in says())
    label = "app.kubernetes.io/component in (web,reconciler)"
    own = ("-n", "homeport", "pods", "-l", label)
    before = lives(pods.get(*own)["items"])
    for command in page[3:5]:
        run(folder, command, one_node.kubeconfig)
    assert lives(pods.get(*own)["items"]) == before
    run(folder, f"kubectl delete -k {OVERLAY} --ignore-not-found", one_node.kubeconfig)


def test_the_page_leads_from_an_empty_node_to_a_notebook(
    one_node: NodeCluster,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = commands(SITE)
    began = time.monotonic()
    said = [run(folder, command, one_node.kubeconfig) for command in page[: INVITATION + 1]]
    certificate = folder / OVERLAY / "tls.crt"
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    session = join(invitation(said[-1]))
    home = session.get(SITE["PUBLIC_URL"], timeout=30)
    assert "Sign out" in home.text, home.text[:2000]
    signed_in_s = time.monotonic() - began
    portal = Installed(tmp_path / "nothing", address=SITE["PUBLIC_URL"])
    press(session, home, "/tenant/make/")
    portal.sign_in("ann").tenant(timeout_s=120)
    train, open_notebook = page[INVITATION + 1 :]
    followed = run(folder, train, one_node.kubeconfig, typed=f"{PASSWORD}\n")
    assert re.findall(r"line \d", followed) == [f"line {n}" for n in range(1, 6)], followed
    [address] = re.findall(r"https://\S+", run(folder, open_notebook, one_node.kubeconfig))
    assert enter_by(address).status() == 200
    walked_s = time.monotonic() - began
    assert walked_s < 600

    bob = portal.invite("bob")
    bob.tenant(timeout_s=120)
    began = time.monotonic()
    job = bob.submit(
        name="lines",
        image="docker.io/library/python:3.11-slim",
        command=["python3", "-c", LINES],
        replicas={"worker": {"cpu": "200m", "memory": "128Mi"}},
    )
    wait_for(
        "its log is live",
        lambda: "line 3" in bob.text(f"jobs/{job['id']}/logs/?tail=50"),
        timeout_s=START_S,
    )
    bob.wait(job, "succeeded", timeout_s=START_S)
    trained_s = time.monotonic() - began
    wait_for("its log is archived", lambda: "line 19" in log(bob, job["id"]), timeout_s=60)
    notebook = Service(bob, "notebook", name="book", cpu="300m", memory="512Mi")
    notebook.wait("running", timeout_s=START_S)
    assert enter(notebook).status() == 200
    again = run(folder, page[3], one_node.kubeconfig)
    assert not re.search(r"created$", again, re.MULTILINE), again
    assert run(folder, f"kubectl diff -k {OVERLAY}", one_node.kubeconfig) == ""
    for command in blocks("Does it work?"):
        run(folder, command, one_node.kubeconfig)
    examined = doctor(Pods(one_node.kubeconfig))

    def is_shown() -> bool:
        health = session.get(f"{SITE['PUBLIC_URL']}/admin/health/", timeout=30)
        return "12 checks passed" in health.text

    wait_for("the health page shows it", is_shown, timeout_s=60)
    run(
        folder, "homeport doctor", one_node.kubeconfig
    )  # from the laptop of step 7; ends with 0 if all of it works
    with capsys.disabled():
        print(
            f"\nsigned in {signed_in_s:.0f} s after the first command, a training in {trained_s:.0f} s more; "
            f"the page walked to its notebook in {walked_s:.0f} s; doctor: {examined}"
        )
    assert signed_in_s <= SIGNED_IN_S
    assert trained_s <= FIRST_TRAINING_S
