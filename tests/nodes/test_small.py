"""docs/cluster.md, "Small: one node", walked on a node that has what k3s has: its own commands, other values.

In a pytest call of its own: it has a cluster of one node. The images of PostgreSQL and Redis are stand-ins.
"""

import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from deploy.testcluster.controlplane import Options
from deploy.testcluster.nodes import network
from deploy.testcluster.nodes.cluster import NodeCluster
from tests.e2e.portal import PASSWORD, Portal, Rest
from tests.e2e.test_gate import enter
from tests.e2e.test_services import Service
from tests.image.build import archive
from tests.nodes import stand_ins
from tests.nodes.conftest import need_nodes
from tests.nodes.pods import Pods
from tests.tools.kubectls import current_kubectl
from tests.tools.manifests import blocks, checkout
from tests.tools.waiting import wait_for

OVERLAY = "deploy/kubernetes/overlays/small"
K3S = Path(__file__).with_name("k3s_storage.yaml")
IMAGE = "registry.example/homeport:0.1.0"
START_S = 180
PORTAL = network.address(1)
NODE_HOST = "10.99.0.21"  # a second address of the node stands for its second name
# The values of the page's first block; nothing else of the page is changed.
VALUES = {
    "PORTAL_IMAGE": IMAGE,
    "PUBLIC_URL": f"https://{PORTAL}:30443",
    "NODE_HOST": NODE_HOST,
    "NODE_CIDRS": f"{PORTAL}/32",
    "CLIENT_CIDRS": network.CLIENTS,
    "POD_CIDR": network.PODS,
}
LINES = """
import time
for number in range(20):
    print("line", number, flush=True)
    time.sleep(0.2)
open("/data/kept", "w").write("here")
"""


@dataclass
class Installed(Portal):
    """Homeport in pods, which people reach by HTTPS; no process of it is ours."""

    address: str = ""

    @property
    def url(self) -> str:
        return self.address

    def tail(self, lines: int = 60) -> str:
        return "its log is in the cluster"


@pytest.fixture(scope="module")
def one_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeCluster]:
    """A node with the default class of k3s and all images, and two addresses."""
    need_nodes()
    images = tmp_path_factory.mktemp("images")
    archives = [archive(images, IMAGE), stand_ins.archive(images)]
    home = tmp_path_factory.mktemp("one-node")
    for folder in (home, *home.parents[:3]):
        folder.chmod(0o755)  # pods run as other users
    with NodeCluster(home, Options(), count=1, is_thrown_away=True, say=print) as cluster:
        [node] = cluster.nodes
        subprocess.run(
            node.enter("ip", "address", "add", f"{NODE_HOST}/24", "dev", "eth0"), check=True
        )
        for file in archives:
            subprocess.run(node.ctr("images", "import", str(file)), check=True, capture_output=True)
        Pods(cluster.kubeconfig).must("apply", "-f", str(K3S))
        yield cluster


def _run(folder: Path, command: str, kubeconfig: Path) -> str:
    """A block of the page in its reader's shell."""
    environment = {
        "PATH": f"{Path(current_kubectl()).parent}:{os.environ['PATH']}",
        "KUBECONFIG": str(kubeconfig),
    }
    done = subprocess.run(
        ["sh", "-ec", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=660,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def _with_values(block: str) -> str:
    for name, value in VALUES.items():
        block, count = re.subn(rf"^{name}=.*$", f"{name}={value}", block, flags=re.MULTILINE)
        assert count == 1, f"the page's first block has no line {name}"
    return block


def _join(link: str) -> requests.Session:
    """Open the link of an invitation, set a password, and be signed in."""
    session = requests.Session()
    page = session.get(link, timeout=30)
    assert page.ok, page
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found, page.text
    fields = {"csrfmiddlewaretoken": found[1], "new_password1": PASSWORD, "new_password2": PASSWORD}
    answer = session.post(page.url, fields, timeout=30, headers={"Referer": page.url})
    assert answer.ok, answer.text
    return session


def test_the_page_leads_from_an_empty_node_to_a_notebook(
    one_node: NodeCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = checkout(tmp_path)
    first, *others = blocks("Small: one node")
    began = time.monotonic()
    said = [
        _run(folder, command, one_node.kubeconfig) for command in (_with_values(first), *others)
    ]
    found = re.search(r"https://\S+", said[-1])
    assert found, said[-1]
    certificate = folder / OVERLAY / "tls.crt"
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(certificate))
    session = _join(found[0])
    home = session.get(VALUES["PUBLIC_URL"], timeout=30)
    assert "Sign out" in home.text, home.text[:2000]
    signed_in_s = time.monotonic() - began

    portal = Installed(tmp_path / "nothing", address=VALUES["PUBLIC_URL"])
    person = {"username": "bob", "role": "researcher"}
    invited = portal.sign_in("ann").call("POST", "users/", json=person)
    assert invited.status_code == 201, invited.text
    _join(invited.json()["join_url"])
    bob = portal.sign_in("bob")
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
    wait_for("its log is archived", lambda: "line 19" in _log(bob, job["id"]), timeout_s=60)
    notebook = Service(bob, "notebook", name="book", cpu="300m", memory="512Mi")
    notebook.wait("running", timeout_s=START_S)
    assert enter(notebook).status() == 200
    again = _run(folder, others[2], one_node.kubeconfig)
    assert not re.search(r"created$", again, re.MULTILINE), again
    assert _run(folder, f"kubectl diff -k {OVERLAY}", one_node.kubeconfig) == ""
    with capsys.disabled():
        print(
            f"\nsigned in {signed_in_s:.0f} s after the first command, a training in {trained_s:.0f} s more"
        )


def _log(rest: Rest, job: str) -> str:
    return rest.text(f"jobs/{job}/logs/?download=1")
